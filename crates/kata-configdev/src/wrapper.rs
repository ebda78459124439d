//! The hypervisor wrapper: everything between Kata's call and QEMU's.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use credential_sources::Finding;
use foreign_text::one_line;

use crate::disk::{Device, Disk};
use crate::invocation::Invocation;
use crate::sandbox_document::SandboxDocument;
use crate::sandbox_id::SandboxId;
use crate::sandbox_spec::WithoutSpec;
use crate::settings::Settings;
use crate::transport::Transport;
use crate::{SandboxError, sandbox_spec, shared_image};

/// The program's name in its messages.
pub const NAME: &str = "kata-configdev-qemu";

/// Becomes QEMU with `arguments`, and with the configuration disk behind them where the sandbox
/// gets one.
///
/// Returns only where that fails: then one line stands on standard error, which Kata's runtimes
/// log, and the exit code is one of [`crate::exit`]. In the good case nothing is printed, because
/// they log every line as an error. A credential provider that does not work is a line, too, and
/// QEMU starts all the same.
///
/// What QEMU inherits is what this process inherited: process id, environment, directory, blocked
/// and ignored signals, and every descriptor with its flags; files opened here are close-on-exec.
/// Two things the Rust runtime does before and during this are visible all the same: descriptors 0
/// to 2 are opened on `/dev/null` where the caller closed them, and SIGPIPE gets its default
/// action. Both of Kata's runtimes start their hypervisor in just that state.
#[must_use]
pub fn run(arguments: &[OsString]) -> ExitCode {
    let invocation = Invocation::read(arguments);
    let Err(error) = become_qemu(arguments, &invocation);
    let sandbox = invocation
        .sandbox
        .map(|id| format!("sandbox {id}: "))
        .unwrap_or_default();
    let line = format!("{NAME}: {sandbox}failed to {error}: {}", error.remedy());
    // Without a standard error the exit code is all that can be said.
    let _ = writeln!(std::io::stderr(), "{}", one_line(&line));
    ExitCode::from(error.exit_code())
}

fn become_qemu(
    arguments: &[OsString],
    invocation: &Invocation,
) -> Result<Infallible, SandboxError> {
    let settings = Settings::load(&Settings::own_path())?;
    let qemu = settings.qemu.of_machine(invocation.machine.as_deref());
    refuse_self(qemu)?;
    let mut warn = |warning: &Finding| {
        let sandbox = invocation.sandbox.as_deref().unwrap_or_default();
        let line = format!("{NAME}: sandbox {sandbox}: warning: {warning}");
        let _ = writeln!(std::io::stderr(), "{}", one_line(&line));
    };
    let disk = disk(&settings, invocation, Path::new("."), &mut warn)?;
    let Err(error) = execute(qemu, arguments, disk.as_ref());
    if disk.is_some() && settings.transport == Transport::File {
        discard(&settings, invocation);
    }
    Err(error)
}

fn execute(
    qemu: &Path,
    arguments: &[OsString],
    disk: Option<&Disk>,
) -> Result<Infallible, SandboxError> {
    let mut command = Command::new(qemu);
    command.args(arguments);
    if let Some(disk) = disk {
        disk.keep_across_exec()?;
        command.args(disk.arguments());
    }
    Err(SandboxError::Exec {
        source: command.exec(),
        path: qemu.into(),
    })
}

/// Removes the file that no QEMU will read. A failure is not told: that of QEMU is the one to
/// report, and `sweep` tries again.
fn discard(settings: &Settings, invocation: &Invocation) {
    if let Some(Ok(sandbox)) = invocation.sandbox.as_deref().map(SandboxId::parse) {
        let _ = shared_image::remove(&settings.run_root, &sandbox);
    }
}

/// The disk of the sandbox that `invocation` starts in the bundle `bundle`, if it gets one.
///
/// A call that starts no sandbox gets none, nor does one with `-incoming`: a VM that is made from a
/// template or migrated must have the devices of the VM it came from. `warn` gets what credential
/// providers did not contribute.
///
/// # Errors
///
/// Every [`SandboxError`] of the choice, the document, the packing and the transport.
pub fn disk(
    settings: &Settings,
    invocation: &Invocation,
    bundle: &Path,
    warn: &mut dyn FnMut(&Finding),
) -> Result<Option<Disk>, SandboxError> {
    let Some(sandbox) = invocation
        .sandbox
        .as_deref()
        .filter(|_| !invocation.incoming)
    else {
        return Ok(None);
    };
    let annotation = annotation(settings, bundle)?;
    let Some(chosen) = SandboxDocument::complete(settings, annotation.as_deref())? else {
        return Ok(None);
    };
    chosen.warnings().iter().for_each(warn);
    let device = invocation
        .machine
        .as_deref()
        .and_then(Device::of_machine)
        .ok_or_else(|| SandboxError::Machine(invocation.machine.clone()))?;
    match settings.transport {
        Transport::Memory => Disk::in_memory(&chosen.pack(settings)?, device).map(Some),
        Transport::File => {
            let sandbox = SandboxId::parse(sandbox)?;
            let path = shared_image::put(&settings.run_root, &sandbox, &chosen.pack(settings)?)?;
            Ok(Some(Disk::of_file(path, device)))
        }
        // QEMU would have to open the device before this process lets go of it, which an exec
        // cannot wait for; and a vhost-user device needs a second process and Kata's cooperation in
        // sharing the guest's memory.
        Transport::Loop | Transport::VhostUser => {
            Err(SandboxError::WrapperTransport(settings.transport.name()))
        }
    }
}

/// The annotation of the sandbox in `bundle`, or what the settings put in the place of a spec that
/// is not there.
fn annotation(settings: &Settings, bundle: &Path) -> Result<Option<String>, SandboxError> {
    if sandbox_spec::exists(bundle) {
        return Ok(sandbox_spec::annotation(bundle)?);
    }
    match settings.without_spec() {
        WithoutSpec::Node => Ok(None),
        WithoutSpec::None => Ok(Some(String::new())),
        WithoutSpec::Fail => {
            let bundle = std::path::absolute(bundle).unwrap_or_else(|_| bundle.into());
            Err(SandboxError::NoSpec(bundle))
        }
    }
}

/// Refuses to execute this very program: it would call itself until the argument list is full.
fn refuse_self(qemu: &Path) -> Result<(), SandboxError> {
    // Where either cannot be looked at, exec gives the better message.
    if let (Ok(own), Ok(other)) = (std::fs::metadata("/proc/self/exe"), std::fs::metadata(qemu))
        && (own.dev(), own.ino()) == (other.dev(), other.ino())
    {
        return Err(SandboxError::QemuIsWrapper(qemu.into()));
    }
    Ok(())
}
