//! The transport `vhost-user` of `kata-configdev attach`.

use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use foreign_text::one_line;
use memory_disk::{Options, serve};
use rustix::fs::Mode;
use rustix::process::umask;

use super::{Arguments, DiskReport, Report, print};
use crate::cli::{CommandError, NAME, UsageError};
use crate::digest;
use crate::disk;
use crate::sandbox_document::SandboxDocument;
use crate::sandbox_id::SandboxId;
use crate::sandbox_spec;
use crate::settings::Settings;
use crate::transport::Transport;

/// How long a VMM is waited for. A runtime that failed meanwhile must not leave a process with
/// credentials behind.
const CONNECT_WITHIN: Duration = Duration::from_secs(300);

/// Prints the report and serves the device until the VMM disconnects.
pub fn run(
    arguments: &Arguments,
    settings: &Settings,
    sandbox: &SandboxId,
    out: &mut impl Write,
) -> Result<u8, CommandError> {
    let path = arguments.socket.as_ref().ok_or(UsageError::SocketNeeded)?;
    let pod = sandbox_spec::pod(&arguments.bundle)?;
    let chosen = SandboxDocument::complete(settings, &pod)?;
    let mut report =
        Report { sandbox_id: sandbox.as_str(), attached: chosen.is_some(), disk: None };
    let Some(chosen) = chosen else {
        crate::cli::print_json(out, &report)?;
        return Ok(0);
    };
    super::warn(sandbox, &chosen.warnings());
    let image = chosen.pack(settings)?;
    let (sha256, document) = (digest::sha256(&image), chosen.path.clone());
    drop(chosen);
    let listener =
        bind_private(path).map_err(|source| CommandError::Socket { path: path.clone(), source })?;
    report.disk = Some(DiskReport {
        transport: Transport::VhostUser.name(),
        path: path.clone(),
        held_by: Some(std::process::id()),
        serial: disk::NAME,
        read_only: true,
        size: image.len() as u64,
        sha256: &sha256,
        document: &document,
    });
    // The socket exists: a reader of the report can connect.
    if let Err(error) = print(&report, out) {
        // The caller does not know of it, and it would be in the way of the next attempt.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    let options = Options {
        once: arguments.once.map(Duration::from_secs),
        connect_within: Some(CONNECT_WITHIN),
    };
    let mut err = io::stderr();
    serve(listener, image, &options, |event| {
        let line = format!("{NAME}: sandbox {sandbox}: {event}");
        // Without a standard error the guest gets its disk all the same.
        let _ = writeln!(err, "{}", one_line(&line));
    })
    .map(|_| 0)
    .map_err(CommandError::Serve)
}

/// Listens at `path`, where only the owner can connect. For a process that has one thread.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    // A change of mode after the fact would leave a moment for others.
    let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}
