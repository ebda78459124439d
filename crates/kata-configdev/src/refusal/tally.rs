//! How many sandboxes were refused, and for which causes, since the node started.
//!
//! Each refusal is a process of its own that ends. So it leaves a byte in the file of its cause,
//! below `RUN-ROOT/kata-configdev/refused`: appending is atomic, needs no lock, and the length is
//! the count. Whoever wants to know makes the directory and reads lengths; where nobody has,
//! nothing is counted. Nothing here fails a sandbox or is told.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
use rustix::io::Errno;

use crate::host_file::require_administered;

/// The directories below `/run`, the last one with the files.
const PARENTS: [&str; 2] = ["kata-configdev", "refused"];

/// The largest count: what a node that refuses without end may take of its memory.
const MAX_COUNT: u64 = 1 << 20;

/// The causes, which are the names of the files.
pub const CAUSES: [&str; 8] =
    ["settings", "qemu", "pod", "document", "machine", "disk", "node", "bug"];

/// Makes the place where refusals are counted from now on. A place that cannot be had has no
/// counts.
pub fn prepare(run_root: &Path) {
    let _ = directory(run_root, true);
}

/// Counts one refusal, if somebody wants to know.
pub fn add(run_root: &Path, cause: &str) {
    let _ = append(run_root, cause);
}

fn append(run_root: &Path, cause: &str) -> io::Result<()> {
    let directory = directory(run_root, false)?;
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::APPEND
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    let file = openat(directory, cause, flags, Mode::RUSR | Mode::WUSR)?;
    let file = File::from(file);
    let found = file.metadata()?;
    if found.is_file() && found.len() < MAX_COUNT {
        rustix::io::write(&file, b".")?;
    }
    Ok(())
}

/// The counts of all causes; none where there is no [place](prepare) for them. A cause that nobody
/// was refused for has 0: a collector sees no increase of what it has not seen before.
#[must_use]
pub fn read(run_root: &Path) -> Vec<(&'static str, u64)> {
    let Ok(directory) = directory(run_root, false) else {
        return Vec::new();
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let count = |cause: &'static str| {
        let file = match openat(&directory, cause, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Some((cause, 0)),
            Err(_) => return None,
        };
        let found = File::from(file).metadata().ok()?;
        found.is_file().then(|| (cause, found.len().min(MAX_COUNT)))
    };
    CAUSES.into_iter().filter_map(count).collect()
}

fn directory(run_root: &Path, make: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = open(run_root, flags, Mode::empty())?;
    for (name, mode) in PARENTS.into_iter().zip([0o755, 0o700]) {
        if make {
            match mkdirat(&directory, name, Mode::from_raw_mode(mode)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let opened = openat(&directory, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        let opened = File::from(opened);
        require_administered(&opened.metadata()?).map_err(io::Error::other)?;
        directory = opened.into();
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_add_up_and_links_are_left_alone() {
        let run = tempfile::tempdir().unwrap();
        add(run.path(), "document");
        assert_eq!(std::fs::read_dir(run.path()).unwrap().count(), 0);
        assert_eq!(read(run.path()), []);
        prepare(run.path());
        assert_eq!(read(run.path()), CAUSES.map(|cause| (cause, 0)));
        for cause in ["document", "pod", "document"] {
            add(run.path(), cause);
        }
        let counted = |(cause, count): &(&'static str, u64)| (*count > 0).then_some(*cause);
        let read_now = read(run.path());
        let causes: Vec<_> = read_now.iter().filter_map(counted).collect();
        assert_eq!(causes, ["pod", "document"]);
        assert_eq!(read_now.len(), CAUSES.len());
        assert!(read_now.contains(&("document", 2)));
        let files = run.path().join("kata-configdev/refused");
        let victim = run.path().join("victim");
        std::fs::write(&victim, "").unwrap();
        std::os::unix::fs::symlink(&victim, files.join("qemu")).unwrap();
        add(run.path(), "qemu");
        assert_eq!(std::fs::read(&victim).unwrap(), b"");
        std::fs::write(files.join("bug"), vec![b'.'; MAX_COUNT as usize]).unwrap();
        add(run.path(), "bug");
        assert_eq!(read(run.path()).last(), Some(&("bug", MAX_COUNT)));
    }
}
