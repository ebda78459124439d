//! `imagepuller serve`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cdh_client::AttestationAgent;
use clap::Args;
use registry_client::{Documents, HubConfiguration};
use registry_config::ResourceSource;
use tracing::Level;

use super::{EX_SOFTWARE, EX_USAGE, LogFormat, fail, terminated};
use crate::error::chain;
use crate::hub;
use crate::reasons::{self, Reasons};
use crate::service::{self, Settings, Timing};
use crate::socket::{Address, Listening};

/// Where the kernel shows its parameters.
const KERNEL_PARAMETERS: &str = "/proc/cmdline";

/// Serve pulls on unix sockets until SIGTERM.
///
/// Listens at once, with mode 0600. The configuration is read anew for each pull, so a corrected
/// one works without a restart. No file means no credentials and the web's public CAs; a file that
/// is not valid means that every pull is answered with what is wrong with it.
///
/// Sockets that systemd hands over (LISTEN_FDS) are served too, and then --listen may be left out.
///
/// A socket whose name is cdh.sock is taken for the confidential data hub's, as a stock Kata agent
/// does with /run/confidential-containers/cdh.sock: there all calls but image pulls are forwarded
/// to --upstream as they are, or answered with UNIMPLEMENTED if there is none.
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen, as unix:PATH; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<Address>,
    /// Directory for layers, on a file system with trusted extended attributes (tmpfs, ext4)
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// A mount point at or above --store: each pull waits until a file system is mounted there, at
    /// most 60 s
    #[arg(long, value_name = "DIR")]
    store_mount: Option<PathBuf>,
    /// The least grave lines of the log: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", default_value_t = Level::INFO, value_parser = log_level)]
    log_level: Level,
    /// How the log is written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// The configuration, commonly /run/insecure-cfg/imagepuller.toml
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The document that measured initdata brought, which comes before --config and may name
    /// [resources]; none is fine
    #[arg(long, value_name = "FILE", default_value = "/run/measured-cfg/imagepuller.toml")]
    measured: PathBuf,
    /// The data hub's measured configuration; what it says of image pulls completes --measured.
    /// Where it has no [image], the kernel parameters that the hub knows do
    #[arg(long, value_name = "FILE", default_value = "/run/measured-cfg/cdh.toml")]
    cdh: PathBuf,
    /// Socket of a confidential data hub that was moved out of the way, as unix:PATH. It, or the
    /// one at the usual place, is asked for what is given by reference, unless [resources] of
    /// --measured names another source
    #[arg(long, value_name = "ADDRESS")]
    upstream: Option<Address>,
    /// Socket of initdata-processor refresh --listen, as unix:PATH; it is asked to read the
    /// configuration disk when a pull fails for what a configuration decides, and if there is
    /// another one then, the pull begins anew
    #[arg(long, value_name = "ADDRESS")]
    refresher: Option<Address>,
    /// Socket of the attestation agent, as unix:PATH. Where it listens, its event log gets an
    /// entry for each pull and for each new configuration
    /// [default: where CoCo's programs expect it]
    #[arg(long, value_name = "ADDRESS")]
    attestation_agent: Option<Address>,
    /// Where it is kept why references gave nothing, for imagepuller status: a file in the guest's
    /// memory, for root alone
    #[arg(long, value_name = "FILE", default_value = reasons::DEFAULT_PATH)]
    reasons: PathBuf,
}

impl Serve {
    /// What is logged, and how.
    pub fn log(&self) -> (Level, LogFormat) {
        (self.log_level, self.log_format)
    }
}

/// A level by its name. What is below debug is not said by any room.
fn log_level(name: &str) -> Result<Level, String> {
    let level = name.parse::<Level>().ok();
    let level = level.filter(|level| *level <= Level::DEBUG && name.parse::<u8>().is_err());
    level.ok_or_else(|| "is error, warn, info or debug".to_owned())
}

/// Serves until told to stop.
pub async fn run(arguments: Serve, timing: Timing) -> ExitCode {
    let inherited = match Listening::inherited() {
        Ok(sockets) => sockets,
        Err(error) => return fail(&format!("failed to serve: {}", chain(&error)), EX_SOFTWARE),
    };
    if let Some(upstream) = &arguments.upstream {
        let mut passed = inherited.iter().map(Listening::path);
        if arguments.listen.contains(upstream) || passed.any(|path| path == upstream.path()) {
            return fail("--upstream is a socket of this service", EX_USAGE);
        }
    }
    if let Some(mount) = &arguments.store_mount
        && !arguments.store.starts_with(mount)
    {
        return fail("--store is not in the file system that --store-mount waits for", EX_USAGE);
    }
    if inherited.is_empty() && arguments.listen.is_empty() {
        let missing =
            "nothing to listen on: give --listen unix:PATH, or start it by a systemd socket unit";
        return fail(missing, EX_USAGE);
    }
    match serve(arguments, timing, inherited).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("failed to serve: {error:#}"), EX_SOFTWARE),
    }
}

/// The data hub that this guest has, as far as can be told: the one behind this service, or the one
/// at the usual place.
fn data_hub(upstream: Option<&Address>, sockets: &[Listening]) -> Option<ResourceSource> {
    let path = match upstream {
        Some(upstream) => upstream.path(),
        None => Path::new(hub::SOCKET),
    };
    let is_own = sockets.iter().any(|socket| socket.path() == path);
    (!is_own).then(|| ResourceSource::DataHub(path.to_owned()))
}

async fn serve(
    arguments: Serve,
    timing: Timing,
    mut sockets: Vec<Listening>,
) -> anyhow::Result<()> {
    let stop = terminated()?;
    for address in &arguments.listen {
        sockets.push(Listening::bind(address)?);
    }
    let settings = Settings {
        store: arguments.store,
        store_mount: arguments.store_mount,
        timing,
        documents: Documents {
            configuration: arguments.config,
            measured: Some(arguments.measured),
            hub: Some(HubConfiguration {
                file: arguments.cdh,
                parameters: KERNEL_PARAMETERS.into(),
            }),
            ..Documents::default()
        },
        source: data_hub(arguments.upstream.as_ref(), &sockets),
        upstream: arguments.upstream.map(|address| address.path().to_owned()),
        refresher: arguments.refresher.map(|address| address.path().to_owned()),
        attestation_agent: match &arguments.attestation_agent {
            Some(address) => address.path().to_owned(),
            None => AttestationAgent::SOCKET.into(),
        },
        reasons: Reasons::Kept(arguments.reasons),
    };
    service::serve(settings, sockets, stop).await?;
    Ok(())
}
