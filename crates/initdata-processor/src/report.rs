//! What a run took.

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use crate::journal::Journal;
use crate::paths::Paths;

/// The phases so far.
#[derive(Debug)]
pub struct Report {
    start: Instant,
    last: Instant,
    phases: Vec<(&'static str, Duration)>,
    /// The kernel's two accounts of the process at work, open since before the sandbox.
    accounts: [Option<File>; 2],
}

/// The lines that count, of `status` and of `smaps_rollup`: the most that was resident, and what is
/// resident now. The first may be some pages behind, the second never is.
const LINES: [&str; 2] = ["VmHWM:", "Rss:"];

/// The most of an account that is read; it has some fifty lines.
const MAX_ACCOUNT_BYTES: u64 = 16 << 10;

impl Report {
    /// Starts the clock.
    pub fn start() -> Self {
        let now = Instant::now();
        Self {
            start: now,
            last: now,
            phases: Vec::new(),
            accounts: [None, None],
        }
    }

    /// The calling process is the one whose memory counts.
    pub fn account(&mut self, paths: &Paths) {
        let open = |name| File::open(paths.process.join(name)).ok();
        self.accounts = ["status", "smaps_rollup"].map(open);
    }

    /// Ends a phase.
    pub fn phase(&mut self, name: &'static str) {
        let now = Instant::now();
        self.phases.push((name, now - self.last));
        self.last = now;
    }

    /// Tells it.
    pub fn finish(&mut self, journal: &mut Journal<'_>) {
        let ms = |duration: &Duration| duration.as_secs_f64() * 1000.0;
        let phases = self
            .phases
            .iter()
            .map(|(name, duration)| format!("{name} {:.2}", ms(duration)))
            .collect::<Vec<_>>()
            .join(", ");
        let memory = match self.peak_memory() {
            Some(kib) => format!("; peak memory {kib} KiB"),
            None => String::new(),
        };
        let total = ms(&self.start.elapsed());
        journal.info(format_args!(
            "finished after {total:.2} ms: {phases}{memory}"
        ));
    }

    /// The most memory that this process had resident, in KiB.
    fn peak_memory(&mut self) -> Option<u64> {
        let accounts = self.accounts.iter_mut().flatten().zip(LINES);
        accounts.filter_map(|(file, line)| kib(file, line)).max()
    }
}

/// The number behind `key` in an account.
fn kib(account: &mut File, key: &str) -> Option<u64> {
    let mut text = String::new();
    let mut account = account.take(MAX_ACCOUNT_BYTES);
    account.read_to_string(&mut text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim_end().parse().ok()
}
