//! The hypervisor wrapper: everything between Kata's call and QEMU's.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use foreign_text::one_line;

use crate::disk::{Device, Disk};
use crate::invocation::Invocation;
use crate::providers::child;
use crate::purpose::Purpose;
use crate::refusal::{Refusal, Refuse, last, monitor};
use crate::sandbox_document::{ChosenBy, SandboxDocument};
use crate::sandbox_id::SandboxId;
use crate::sandbox_spec::{Pod, WithoutSpec};
use crate::settings::files::Files;
use crate::settings::{Effective, Settings};
use crate::shared_image::record::{self, Hold, Record};
use crate::transport::Transport;
use crate::{SandboxError, exit, panic_message, sandbox_spec, shared_image};

/// The program's name in its messages.
pub const NAME: &str = "kata-configdev-qemu";

/// The one argument of this program itself: all others, also `--version`, are QEMU's.
const OWN_VERSION: &str = "--wrapper-version";

/// How often a document is read that changes while its image is made. Free to change.
const MAX_READS: u32 = 3;

/// Why a template has no disk, and what follows.
const TEMPLATE: &str = "this VM is a template and gets no configuration disk: no pod for which the \
    annotation or the settings name a document can be started from it";

/// Becomes QEMU with `arguments`, and with the configuration disk behind them where the sandbox
/// gets one.
///
/// Returns only where that fails: then one line stands on standard error, which Kata's runtimes
/// log, the runtime that waits has been answered as the settings' [`Refuse`] says, and the exit
/// code is one of [`crate::exit`]. In the good case nothing is printed, because they log every
/// line. A credential provider that does not work or is left to the node agent, and a template that
/// gets no disk, are a warning each, and QEMU starts all the same.
///
/// What QEMU inherits is what this process inherited: process id, environment, directory, blocked
/// and ignored signals, and every descriptor with its flags; files opened here are close-on-exec,
/// but for the image in memory or the [lock](crate::shared_image::record) beside that in a file.
/// Where the settings have `enabled = false`, nothing else of them is looked at but `qemu`, and the
/// arguments stay as they are; one line says so for each sandbox.
/// Asked for nothing but `--wrapper-version`, it answers as other programs do to `--version`.
///
/// Two things the Rust runtime does before and during this are visible all the same: descriptors 0
/// to 2 are opened on `/dev/null` where the caller closed them, and SIGPIPE gets its default
/// action. Both of Kata's runtimes start their hypervisor in just that state.
#[must_use]
pub fn run(arguments: &[OsString]) -> ExitCode {
    if let [only] = arguments
        && only == OWN_VERSION
    {
        let told = writeln!(std::io::stdout(), "{NAME} {}", program_version::marked());
        return told.map_or(ExitCode::from(exit::UNAVAILABLE), |()| ExitCode::SUCCESS);
    }
    if let [only] = arguments
        && only == child::ARGUMENT
    {
        return child::run();
    }
    let invocation = Invocation::read(arguments);
    let mut settings = Settings::default();
    let refusal = match panic_message::catch(|| become_qemu(arguments, &invocation, &mut settings))
    {
        Ok(Err(error)) => {
            let refusal = Refusal::new(&error, &invocation);
            refusal.tell();
            refusal
        }
        Err(said) => Refusal::of_panic(said),
    };
    last::put(&settings.run_root, invocation.sandbox.as_deref(), &refusal);
    // An error that nobody hears of at the other end is as good as none: the line is written.
    if let (Refuse::Monitor, Some(number)) =
        (settings.refuse.without_disk(&invocation), invocation.monitor)
    {
        let _ = monitor::answer(number, &refusal.line);
    }
    refusal.exit_code.into()
}

