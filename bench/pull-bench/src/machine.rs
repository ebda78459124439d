//! Whether the machine was ours during a run, and what it is.

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::daemon::Stat;

/// The share of one core that others may use during a run.
pub const QUIET: f64 = 0.08;

/// How long a quiet moment is waited for before a run.
const PATIENCE: Duration = Duration::from_secs(20);

/// CPU time of all processes that are not of this program's making.
#[derive(Debug)]
pub struct Others {
    ticks: u64,
    since: Instant,
}

impl Others {
    /// Looks now.
    pub fn now() -> Self {
        Self { ticks: foreign(), since: Instant::now() }
    }

    /// The share of one core that they have used since.
    ///
    /// The kernel's threads do not count: what they do may be the run's own work.
    pub fn share(&self) -> f64 {
        let elapsed = self.since.elapsed().as_secs_f64();
        // Sums, not processes: a child's time becomes its parent's when it is waited for.
        let used = foreign().saturating_sub(self.ticks);
        used as f64 / 100.0 / elapsed
    }
}

fn foreign() -> u64 {
    let pids = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_string_lossy().parse::<u32>().ok());
    let all: BTreeMap<u32, Stat> = pids.filter_map(|pid| Some((pid, Stat::read(pid)?))).collect();
    let me = std::process::id();
    let is_mine = |pid: u32| {
        let mut pid = pid;
        // Up to the first process; a chain that ends early belongs to somebody else.
        while let Some(stat) = all.get(&pid) {
            if pid == me {
                return true;
            }
            pid = stat.parent;
        }
        false
    };
    all.iter()
        .filter(|(pid, stat)| !stat.is_kernel && !is_mine(**pid))
        .map(|(_, stat)| stat.ticks)
        .sum()
}

/// Waits until others leave the machine alone for a moment, but not for ever.
pub fn wait_for_quiet() {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let others = Others::now();
        sleep(Duration::from_millis(300));
        if others.share() < QUIET {
            return;
        }
    }
}

/// Processors, their kind, memory and kernel.
pub fn description() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, key: &str| {
        text.lines()
            .find(|line| line.starts_with(key))
            .and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
            .unwrap_or_default()
    };
    let memory = value(&read("/proc/meminfo"), "MemTotal");
    let gib =
        memory.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() >> 20;
    format!(
        "{} cores of {}, {gib} GiB, Linux {}",
        cores(),
        value(&read("/proc/cpuinfo"), "model name"),
        release(&read("/proc/sys/kernel/osrelease")),
    )
}

/// Major and minor number of a kernel: the rest says more of whose machine it is than of the
/// kernel.
fn release(text: &str) -> String {
    let numbers = text.split(|char: char| !char.is_ascii_digit()).take(2);
    numbers.collect::<Vec<_>>().join(".")
}

/// How many cores there are for this process.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_two_numbers() {
        for text in ["6.18.44-somebody-v1\n", "6.18-rc1", "6.18"] {
            assert_eq!(release(text), "6.18");
        }
    }
}
