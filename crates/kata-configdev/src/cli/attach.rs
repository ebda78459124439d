//! `kata-configdev attach`.

mod vhost_user;

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use credential_sources::Finding;
use foreign_text::one_line;
use serde::Serialize;

use super::NAME;
use super::config::SettingsFile;
use crate::attach::{Attached, Carrier, Request, attach};
use crate::capacity::Capacity;
use crate::cli::{CommandError, UsageError};
use crate::sandbox_id::SandboxId;
use crate::settings::Settings;
use crate::shared_image;
use crate::transport::Transport;

/// Packs the document of a sandbox and prints what a block device for it needs, as JSON.
///
/// For runtimes that build the hypervisor's configuration themselves; kata-configdev-qemu does it
/// for those that do not. The document is chosen as there: the annotation in the bundle's
/// config.json, else the document of its namespace or of the node.
///
/// Transports:
///   file    a file below /run, mode 0600, until detach or sweep
///   memory  with --hold: an anonymous file, at /proc/PID/fd/N while this process lives
///   loop    with --hold: a read-only loop device, while this process lives or another
///           process has it open
///   vhost-user
///           with --socket: a device that this process serves to the first VMM that
///           connects, until it disconnects; events go to standard error. The guest's
///           memory must be shared
///
/// With --hold the process goes on after the JSON until its standard input is closed or it is
/// killed. A runtime keeps the other end of that pipe until the hypervisor has opened the path;
/// then nothing is left to clean up.
///
/// update can replace the document later: with "file", within --capacity.
///
/// Output: sandbox_id, attached (false if the sandbox gets no disk: then nothing follows),
/// transport, path, held_by (the process to keep, or null), serial, read_only, size, sha256,
/// document.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev attach --bundle . --sandbox-id 9d2c7e --transport file
  kata-configdev attach --bundle . --sandbox-id 9d2c7e --transport loop --hold < pipe
  kata-configdev attach --bundle . --sandbox-id 9d2c7e --transport vhost-user \\
    --socket /run/vc/vm/9d2c7e/imagepuller.sock --once 30"
)]
pub struct Arguments {
    /// The directory with the sandbox's config.json.
    #[arg(long, value_name = "DIR")]
    bundle: PathBuf,
    /// The sandbox's id.
    #[arg(long, value_name = "ID")]
    sandbox_id: SandboxId,
    /// How the image gets to the hypervisor [default: transport of the settings].
    #[arg(long, value_name = "TRANSPORT")]
    transport: Option<Transport>,
    /// The node's document, a path or a pattern, instead of document of the settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How large the image is at least, such as 64K, so that update can put a longer document there
    /// [default: capacity of the settings].
    #[arg(long, value_name = "BYTES")]
    capacity: Option<Capacity>,
    /// What /run is, instead of run-root of the settings.
    #[arg(long, value_name = "DIR")]
    run_root: Option<PathBuf>,
    /// Keep what ends with this process until standard input is closed.
    #[arg(long)]
    hold: bool,
    /// Where the vhost-user device listens; nothing may be there yet. Best in a folder of the
    /// sandbox.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Let the vhost-user device go dark so long after the guest has read all of it.
    #[arg(long, value_name = "SECONDS")]
    once: Option<u64>,
    #[command(flatten)]
    settings: SettingsFile,
}

impl ValueEnum for Transport {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(self.name().into())
    }
}

#[derive(Serialize)]
struct Report<'a> {
    sandbox_id: &'a str,
    attached: bool,
    #[serde(flatten)]
    disk: Option<DiskReport<'a>>,
}

#[derive(Serialize)]
struct DiskReport<'a> {
    transport: &'static str,
    path: PathBuf,
    held_by: Option<u32>,
    serial: &'a str,
    read_only: bool,
    size: u64,
    sha256: &'a str,
    document: &'a PathBuf,
}

/// Attaches, prints, and holds.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let sandbox = &arguments.sandbox_id;
    let settings = settings(arguments)?;
    let transport = settings.transport.name();
    // Before anything is made that would have to go again.
    match (settings.transport, arguments.hold) {
        (Transport::File | Transport::VhostUser, true) => {
            return Err(UsageError::HoldUseless(transport).into());
        }
        (Transport::Memory | Transport::Loop, false) => {
            return Err(UsageError::HoldNeeded(transport).into());
        }
        _ => {}
    }
    if settings.transport == Transport::VhostUser {
        return vhost_user::run(arguments, &settings, sandbox, out);
    }
    if arguments.socket.is_some() || arguments.once.is_some() {
        return Err(UsageError::SocketUseless(transport).into());
    }
    let request = Request { bundle: &arguments.bundle, sandbox };
    let attached = attach(&settings, &request)?;
    if let Some(attached) = &attached {
        warn(sandbox, &attached.warnings);
    }
    let report = Report {
        sandbox_id: sandbox.as_str(),
        attached: attached.is_some(),
        disk: attached.as_ref().map(|disk| DiskReport::of(disk, transport)),
    };
    let printed = print(&report, out);
    if printed.is_err() && settings.transport == Transport::File && attached.is_some() {
        // The caller does not know of the file. The failure to print is the one to report; sweep
        // tries again.
        let _ = shared_image::remove(&settings.run_root, sandbox);
    }
    printed?;
    if attached.is_some() && arguments.hold {
        hold();
    }
    Ok(0)
}

/// Tells on standard error what credential providers did not contribute. The sandbox gets its disk
/// all the same.
fn warn(sandbox: &SandboxId, warnings: &[Finding]) {
    for warning in warnings {
        let line = format!("{NAME}: sandbox {sandbox}: warning: {warning}");
        let _ = writeln!(std::io::stderr(), "{}", one_line(&line));
    }
}

fn print(report: &Report<'_>, out: &mut impl Write) -> Result<(), CommandError> {
    super::print_json(out, report)?;
    Ok(out.flush()?)
}

/// The node's settings with what the arguments say instead.
fn settings(arguments: &Arguments) -> Result<Settings, CommandError> {
    let mut settings = Settings::load(&arguments.settings.path())?;
    if let Some(transport) = arguments.transport {
        settings.transport = transport;
    }
    if let Some(config) = &arguments.config {
        settings.document = Some(config.clone());
    }
    settings.capacity = arguments.capacity.or(settings.capacity);
    if let Some(run_root) = &arguments.run_root {
        settings.run_root.clone_from(run_root);
    }
    Ok(settings)
}

impl<'a> DiskReport<'a> {
    fn of(disk: &'a Attached, transport: &'static str) -> Self {
        let holder = std::process::id();
        let (path, held_by) = match &disk.carrier {
            Carrier::Memory(descriptor) => {
                let path = format!("/proc/{holder}/fd/{}", descriptor.as_raw_fd());
                (path.into(), Some(holder))
            }
            Carrier::File(path) => (path.clone(), None),
            Carrier::Loop(device) => (device.path().into(), Some(holder)),
        };
        Self {
            transport,
            path,
            held_by,
            serial: &disk.serial,
            read_only: true,
            size: disk.size,
            sha256: &disk.sha256,
            document: &disk.document,
        }
    }
}

/// Waits for the end of standard input, whatever comes before it. Input that cannot be read is at
/// its end.
fn hold() {
    let mut ignored = [0; 4096];
    let mut input = std::io::stdin().lock();
    while input.read(&mut ignored).is_ok_and(|length| length > 0) {}
}
