//! `kata-configdev detach`.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::config::SettingsFile;
use crate::cli::{CommandError, UsageError};
use crate::host_file::FileFault;
use crate::sandbox_id::SandboxId;
use crate::settings::{Settings, SettingsError};
use crate::shared_image;
use crate::transport::Transport;

/// Removes what attach left for a sandbox.
///
/// That is the file of the transport "file", and its directory if nothing else is in it; with
/// --socket also the VMM's socket of "vhost-user", which the process that served it may not remove
/// from its sandbox. The other transports leave nothing. Doing it again is no error.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev detach --sandbox-id 9d2c7e
  kata-configdev detach --sandbox-id 9d2c7e --socket /run/vm/9d2c7e/imagepuller.sock"
)]
pub struct Arguments {
    /// The sandbox's id.
    #[arg(long, value_name = "ID")]
    sandbox_id: SandboxId,
    #[command(flatten)]
    run_root: RunRoot,
    /// The socket that attach was given for the VMM, once the VMM is gone.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print one JSON object: sandbox_id, path, removed, socket_removed.
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
    let path = shared_image::path(&run_root, sandbox);
    let socket = arguments.socket.as_deref();
    let socket_removed = socket.map(remove_socket).transpose()?;
    let removed = shared_image::remove(&run_root, sandbox)?;
    if arguments.json {
        let members = [
            ("sandbox_id", json!(sandbox.as_str())),
            ("path", json!(path)),
            ("removed", json!(removed)),
            ("socket_removed", json!(socket_removed)),
        ];
        super::print_object(out, members)?;
        return Ok(0);
    }
    let told = [(Some(path.as_path()), Some(removed)), (socket, socket_removed)];
    for (path, removed) in told {
        let (Some(path), Some(removed)) = (path, removed) else {
            continue;
        };
        let what = if removed { "removed" } else { "nothing to remove" };
        writeln!(out, "{}: {what}", path.display())?;
    }
    Ok(0)
}

/// Removes a socket; says whether it was there. Anything else stays, links too.
fn remove_socket(path: &Path) -> Result<bool, CommandError> {
    let fault = |error| CommandError::Output(FileFault::from(error).at(path));
    match path.symlink_metadata() {
        Ok(metadata) if metadata.file_type().is_socket() => {
            std::fs::remove_file(path).map(|()| true).map_err(fault)
        }
        Ok(_) => Err(UsageError::NoSocket(path.into()).into()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(fault(error)),
    }
}
