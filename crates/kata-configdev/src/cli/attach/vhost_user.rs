//! The transport `vhost-user` of `kata-configdev attach`.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use memory_disk::{Options, serve};
use rustix::fs::Mode;
use rustix::process::umask;
use sha2::Sha256;

use super::{Arguments, DiskReport, Report, print};
use crate::cli::NAME;
use crate::disk;
use crate::sandbox_id::SandboxId;
use crate::sandbox_image::SandboxImage;
use crate::settings::{Settings, Transport};
use crate::{Error, digest, lines};

/// How long a VMM is waited for. A runtime that failed meanwhile must not leave a process with credentials behind.
const CONNECT_WITHIN: Duration = Duration::from_secs(300);

/// Prints the report and serves the device until the VMM disconnects.
pub fn run(
    arguments: &Arguments,
    settings: &Settings,
    sandbox: &SandboxId,
    out: &mut impl Write,
) -> Result<u8, Error> {
    let path = arguments.socket.as_ref().ok_or(Error::SocketNeeded)?;
    let chosen = SandboxImage::choose(settings, &arguments.bundle)?;
    let mut report = Report {
        sandbox_id: sandbox.as_str(),
        attached: chosen.is_some(),
        disk: None,
    };
    let Some(chosen) = chosen else {
        crate::cli::print_json(out, &report)?;
        return Ok(0);
    };
    let image = chosen.pack()?;
    let (sha256, document) = (digest::hex::<Sha256>(&image), chosen.document());
    drop(chosen);
    let listener = listen(path).map_err(|source| Error::Socket {
        path: path.clone(),
        source,
    })?;
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
    // The socket exists: whoever reads this can connect.
    if let Err(error) = print(&report, out) {
        // Nobody was told of it, and it would be in the way of the next attempt.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    let options = Options {
        once: arguments.once.map(Duration::from_secs),
        connect_within: Some(CONNECT_WITHIN),
        ..Options::default()
    };
    let mut err = std::io::stderr();
    serve(listener, image, &options, |event| {
        let line = format!("{NAME}: sandbox {sandbox}: {event}");
        // Without a standard error the guest gets its disk all the same.
        let _ = writeln!(err, "{}", lines::on_one_line(&line));
    })
    .map(|_| 0)
    .map_err(Error::Serve)
}

/// Listens at `path`, where only the owner can connect.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    // A change of mode after the fact would leave a moment for others. This process has one thread.
    let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}