fn become_qemu(
    arguments: &[OsString],
    invocation: &Invocation,
    settings: &mut Settings,
) -> Result<Infallible, SandboxError> {
    let files = Files::read(&Settings::own_path());
    let salvaged = Effective::salvage(&files);
    if !salvaged.settings.enabled {
        let qemu = salvaged.settings.qemu.of_machine(invocation.machine.as_deref());
        refuse_self(qemu)?;
        tell_off(&salvaged, qemu, invocation);
        return execute(qemu, arguments, None);
    }
    // Faulty settings are refused in the way that they still name.
    *settings = salvaged.settings;
    let read = Effective::of(files).map(|effective| *settings = effective.settings);
    let read = read.map_err(SandboxError::from);
    settings.credential_providers.by_child = true;
    let qemu = settings.qemu.of_machine(invocation.machine.as_deref());
    if let Err(error) = refuse_self(qemu) {
        return read.and(Err(error));
    }
    let mut warn = |warning: &dyn Display| {
        let sandbox = invocation.sandbox.as_deref().unwrap_or_default();
        // In this order Kata's Go runtime logs a warning, and otherwise an error.
        let line = format!("{NAME}: warning: sandbox {sandbox}: {warning}");
        let _ = writeln!(std::io::stderr(), "{}", one_line(&line));
    };
    let bundle = Path::new(".");
    let made = read.and_then(|()| disk(settings, invocation, bundle, &mut warn));
    let disk = match made {
        // A copy has the disk of its original, and nobody pulls in a template.
        Err(error)
            if settings.refuse.is_by_disk(invocation, settings.guest_pull)
                && Purpose::of(invocation, bundle) == Purpose::Sandbox =>
        {
            discard(settings, invocation);
            Some(disk_instead(error, settings, invocation)?)
        }
        made => made.inspect_err(|_| discard(settings, invocation))?,
    };
    let Err(error) = execute(qemu, arguments, disk.as_ref());
    discard(settings, invocation);
    Err(error)
}

/// One line about a sandbox that starts without any configuration, because somebody said so.
fn tell_off(off: &Effective, qemu: &Path, invocation: &Invocation) {
    if let Some(sandbox) = &invocation.sandbox {
        let line = format!(
            "{NAME}: sandbox {sandbox}: turned off ({}: enabled = false), so that it gets no \
            configuration; starting {}",
            off.origins.of("enabled"),
            qemu.display()
        );
        let _ = writeln!(std::io::stderr(), "{}", one_line(&line));
    }
}

/// A disk that says why there is no other; the error where there cannot be one.
fn disk_instead(
    error: SandboxError,
    settings: &Settings,
    invocation: &Invocation,
) -> Result<Disk, SandboxError> {
    let refusal = Refusal::new(&error, invocation);
    let disk = device(invocation).and_then(|device| refusal.disk(device));
    let disk = disk.map_err(|_| error)?;
    refusal.tell();
    last::put(&settings.run_root, invocation.sandbox.as_deref(), &refusal);
    Ok(disk)
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
    Err(SandboxError::Exec { source: command.exec(), path: qemu.into() })
}

/// Removes the files that no QEMU will read. A failure is not told: that of QEMU is the one to
/// report, and `sweep` tries again.
fn discard(settings: &Settings, invocation: &Invocation) {
    if settings.transport == Transport::File
        && let Some(Ok(sandbox)) = invocation.sandbox.as_deref().map(SandboxId::parse)
    {
        let _ = shared_image::remove(&settings.run_root, &sandbox);
    }
}

/// The disk of the sandbox that `invocation` starts in the bundle `bundle`, if it gets one.
///
/// Only a sandbox gets one ([`Purpose`]). A template starts without, because its clones would share
/// what stands on it. A clone, as every other copy, must have the devices of its original, which
/// has no such disk; a cache's VM is started before anybody knows what its pod may have. Where a
/// document could be meant for the pod, these two are refused, so that no pod loses it unheard.
///
/// `warn` gets what credential providers did not contribute, and the reason where a VM has no disk
/// although pods on this node have documents. It gets nothing where nobody named one: Kata's
/// runtimes log every line.
///
/// # Errors
///
/// Every [`SandboxError`] of the purpose, the choice, the document, the packing and the transport.
pub fn disk(
    settings: &Settings,
    invocation: &Invocation,
    bundle: &Path,
    warn: &mut dyn FnMut(&dyn Display),
) -> Result<Option<Disk>, SandboxError> {
    let Some(sandbox) = invocation.sandbox.as_deref() else {
        return Ok(None);
    };
    let Some(mut chosen) = document(settings, invocation, bundle, warn)? else {
        return Ok(None);
    };
    let device = device(invocation)?;
    let (mut before, mut deserted) = (None, false);
    for reads in 1.. {
        let own = chosen.file.clone();
        let provided = chosen.provide_at_start(settings);
        let is_told = reads == 1 || deserted;
        for warning in provided.warnings().iter().filter(|_| is_told) {
            warn(warning);
        }
        let hold = hold(settings, sandbox, || provided.record(settings, true))?;
        // Without a lock on the record that has the name, the sandbox would seem to have ended.
        drop(before.take());
        let image = provided.pack(settings)?;
        let disk = carry(settings, sandbox, &image, device)?.held_by(hold);
        // Who replaces the document and then updates the sandboxes has not seen this one yet, if
        // that was between the reading and the image. From here on it sees it.
        let again = match settings.transport {
            Transport::File if reads < MAX_READS => {
                document(settings, invocation, bundle, &mut |_| ()).ok()
            }
            _ => None,
        };
        // The agent was there before the image. One that is there now sees the image, or asks when
        // it starts again.
        deserted = provided.is_deserted(settings);
        match again.flatten() {
            Some(again) if deserted || *again.file != *own => {
                chosen = again;
                before = Some(disk);
            }
            _ => return Ok(Some(disk)),
        }
    }
    Ok(None)
}

