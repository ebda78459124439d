//! A process in the background, and what the kernel says about it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long a process may take to get ready.
const START: Duration = Duration::from_secs(20);

/// How long a process may take to end after SIGTERM, before it is killed.
const END: Duration = Duration::from_secs(10);

/// For how long a process that has started computes nothing before it counts as idle.
const IDLE: Duration = Duration::from_millis(200);

/// The unit of CPU time in `/proc` (`USER_HZ`, the same on every architecture that Debian knows).
const TICKS_PER_SEC: f64 = 100.0;

/// A process that ends with this one.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `command` with both outputs in the file `log`.
    pub fn start(name: &str, command: &Command, log: &Path) -> Result<Self> {
        let output = File::create(log)?;
        let mut bound = bound(command);
        bound.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = bound.spawn().with_context(|| format!("failed to start {name}"))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Waits until `look` finds something in what it wrote.
    pub fn wait_for<T>(&mut self, look: impl Fn(&str) -> Option<T>) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = look(&self.log()) {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}: {}", self.name, last_words(&self.log()));
            }
            if start.elapsed() > START {
                bail!("{} does not get ready: {}", self.name, last_words(&self.log()));
            }
            sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a unix socket is there.
    pub fn wait_for_socket(&mut self, socket: &Path) -> Result<()> {
        self.wait_for(|_| std::os::unix::net::UnixStream::connect(socket).ok().map(|_| ()))
    }

    /// Waits until it has done what it does when it starts. In a guest and on a node that is long
    /// before the first pull, here it would be beside it.
    pub fn wait_until_idle(&self) {
        let start = Instant::now();
        let (mut used, mut since) = (self.cpu_secs(), Instant::now());
        while since.elapsed() < IDLE && start.elapsed() < START {
            sleep(Duration::from_millis(10));
            let now = self.cpu_secs();
            if now > used {
                (used, since) = (now, Instant::now());
            }
        }
    }

    /// CPU seconds so far, its own and those of children that it waited for.
    pub fn cpu_secs(&self) -> f64 {
        let stat = Stat::read(self.child.id());
        stat.map_or(0.0, |stat| stat.ticks as f64 / TICKS_PER_SEC)
    }

    /// Its largest resident memory in KiB since [`Daemon::forget_peak`].
    pub fn peak_kib(&self) -> u64 {
        status_kib(self.child.id(), "VmHWM:")
    }

    /// Its resident memory in KiB now.
    pub fn resident_kib(&self) -> u64 {
        status_kib(self.child.id(), "VmRSS:")
    }

    /// Makes the present the peak.
    pub fn forget_peak(&self) -> Result<()> {
        Ok(fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")?)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // Not waited for yet, so the number is still its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let start = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if start.elapsed() > END {
                let _ = self.child.kill();
            }
            sleep(Duration::from_millis(5));
        }
    }
}

/// The same command, which the kernel kills when this program ends: not even SIGKILL leaves it
/// behind.
pub fn bound(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        value.map(|value| bound.env(key, value));
    }
    bound
}

/// What a program said went wrong: the line that says so, or else its last one.
pub fn last_words(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = lines()
        .find(|line| ["rror", "⨯", "fatal", "failed"].iter().any(|word| line.contains(word)));
    telling.or_else(|| lines().next_back()).unwrap_or_default().to_owned()
}

/// One line of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// Who started it.
    pub parent: u32,
    /// Whether it is a thread of the kernel.
    pub is_kernel: bool,
    /// CPU time in ticks, its own and that of children that it waited for.
    pub ticks: u64,
}

impl Stat {
    /// Bit of `flags` that marks the kernel's own threads (`PF_KTHREAD`).
    const KERNEL_THREAD: u64 = 0x0020_0000;

    /// Reads it; nothing where the process is gone.
    pub fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything; what follows starts with field 3.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(field(4)?).ok()?,
            is_kernel: field(9)? & Self::KERNEL_THREAD != 0,
            ticks: field(14)? + field(15)? + field(16)? + field(17)?,
        })
    }
}

fn status_kib(pid: u32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_line_is_quoted() {
        for (log, words) in [
            ("start\n time=1 level=fatal msg=no\nusage\n", "time=1 level=fatal msg=no"),
            ("one\ntwo\n\n", "two"),
            ("", ""),
        ] {
            assert_eq!(last_words(log), words);
        }
    }

    #[test]
    fn this_process_is_known_to_the_kernel() {
        let stat = Stat::read(std::process::id()).unwrap();
        assert!(!stat.is_kernel);
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(status_kib(std::process::id(), "VmHWM:") > 100);
    }
}
