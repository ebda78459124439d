//! `imagepuller serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::{EX_SOFTWARE, EX_USAGE, fail};
use crate::error::chain;
use crate::service::{self, Settings};
use crate::socket::{Address, Listening};

/// Serve pulls on unix sockets until SIGTERM.
///
/// Listens at once, with mode 0600. The configuration is read anew for each pull, so a corrected one works without a
/// restart. No file means no credentials and the web's public CAs; a file that is not valid means that every pull is
/// answered with what is wrong with it.
///
/// Sockets that systemd hands over (LISTEN_FDS) are served too, and then --listen may be left out.
///
/// A socket whose name is cdh.sock is taken for the confidential data hub's, as a stock Kata agent does with
/// /run/confidential-containers/cdh.sock: there all calls but image pulls are forwarded to --upstream as they are, or
/// answered with UNIMPLEMENTED if there is none.
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen, as unix:PATH; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<Address>,
    /// Directory for layers, on a file system with trusted extended attributes (tmpfs, ext4)
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// The configuration, commonly /run/insecure-cfg/imagepuller.toml
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Socket of a confidential data hub that was moved out of the way, as unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    upstream: Option<Address>,
}

/// Serves until told to stop.
pub async fn run(arguments: Serve) -> ExitCode {
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
    if inherited.is_empty() && arguments.listen.is_empty() {
        let missing =
            "nothing to listen on: give --listen unix:PATH, or start it by a systemd socket unit";
        return fail(missing, EX_USAGE);
    }
    match serve(arguments, inherited).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("failed to serve: {error:#}"), EX_SOFTWARE),
    }
}

async fn serve(arguments: Serve, mut sockets: Vec<Listening>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    for address in &arguments.listen {
        sockets.push(Listening::bind(address)?);
    }
    let settings = Settings {
        store: arguments.store,
        configuration: arguments.config,
        upstream: arguments.upstream.map(|address| address.path().to_owned()),
    };
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    service::serve(settings, sockets, stop).await?;
    Ok(())
}
