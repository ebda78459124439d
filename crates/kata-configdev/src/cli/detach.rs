//! `kata-configdev detach`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use config_image::Magic;
use serde_json::json;

use super::config::SettingsFile;
use crate::cli::CommandError;
use crate::sandbox_id::SandboxId;
use crate::settings::{Settings, SettingsError};
use crate::shared_image;
use crate::transport::Transport;

/// Removes what attach left for a sandbox.
///
/// That is the file of the transport "file", the socket for updates of "vhost-user", and their
/// directory if nothing else is in it. The other transports leave nothing. Doing it again is no
/// error.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Example:
  kata-configdev detach --sandbox-id 9d2c7e"
)]
pub struct Arguments {
    /// The sandbox's id.
    #[arg(long, value_name = "ID")]
    sandbox_id: SandboxId,
    #[command(flatten)]
    run_root: RunRoot,
    /// Print one JSON object: sandbox_id, path, removed.
    #[arg(long)]
    json: bool,
}

/// What `/run` is.
#[derive(Args, Debug)]
pub struct RunRoot {
    #[command(flatten)]
    settings: SettingsFile,
    /// What /run is, instead of run-root of the settings, which then are not read.
    #[arg(long, value_name = "DIR")]
    run_root: Option<PathBuf>,
}

impl RunRoot {
    /// The argument, or what the settings say.
    pub fn resolve(&self) -> Result<PathBuf, SettingsError> {
        match &self.run_root {
            Some(path) => Ok(path.clone()),
            None => Settings::load(&self.settings.path()).map(|settings| settings.run_root),
        }
    }

    /// [`RunRoot::resolve`], and the transport where the settings are read.
    pub fn resolve_with_transport(&self) -> Result<(PathBuf, Option<Transport>), SettingsError> {
        match &self.run_root {
            Some(path) => Ok((path.clone(), None)),
            None => Settings::load(&self.settings.path())
                .map(|settings| (settings.run_root, Some(settings.transport))),
        }
    }
}

/// Removes the image of the sandbox.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let sandbox = &arguments.sandbox_id;
    let run_root = arguments.run_root.resolve()?;
    let path = shared_image::path(&run_root, sandbox, Magic::IMAGEPULLER);
    let removed = shared_image::remove(&run_root, sandbox)?;
    if arguments.json {
        let members = [
            ("sandbox_id", json!(sandbox.as_str())),
            ("path", json!(path)),
            ("removed", json!(removed)),
        ];
        super::print_object(out, members)?;
    } else if removed {
        writeln!(out, "{}: removed", path.display())?;
    } else {
        writeln!(out, "{}: nothing to remove", path.display())?;
    }
    Ok(0)
}
