//! `imagepuller pull`.

use std::future::pending;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use foreign_text::shown;
use oci_image::named::NamedReference;
use oci_image::platform::Platform;
use registry_client::Patience;
use serde_json::json;

use super::documents::DocumentOptions;
use super::{EX_DATAERR, EX_SOFTWARE, INTERRUPTED, exit_code, fail, print};
use crate::error::{Error, chain};
use crate::pull::Options;
use crate::pull::output::{Wanted, pull_to};
use crate::reasons::{self, Reasons};
use crate::watch::{Tell, Watch, silent};

pub mod meter;

use meter::Meter;

/// How often the same is asked for: somebody who looks on learns after seconds that a registry is
/// not there.
const ATTEMPTS: u32 = 5;

/// Exit code for an output directory that cannot be made or has something in it (`EX_CANTCREAT`).
const EX_CANTCREAT: u8 = 73;

/// Pull one image into a directory, without a service and without a mount.
///
/// DIR is absent or empty. The image's files go to DIR/rootfs and its configuration to
/// DIR/image-config.json, with owners and modes as the image has them, which takes root. If
/// anything goes wrong, or on Ctrl-C, nothing is left behind.
///
/// A progress bar is shown where standard error is a terminal, otherwise log lines. The digest of
/// the image's manifest is printed on standard output at the end.
///
/// With --policy, or [image-policy] of --measured, the image needs the signatures that the policy
/// asks for, and no layer is fetched before they were found and verified. A tag then needs no
/// digest where --policy asks for a signature, or allow-tags of [image-policy] has a scope for it.
///
/// Exits with 65 if the reference, the image or the configuration is wrong or the policy refuses
/// the image, with 69 if the registry cannot be reached or denies access, or there is no room, with
/// 73 if DIR cannot be used.
#[derive(Debug, Args)]
pub struct Pull {
    #[command(flatten)]
    documents: DocumentOptions,
    /// The directory for the image
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// The platform to choose, as os/architecture or os/architecture/variant [default: this
    /// machine's]
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<String>,
    /// Take whatever image the registry has under a tag that --measured does not pin. Nothing
    /// vouches for that image; its digest is printed
    #[arg(long)]
    insecure_no_digest: bool,
    /// Pull only what this image policy lets run, in the form of containers-policy.json(5); not
    /// beside an [image-policy] of --measured. A keyPath is a file beside it, an absolute path, or
    /// kbs:///repository/type/tag
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Where it is kept why references gave nothing, for imagepuller status
    #[arg(long, value_name = "FILE", default_value = reasons::DEFAULT_PATH)]
    reasons: PathBuf,
    /// Print events as JSON objects, one per line, and nothing else on standard output
    #[arg(long)]
    json: bool,
    /// The image by digest, such as registry.corp:5000/team/app@sha256:..., or by a tag that
    /// [pins] of --measured has
    image: String,
}

impl Pull {
    /// Whether the user looks at a bar, and log lines about what goes well would be in its way.
    pub fn has_meter(&self) -> bool {
        !self.json && std::io::stderr().is_terminal()
    }

    /// Whether only what goes wrong is to be logged.
    pub fn is_quiet(&self) -> bool {
        self.json || self.has_meter()
    }

    fn wanted(&self) -> Result<Wanted, String> {
        let name = NamedReference::parse(&self.image).map_err(|error| error.to_string())?;
        Ok(Wanted { name, written: self.image.clone(), may_be_unpinned: self.insecure_no_digest })
    }
}

/// Pulls, and shows the progress.
pub async fn run(arguments: Pull) -> ExitCode {
    let platform = arguments.platform.as_deref().map(Platform::parse);
    let platform = match platform.transpose() {
        Ok(platform) => platform.unwrap_or_else(Platform::of_guest),
        Err(error) => return fail(&format!("--platform: {error}"), super::EX_USAGE),
    };
    let tell: Tell = match arguments.json {
        true => |event| print(&event.to_string()),
        false => silent,
    };
    let failed = |message: &str, code| {
        let message = format!("failed to pull {}: {message}", shown(&arguments.image));
        tell(&json!({"event": "failed", "error": message, "exitCode": code}));
        fail(&message, code)
    };
    let wanted = match arguments.wanted() {
        Ok(wanted) => wanted,
        Err(message) => return failed(&message, EX_DATAERR),
    };
    let documents = match arguments.documents.open() {
        Ok(documents) => documents,
        Err(message) => return failed(&message, EX_DATAERR),
    };
    let stopped = match super::terminated() {
        Ok(stopped) => stopped,
        Err(error) => return failed(&error.to_string(), EX_SOFTWARE),
    };
    let meter = arguments.has_meter().then(|| Meter::show(&arguments.image));
    let options = Options {
        platform,
        patience: Patience { attempts: Some(ATTEMPTS), ..Patience::default() },
        reasons: Reasons::Kept(arguments.reasons.clone()),
        policy: arguments.policy.clone(),
        ..Options::default()
    };
    let watch = Watch::new(&arguments.image, tell);
    let moving = async {
        match &meter {
            Some(meter) => meter.follow(&watch).await,
            None => pending().await,
        }
    };
    let pulled = tokio::select! {
        pulled = pull_to(&wanted, &arguments.output, documents, options, &watch) => pulled,
        never = moving => match never {},
        () = stopped => {
            drop(meter);
            return failed("interrupted", INTERRUPTED);
        }
    };
    match (meter, &pulled) {
        (Some(meter), Ok(_)) => meter.finish(&watch.snapshot()),
        (meter, _) => drop(meter),
    }
    match pulled {
        Ok(manifest) => {
            let (manifest, output) = (manifest.to_string(), arguments.output.to_string_lossy());
            match arguments.json {
                true => tell(&json!({
                    "event": "done", "manifestDigest": manifest, "output": output,
                })),
                false => print(&manifest),
            }
            ExitCode::SUCCESS
        }
        Err(error) => failed(&chain(&error), code(&error, &arguments.output)),
    }
}

fn code(error: &Error, output: &Path) -> u8 {
    match error {
        Error::Output { .. } => EX_CANTCREAT,
        Error::Store(layer_store::Error::File { path, .. }) if path == output => EX_CANTCREAT,
        _ => exit_code(error.kind()),
    }
}
