//! QEMU, started by the wrapper, and the limits on what it takes.

use std::env;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use command_fds::{CommandFdExt as _, FdMapping};
use vm_harness::process::{POLL, bound_command};
use vm_harness::vector::Vector;
use vm_harness::{Background, Report, Scratch, kata};

use crate::options::Options;
use crate::seen::{self, Seen};
use crate::surroundings::{ADDRESS, PORT, RELAY, Surroundings};

/// The most that a guest may write to its console.
const MAX_CONSOLE_BYTES: u64 = 8 << 20;

/// The sandbox's name.
const ID: &str = "configdev5m0ke";

/// The parameter without which a disk with initdata is refused where there is no TEE.
pub const UNVERIFIED: &str = "configdev.allow_unverified_initdata=1";

/// Why the guest is no longer there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The stand-in had no more to say; then QEMU was stopped.
    Done,
    /// The machine was turned off, or the kernel panicked.
    Off,
    /// QEMU or the wrapper ended with this status and these words.
    Failed(String, String),
    /// Too many seconds.
    Timeout,
    /// Too many bytes on the console.
    Console,
}

/// A guest that has been.
#[derive(Debug)]
pub struct Run {
    /// Why it is no longer there.
    pub ended: Ended,
    /// What the stand-in saw.
    pub seen: Seen,
    /// Everything on the console.
    pub console: String,
    /// The seconds since 1970 when the wrapper was started, and at the end.
    pub clock_secs: (u64, u64),
}

impl Run {
    /// Whether time or console ran out before the agent was done.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        matches!(self.ended, Ended::Timeout | Ended::Console)
    }
}

/// The files and programs that a machine is made of.
#[derive(Debug)]
pub struct Parts {
    /// The wrapper.
    pub wrapper: PathBuf,
    /// The kernel.
    pub kernel: PathBuf,
    /// The initrd with the stand-in.
    pub initrd: PathBuf,
    /// The kernel's parameters besides Kata's.
    pub parameters: Vec<String>,
}

/// Boots the guest, and waits for its end or for a limit.
///
/// # Errors
///
/// Where something is missing here.
pub fn run(
    options: &Options,
    parts: &Parts,
    around: &Surroundings,
    scratch: &Scratch,
) -> Result<Run> {
    let run = scratch.path().join("vm");
    let _ = fs::remove_dir_all(&run);
    let bundle = run.join("bundle");
    // One by one: where a signal has taken the temporary files away, nothing makes them anew.
    fs::create_dir(&run)?;
    fs::create_dir(&bundle)?;
    let spec = "{\"ociVersion\": \"1.1.0\", \"annotations\": {}}";
    fs::write(bundle.join("config.json"), spec)?;
    let vector = options.runtime.vector();
    let sandbox = kata::Sandbox {
        id: ID.to_owned(),
        kernel: parts.kernel.clone(),
        cpu: options.cpu.clone(),
        memory_mib: options.memory,
        initrd: parts.initrd.clone(),
        root_image: scratch.write("root.img", vec![0; 1 << 20])?,
        initdata: around.initdata.clone(),
        disks: Vec::new(),
        network: network(&env::current_exe()?, around.port()),
        kernel_parameters: parts.parameters.clone(),
        run: run.clone(),
    };
    let mut command = bound_command(&parts.wrapper);
    command
        .env("KATA_CONFIGDEV_CONFIG", settings(options, around, scratch)?)
        .args(kata::arguments(&vector, &sandbox)?)
        .current_dir(&bundle);
    let monitor = UnixListener::bind(run.join("qmp.sock"))?;
    let initdata = around.initdata.as_ref().map(File::open).transpose()?;
    let mut descriptors = Vec::new();
    for (child_fd, parent_fd) in [
        (descriptor(&vector, "-qmp", "unix:fd="), Some(monitor.into())),
        // That of the initdata disk, where it comes as one.
        (descriptor(&vector, "-add-fd", "fd="), initdata.map(Into::into)),
    ] {
        if let (Some(child_fd), Some(parent_fd)) = (child_fd, parent_fd) {
            descriptors.push(FdMapping { parent_fd, child_fd });
        }
    }
    command.fd_mappings(descriptors)?;
    let qemu = Background::spawn("qemu", command, scratch)?;
    watch(qemu, &run.join("console.log"), options.timeout)
}