/// The lock that tells that the sandbox lives, beside its images, where these are files.
fn hold(
    settings: &Settings,
    sandbox: &str,
    record: impl FnOnce() -> Record,
) -> Result<Option<Hold>, SandboxError> {
    if settings.transport != Transport::File {
        return Ok(None);
    }
    let sandbox = SandboxId::parse(sandbox)?;
    Ok(Some(record::put(&settings.run_root, &sandbox, &record())?))
}

/// The disk over an image, by the transport of the settings.
fn carry(
    settings: &Settings,
    sandbox: &str,
    image: &[u8],
    device: Device,
) -> Result<Disk, SandboxError> {
    match settings.transport {
        Transport::Memory => Disk::in_memory(image, device),
        Transport::File => {
            let sandbox = SandboxId::parse(sandbox)?;
            let path = shared_image::put(&settings.run_root, &sandbox, image)?;
            Ok(Disk::of_file(path, device))
        }
        Transport::Loop | Transport::VhostUser => {
            Err(SandboxError::WrapperTransport(settings.transport.name()))
        }
    }
}

/// The document for the VM of `invocation`, if it gets one, without what credential providers add.
fn document(
    settings: &Settings,
    invocation: &Invocation,
    bundle: &Path,
    warn: &mut dyn FnMut(&dyn Display),
) -> Result<Option<SandboxDocument>, SandboxError> {
    let offers =
        ChosenBy::of(settings, &Pod::default()).is_some() || !settings.annotation_allow.is_empty();
    match Purpose::of(invocation, bundle) {
        Purpose::Sandbox => SandboxDocument::choose(settings, &pod(settings, bundle)?),
        Purpose::Copy => match ChosenBy::of(settings, &sandbox_spec::pod(bundle)?) {
            Some(by) => Err(SandboxError::Copy(by.to_string())),
            None => Ok(None),
        },
        Purpose::Cache if offers => Err(SandboxError::Cache),
        Purpose::Template if offers => {
            warn(&TEMPLATE);
            Ok(None)
        }
        Purpose::Cache | Purpose::Template => Ok(None),
    }
}

/// The pod of the sandbox in `bundle`, or what the settings put in the place of a spec that is not
/// there.
fn pod(settings: &Settings, bundle: &Path) -> Result<Pod, SandboxError> {
    if sandbox_spec::exists(bundle) {
        return Ok(sandbox_spec::pod(bundle)?);
    }
    match settings.without_spec() {
        WithoutSpec::Node => Ok(Pod::default()),
        WithoutSpec::None => Ok(Pod::with_document("")),
        WithoutSpec::Fail => {
            let bundle = std::path::absolute(bundle).unwrap_or_else(|_| bundle.into());
            Err(SandboxError::NoSpec(bundle))
        }
    }
}

fn device(invocation: &Invocation) -> Result<Device, SandboxError> {
    let machine = invocation.machine.as_deref();
    machine
        .and_then(Device::of_machine)
        .ok_or_else(|| SandboxError::Machine(invocation.machine.clone()))
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
