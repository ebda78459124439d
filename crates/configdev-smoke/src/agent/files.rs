//! What the processor left: files with their modes, the policy, its lines in the kernel's log.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::{Console, late};
use crate::seen::{MAX_TEXT_CHARS, Seen};

/// Where an agent that is told nothing looks for its policy.
const DEFAULT_POLICY: &str = "/etc/kata-opa/default-policy.rego";

/// The most files that are told of one folder.
const MAX_FILES: usize = 32;

/// The most records of the kernel's log that are looked at, each of at most 8 KiB.
const MAX_RECORDS: usize = 4096;

/// How many of the processor's lines are told, the boot's first.
const LINES: usize = 12;

/// The text of a small file on one line; empty where there is none.
pub fn line(path: &str) -> String {
    start_of(path).unwrap_or_default().trim().to_owned()
}

/// Says which policy the agent finds. An error where it would end for want of one.
pub fn policy(named: Option<&str>, console: &mut Console) -> Result<(), String> {
    let path = named.unwrap_or(DEFAULT_POLICY);
    let found = start_of(path);
    let late_secs = match &found {
        Some(_) => None,
        None if named.is_some() => late(|| Path::new(path).exists()),
        None => None,
    };
    console.say(&Seen::Policy { path: path.to_owned(), text: found.clone(), late_secs });
    match found {
        None if named.is_some() => Err(format!("there is no policy at {path}")),
        _ => Ok(()),
    }
}

/// Says each file that is there for the agent and the puller.
pub fn look(console: &mut Console) {
    for folder in ["/run/measured-cfg", "/run/insecure-cfg"] {
        say_file(folder, console);
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths.iter().take(MAX_FILES) {
            say_file(&path.to_string_lossy(), console);
        }
    }
    let lines = kernel_log();
    let lines = lines[..lines.len().min(LINES)].to_vec();
    console.say(&Seen::Processor { lines });
}

fn say_file(path: &str, console: &mut Console) {
    let Ok(stat) = fs::metadata(path) else {
        return;
    };
    let reason = path.ends_with(".error").then(|| start_of(path)).flatten();
    console.say(&Seen::File {
        path: path.to_owned(),
        mode: format!("{:04o}", stat.permissions().mode() & 0o7777),
        owner: format!("{}:{}", stat.uid(), stat.gid()),
        bytes: stat.len(),
        reason,
    });
}

/// The beginning of a file as text.
fn start_of(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let limit = 4 * MAX_TEXT_CHARS as u64;
    File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.chars().take(MAX_TEXT_CHARS).collect())
}

/// What `initdata-processor` wrote to the kernel's log.
fn kernel_log() -> Vec<String> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
    let flags = i32::try_from(nonblocking).unwrap_or_default();
    let log = OpenOptions::new().read(true).custom_flags(flags).open("/dev/kmsg");
    let Ok(mut log) = log else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    let mut record = vec![0; 8192];
    for _ in 0..MAX_RECORDS {
        match log.read(&mut record) {
            Ok(length) => {
                let text = String::from_utf8_lossy(&record[..length]).into_owned();
                lines.extend(said_by_the_processor(&text));
            }
            // Overwritten meanwhile; the next one is there.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(_) => break,
        }
    }
    lines
}

/// A record is `PRIORITY,NUMBER,TIME,FLAGS;TEXT`.
fn said_by_the_processor(record: &str) -> Option<String> {
    let (_, text) = record.split_once(';')?;
    let text = text.lines().next()?;
    let said = text.starts_with("initdata-processor");
    said.then(|| text.chars().take(MAX_TEXT_CHARS / 2).collect())
}

/// Says how much memory there is, and what the programs took at most.
pub fn memory(console: &mut Console) {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let mut peaks = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = process.path();
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        let name = name.trim();
        // The kernel keeps fifteen bytes of a name.
        let known = ["imagepuller", "initdata-proces", "initdata-processor"];
        if !known.contains(&name) {
            continue;
        }
        let status = fs::read_to_string(path.join("status")).unwrap_or_default();
        let whole = if name == "imagepuller" { name } else { "initdata-processor" };
        let peak: &mut u64 = peaks.entry(whole.to_owned()).or_default();
        *peak = (*peak).max(kib(&status, "VmHWM:"));
    }
    console.say(&Seen::Memory {
        total: kib(&memory, "MemTotal:"),
        available: kib(&memory, "MemAvailable:"),
        peaks,
    });
}

fn kib(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_processors_records_are_told() {
        let record = "6,339,5140900,-;initdata-processor: finished after 3.1 ms\n SUBSYSTEM=x\n";
        assert_eq!(
            said_by_the_processor(record).as_deref(),
            Some("initdata-processor: finished after 3.1 ms")
        );
        assert_eq!(said_by_the_processor("6,1,1,-;systemd[1]: hello\n"), None);
        assert_eq!(said_by_the_processor("no record"), None);
        assert_eq!(kib("A: 1 kB\nVmHWM:\t  4096 kB\n", "VmHWM:"), 4096);
    }
}
