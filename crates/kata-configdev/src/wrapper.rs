//! The hypervisor wrapper: everything between Kata's call and QEMU's.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use puller_config::Document;

use crate::choice::Choice;
use crate::disk::{Device, Disk};
use crate::invocation::Invocation;
use crate::settings::{SETTINGS_VARIABLE, Settings};
use crate::{Error, lines, sandbox_spec};

/// The program's name in its messages.
pub const NAME: &str = "kata-configdev-qemu";

/// Becomes QEMU with `arguments`, and with the configuration disk behind them where the sandbox gets one.
///
/// Returns only where that fails: then one line stands on standard error, which Kata's runtimes log, and the exit code
/// is one of [`crate::exit`]. In the good case nothing is printed, because they log every line as an error.
///
/// What QEMU inherits is what this process inherited: process id, environment, directory, blocked and ignored signals, and
/// every descriptor with its flags; files opened here are close-on-exec. Two things the Rust runtime does before and
/// during this are visible all the same: descriptors 0 to 2 are opened on `/dev/null` where the caller closed them, and
/// SIGPIPE gets its default action. Both of Kata's runtimes start their hypervisor in just that state.
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
    let _ = writeln!(std::io::stderr(), "{}", lines::on_one_line(&line));
    ExitCode::from(error.exit_code())
}

fn become_qemu(arguments: &[OsString], invocation: &Invocation) -> Result<Infallible, Error> {
    let settings = Settings::load(&Settings::path(std::env::var_os(SETTINGS_VARIABLE)))?;
    refuse_self(&settings.qemu)?;
    let disk = disk(&settings, invocation, Path::new("."))?;
    let mut qemu = Command::new(&settings.qemu);
    qemu.args(arguments);
    if let Some(disk) = &disk {
        disk.keep_across_exec()?;
        qemu.args(disk.arguments());
    }
    Err(Error::Exec {
        source: qemu.exec(),
        path: settings.qemu,
    })
}

/// The disk of the sandbox that `invocation` starts in the bundle `bundle`, if it gets one.
///
/// A call that starts no sandbox gets none, nor does one with `-incoming`: a VM that is made from a template or migrated
/// must have the devices of the VM it came from.
///
/// # Errors
///
/// Every [`Error`] of the choice, the document and the packing.
pub fn disk(
    settings: &Settings,
    invocation: &Invocation,
    bundle: &Path,
) -> Result<Option<Disk>, Error> {
    if invocation.sandbox.is_none() || invocation.incoming {
        return Ok(None);
    }
    let annotation = sandbox_spec::annotation(bundle)?;
    let Some(choice) = Choice::make(settings, annotation.as_deref())? else {
        return Ok(None);
    };
    Document::parse(&choice.text).map_err(|problems| Error::Document {
        path: choice.path.clone(),
        problems,
    })?;
    let device = invocation
        .machine
        .as_deref()
        .and_then(Device::of_machine)
        .ok_or_else(|| Error::Machine {
            machine: invocation.machine.clone(),
        })?;
    Disk::pack(&choice.text, device).map(Some)
}

/// Refuses to execute this very program: it would call itself until the argument list is full.
fn refuse_self(qemu: &Path) -> Result<(), Error> {
    // Where either cannot be looked at, exec gives the better message.
    if let (Ok(own), Ok(other)) = (std::fs::metadata("/proc/self/exe"), std::fs::metadata(qemu))
        && (own.dev(), own.ino()) == (other.dev(), other.ino())
    {
        return Err(Error::QemuIsWrapper { path: qemu.into() });
    }
    Ok(())
}
