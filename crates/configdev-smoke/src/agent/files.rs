//! What the agent finds: mounts, disks, and the files that the processor left.

use std::fs::{self, File};
use std::io::Read as _;

use rustix::mount::{MountFlags, mount};

/// The mounts that the agent makes where it is the first program, unless they are there: in its
/// order. The last is over what is there: results of a processor that ran before are hidden then.
const MOUNTS: [(&str, &str); 4] =
    [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/run")];

/// Where nodes of disks are, and where the processor puts those that no agent is to find.
const NODES: [&str; 2] = ["/dev", "/dev/.initdata"];

/// The magics that are told by name; other disks may hold anything.
const MAGICS: [&str; 2] = ["initdata", "imgpullr"];

/// How the names begin of what is no disk of the host's.
const NO_DISKS: [&str; 4] = ["loop", "ram", "zram", "dm-"];

/// The most names that are told of a folder.
const MAX_NAMES: usize = 64;

/// The most characters of a foreign text.
pub const MAX_TEXT_CHARS: usize = 4000;

/// Makes the mounts; an error where one was made over `/run`. What else cannot be mounted shows in
/// what is seen afterwards.
pub fn mount_all() -> Result<String, String> {
    for (kind, path) in MOUNTS {
        if std::process::id() == 1 && mounted_at(path).as_deref() != Some(kind) {
            let _ = fs::create_dir_all(path);
            if mount(kind, path, kind, MountFlags::NOSUID, None).is_ok() && path == "/run" {
                return Err(
                    "nothing was mounted at /run, so the agent mounted an empty tmpfs over \
                            what the processor left there"
                        .to_owned(),
                );
            }
        }
    }
    Ok("the agent mounts nothing over /run".to_owned())
}

/// The type of the last mount at `path`.
pub fn mounted_at(path: &str) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut lines = mounts.lines().rev().map(|line| line.split(' ').collect::<Vec<_>>());
    lines.find(|words| words.get(1) == Some(&path))?.get(2).map(|&kind| kind.to_owned())
}

/// Each disk that the guest's kernel has drivers for, with its magic.
pub fn disks() -> Vec<String> {
    let mut disks = names("/sys/block");
    disks.retain(|name| !NO_DISKS.iter().any(|kind| name.starts_with(kind)));
    for name in &mut disks {
        let mut magics = NODES.iter().filter_map(|folder| magic(&format!("{folder}/{name}")));
        if let Some(magic) = magics.next() {
            name.push_str(&format!(" ({magic})"));
        }
    }
    disks
}

fn magic(node: &str) -> Option<&'static str> {
    let mut bytes = [0; 8];
    File::open(node).ok()?.read_exact(&mut bytes).ok()?;
    MAGICS.into_iter().find(|magic| magic.as_bytes() == bytes)
}

/// The names in a folder, sorted.
pub fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names.take(MAX_NAMES).collect();
    names.sort();
    names
}

/// The folders of the processor's, with each file that is there for the agent and the puller.
pub fn left() -> Vec<String> {
    let mut files = Vec::new();
    for folder in ["/run/measured-cfg", "/run/insecure-cfg"] {
        if fs::exists(folder).unwrap_or(false) {
            files.push(folder.to_owned());
            files.extend(names(folder).iter().map(|name| format!("{folder}/{name}")));
        }
    }
    files
}

/// The beginning of a file as text.
pub fn start_of(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_TEXT_CHARS as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
