//! What the agent finds: mounts, disks, the policy and the files that the processor left, its lines
//! in the kernel's log, memory.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::mount::{MountFlags, mount};

use super::{Console, late};
use crate::seen::{self, Disk, MAX_TEXT_CHARS, Memory, Policy};

/// The mounts that the agent makes where it is the first program, unless they are there: in its
/// order. The last is over what is there: results of a processor that ran before are hidden then.
const MOUNTS: [(&str, &str); 4] =
    [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/run")];

/// Where the processor puts the nodes of disks that no agent is to find.
const HIDDEN: &str = "/dev/.initdata";

/// The magics that are told by name; other disks may hold anything.
const MAGICS: [&[u8; 8]; 2] = [b"initdata", b"imgpullr"];

/// How the names begin of what is no disk of the host's.
const NO_DISKS: [&str; 4] = ["loop", "ram", "zram", "dm-"];

/// The most disks that are told.
const MAX_DISKS: usize = 64;

/// Where an agent that is told nothing looks for its policy.
const DEFAULT_POLICY: &str = "/etc/kata-opa/default-policy.rego";

/// The most files that are told of one folder.
const MAX_FILES: usize = 32;

/// The most records of the kernel's log that are looked at, each of at most 8 KiB.
const MAX_RECORDS: usize = 4096;

/// How many of the processor's lines are told, the boot's first.
const LINES: usize = 12;

/// This project's programs, as far as the kernel keeps their names: fifteen bytes.
const PROGRAMS: [(&str, &str); 3] = [
    ("imagepuller", "imagepuller"),
    ("initdata-proces", "initdata-processor"),
    ("initdata-processor", "initdata-processor"),
];

/// Makes the mounts; whether one was made over `/run`. What cannot be mounted shows in what is seen
/// afterwards.
pub fn mount_all() -> bool {
    let mut over_run = false;
    if std::process::id() != 1 {
        return over_run;
    }
    for (kind, path) in MOUNTS {
        if mounted_at(path).as_deref() != Some(kind) {
            let _ = fs::create_dir_all(path);
            let made = mount(kind, path, kind, MountFlags::NOSUID, None);
            over_run |= made.is_ok() && path == "/run";
        }
    }
    over_run
}

/// The type of the last mount at `path`.
pub fn mounted_at(path: &str) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounted_in(&mounts, path).map(str::to_owned)
}

fn mounted_in<'a>(mounts: &'a str, path: &str) -> Option<&'a str> {
    let mut at = mounts.lines().rev().filter_map(|line| line.split_once(' ')?.1.split_once(' '));
    at.find(|(place, _)| *place == path)?.1.split(' ').next()
}

/// Each disk that the guest's kernel has drivers for.
pub fn disks() -> Vec<Disk> {
    let disks = names("/sys/block").into_iter();
    let disks = disks.filter(|name| !NO_DISKS.iter().any(|kind| name.starts_with(kind)));
    let disks = disks.take(MAX_DISKS).map(|name| {
        let node = format!("/dev/{name}");
        let magic = first_bytes(&node).or_else(|| first_bytes(&format!("{HIDDEN}/{name}")));
        let magic = magic.filter(|found| MAGICS.contains(&found));
        Disk {
            magic: magic.map(|magic| String::from_utf8_lossy(&magic).into_owned()),
            read_only: line(&format!("/sys/block/{name}/ro")) == "1",
            visible: Path::new(&node).exists(),
            name,
        }
    });
    disks.collect()
}

fn first_bytes(node: &str) -> Option<[u8; 8]> {
    let mut bytes = [0; 8];
    File::open(node).ok()?.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// The names in a folder, sorted.
pub fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The text of a small file on one line; empty where there is none.
pub fn line(path: &str) -> String {
    start_of(path).unwrap_or_default().trim().to_owned()
}

/// Says which policy the agent finds. An error where it would end for want of one.
pub fn policy(console: &mut Console) -> Result<(), String> {
    let named = std::env::var("KATA_AGENT_POLICY_FILE").ok();
    let path = named.as_deref().unwrap_or(DEFAULT_POLICY).to_owned();
    let text = start_of(&path);
    let ends = text.is_none() && named.is_some();
    let late_secs = if ends { late(|| Path::new(&path).exists()) } else { None };
    let error = format!("there is no policy at {path}");
    console.say("policy", &Policy { path, text, late_secs });
    if ends { Err(error) } else { Ok(()) }
}

/// Each file that is there for the agent and the puller.
pub fn left() -> Vec<seen::File> {
    let folders = [seen::MEASURED, seen::INSECURE].into_iter();
    let paths = folders.flat_map(|folder| {
        let files = names(folder).into_iter().take(MAX_FILES);
        let files = files.map(move |name| format!("{folder}/{name}"));
        std::iter::once(folder.to_owned()).chain(files)
    });
    let files = paths.filter_map(|path| {
        let stat = fs::metadata(&path).ok()?;
        Some(seen::File {
            mode: mode(&path)?,
            owner: format!("{}:{}", stat.uid(), stat.gid()),
            bytes: stat.len(),
            reason: path.ends_with(".error").then(|| start_of(&path)).flatten(),
            path,
        })
    });
    files.collect()
}

/// The last four octal digits of a file's mode; none: it is not there.
pub fn mode(path: &str) -> Option<String> {
    Some(format!("{:04o}", fs::metadata(path).ok()?.mode() & 0o7777))
}

/// The beginning of a file as text.
fn start_of(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let limit = 4 * MAX_TEXT_CHARS as u64;
    File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).chars().take(MAX_TEXT_CHARS).collect())
}

/// What `initdata-processor` wrote to the kernel's log.
pub fn kernel_log() -> Vec<String> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let log = OpenOptions::new().read(true).custom_flags(flags).open("/dev/kmsg");
    let Ok(mut log) = log else {
        return Vec::new();
    };
    let (mut lines, mut record) = (Vec::new(), vec![0; 8192]);
    for _ in 0..MAX_RECORDS {
        match log.read(&mut record) {
            Ok(length) => {
                lines.extend(said_by_the_processor(&String::from_utf8_lossy(&record[..length])));
            }
            // Overwritten meanwhile; the next one is there.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(_) => break,
        }
    }
    lines.truncate(LINES);
    lines
}

/// A record is `PRIORITY,NUMBER,TIME,FLAGS;TEXT`.
fn said_by_the_processor(record: &str) -> Option<String> {
    let text = record.split_once(';')?.1.lines().next()?;
    let said = text.starts_with("initdata-processor");
    said.then(|| text.chars().take(MAX_TEXT_CHARS / 2).collect())
}

/// How much memory there is, and what the programs took at most.
pub fn memory() -> Memory {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let mut peaks = BTreeMap::new();
    for process in names("/proc") {
        let name = line(&format!("/proc/{process}/comm"));
        if let Some((_, whole)) = PROGRAMS.iter().find(|(short, _)| *short == name) {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            let peak: &mut u64 = peaks.entry((*whole).to_owned()).or_default();
            *peak = (*peak).max(kib(&status, "VmHWM:"));
        }
    }
    let (total, available) = (kib(&memory, "MemTotal:"), kib(&memory, "MemAvailable:"));
    Memory { total, available, peaks }
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

    #[test]
    fn the_last_mount_counts() {
        let mounts = "root / rootfs rw 0 0\nnone /run ramfs rw 0 0\ntmpfs /run tmpfs rw 0 0\n";
        assert_eq!(mounted_in(mounts, "/run"), Some("tmpfs"));
        assert_eq!(mounted_in(mounts, "/dev"), None);
    }
}
