//! The mounts that Kata's agent makes where it is the first program.

use std::fs;

use rustix::mount::{MountFlags, mount};

/// What is mounted where, unless it is already: in the agent's order.
const MOUNTS: [(&str, &str); 4] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    // Over what is there: results of a processor that ran before are hidden then.
    ("tmpfs", "/run"),
];

/// Makes them; whether one was made over `/run`. What cannot be mounted shows in what is seen
/// afterwards.
pub fn make() -> bool {
    let mut over_run = false;
    if std::process::id() != 1 {
        return over_run;
    }
    for (kind, path) in MOUNTS {
        if kind_at(path).as_deref() != Some(kind) {
            let _ = fs::create_dir_all(path);
            let made = mount(kind, path, kind, MountFlags::NOSUID, None);
            over_run |= made.is_ok() && path == "/run";
        }
    }
    over_run
}

/// The type of the last mount at `path`.
pub fn kind_at(path: &str) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    kind_in(&mounts, path)
}

fn kind_in(mounts: &str, path: &str) -> Option<String> {
    let mut found = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        if words.next() == Some(path) {
            found = words.next();
        }
    }
    found.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_counts() {
        let mounts = "root / rootfs rw 0 0\nnone /run ramfs rw 0 0\ntmpfs /run tmpfs rw 0 0\n";
        assert_eq!(kind_in(mounts, "/run").as_deref(), Some("tmpfs"));
        assert_eq!(kind_in(mounts, "/dev"), None);
    }
}