/// The number of a descriptor that the recorded command line has been handed over.
fn descriptor(vector: &Vector, option: &str, before: &str) -> Option<i32> {
    let number = vector.values(option).next()?.strip_prefix(before)?.split(',').next();
    number?.parse().ok()
}

/// Waits for the stand-in's last word, the machine's end, or a limit.
fn watch(mut qemu: Background, log: &Path, timeout: u64) -> Result<Run> {
    let (clock, started, limit) = (now(), Instant::now(), Duration::from_secs(timeout));
    let (mut console, mut seen, mut length) = (String::new(), Seen::default(), 0);
    let ended = loop {
        // In this order: what was written before the end is read after it.
        let status = qemu.ended()?;
        let before = length;
        length = fs::metadata(log).map_or(0, |stat| stat.len());
        if length > before {
            let report = Report::parse(read(log), Duration::ZERO);
            seen = seen::read(&report);
            console = report.console;
        }
        match status {
            _ if length > MAX_CONSOLE_BYTES => break Ended::Console,
            _ if seen.done => break Ended::Done,
            Some(status) if status.success() => break Ended::Off,
            Some(status) => {
                let signal = status.signal().map(|signal| format!("signal {signal}"));
                let how = signal.unwrap_or_else(|| status.to_string());
                break Ended::Failed(how, qemu.output());
            }
            None if started.elapsed() > limit => break Ended::Timeout,
            None => sleep(POLL),
        }
    };
    Ok(Run { ended, seen, console, clock_secs: (clock, now()) })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// At most so much as a console may be, whatever QEMU wrote since.
fn read(log: &Path) -> String {
    let mut bytes = Vec::new();
    let _ = File::open(log).and_then(|log| log.take(MAX_CONSOLE_BYTES).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The registry here and nothing else, or all that this machine reaches.
fn network(relay: &Path, port: Option<u16>) -> String {
    let Some(port) = port else {
        return "user,id=network-0".to_owned();
    };
    // Read as a shell reads it.
    let program = relay.to_string_lossy().replace('\'', "'\\''");
    let command = doubled(&format!("'{program}' {RELAY} {port}"));
    format!("user,id=network-0,restrict=on,guestfwd=tcp:{ADDRESS}:{PORT}-cmd:{command}")
}

/// A comma ends a value for QEMU, two are one.
fn doubled(text: &str) -> String {
    text.replace(',', ",,")
}

/// The wrapper's settings.
fn settings(options: &Options, around: &Surroundings, scratch: &Scratch) -> Result<PathBuf> {
    let mut settings = format!("qemu = {:?}\n", options.qemu.canonicalize()?);
    if let Some(document) = &around.document {
        settings.push_str(&format!("document = {document:?}\n"));
    }
    settings.push_str(&format!("run-root = {:?}\n", scratch.path()));
    scratch.write("config.toml", settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Runtime;

    #[test]
    fn the_vectors_have_the_descriptors_that_are_handed_over() {
        for (runtime, monitor, initdata) in [(Runtime::Go, 3, None), (Runtime::Rs, 13, Some(16))] {
            let vector = runtime.vector();
            assert_eq!(descriptor(&vector, "-qmp", "unix:fd="), Some(monitor));
            assert_eq!(descriptor(&vector, "-add-fd", "fd="), initdata);
        }
    }

    #[test]
    fn odd_paths_reach_the_relay_whole() {
        let text = network(Path::new("/a,b/it's"), Some(7));
        assert!(text.ends_with("-cmd:'/a,,b/it'\\''s' relay 7"), "{text}");
        assert_eq!(network(Path::new("/x"), None), "user,id=network-0");
    }
}
