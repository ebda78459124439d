//! Directory trees removed, however deep they are.
//!
//! The standard library goes down with a descriptor and a stack frame for each level, and what an
//! unverified layer or a container made may have more levels than a process has of either. Here
//! names are kept, and two directories are open.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use crate::caller::{self, CallerWatch};
use crate::directory;

/// How many subdirectories are noted before the first of them is gone into; the others are read
/// again later.
const MAX_NOTED: usize = 64;

/// Removes a tree to which nothing is added any more; others may be removing it too. No
/// symbolic link is followed, except on the way to it. Blocks.
///
/// # Errors
///
/// What the kernel said; some of the tree is left then. `NotFound` only where there was nothing of
/// that name from the start.
pub fn remove_path(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or(OsStr::new("."));
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    remove(File::open(parent)?.as_fd(), name.as_bytes())
}

/// Removes what has a name in a directory, alone or with everything below it.
///
/// # Errors
///
/// As for [`remove_path`].
pub fn remove(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    remove_while(parent, name, &|| true)
}

/// As [`remove`], and ends early when the caller is gone.
pub(crate) fn remove_for(
    parent: BorrowedFd<'_>,
    name: &[u8],
    caller: &CallerWatch,
) -> io::Result<()> {
    remove_while(parent, name, &|| !caller.is_gone())
}

fn remove_while(
    parent: BorrowedFd<'_>,
    name: &[u8],
    is_wanted: &dyn Fn() -> bool,
) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        other => return Ok(other?),
    }
    // From here on what is missing was removed by somebody else meanwhile.
    let Some(mut directory) = there(directory::open(parent, name))? else {
        return Ok(());
    };
    // The way down to `directory`, and on each level of it what is known to be left there.
    let mut way: Vec<CString> = Vec::new();
    let mut left = vec![clear(&directory, is_wanted)?];
    while let Some(known) = left.last_mut() {
        if let Some(child) = known.pop() {
            if let Some(below) = there(directory::open(&directory, child.as_bytes()))? {
                directory = below;
                way.push(child);
                left.push(clear(&directory, is_wanted)?);
            }
            continue;
        }
        *known = clear(&directory, is_wanted)?;
        if !known.is_empty() {
            continue;
        }
        left.pop();
        if let Some(child) = way.pop() {
            // The kernel knows the way up from a removed directory too.
            directory = directory::open(&directory, b"..")?;
            there(unlinkat(&directory, child, AtFlags::REMOVEDIR))?;
        }
    }
    there(unlinkat(parent, name, AtFlags::REMOVEDIR))?;
    Ok(())
}

/// What became of something, if it was still there.
fn there<T>(result: Result<T, Errno>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes what is no directory; gives some of the directories, and none only if there is none.
fn clear(directory: &OwnedFd, is_wanted: &dyn Fn() -> bool) -> io::Result<Vec<CString>> {
    let mut found = Vec::new();
    let Some(entries) = there(directory::entries(directory))? else {
        return Ok(found);
    };
    for entry in entries {
        let Some(entry) = there(entry)? else {
            break;
        };
        if !is_wanted() {
            return Err(caller::gone());
        }
        let name = entry.file_name();
        match unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => found.push(name.to_owned()),
            Err(error) => return Err(error.into()),
        }
        if found.len() == MAX_NOTED {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, mkdirat};
    use std::sync::Barrier;
    use std::{fs, thread};

    /// One layer of 160 KB once nested directories 19,500 deep: removing them took a descriptor for
    /// each level, failed, and the service never started again.
    #[test]
    fn the_deepest_tree_is_removed() {
        let outside = tempfile::tempdir_in("/dev/shm").unwrap();
        let root = outside.path().join("tree");
        fs::create_dir(&root).unwrap();
        let mut deepest: OwnedFd = fs::File::open(&root).unwrap().into();
        for _ in 0..20_000 {
            mkdirat(&deepest, "d", Mode::RWXU).unwrap();
            deepest = directory::open(&deepest, b"d").unwrap();
        }
        drop(deepest);
        remove_path(&root).unwrap();
        assert!(!root.exists());
    }

    /// "Not found" from within a tree that somebody else was removing too was once taken for "all
    /// of it is gone".
    #[test]
    fn several_may_remove_one_tree() {
        let outside = tempfile::tempdir_in("/dev/shm").unwrap();
        for _ in 0..20 {
            let root = outside.path().join("tree");
            for number in 0..3 * MAX_NOTED {
                fs::create_dir_all(root.join(format!("{number}/below/deep"))).unwrap();
                fs::write(root.join(format!("{number}/below/file")), "x").unwrap();
            }
            let start = Barrier::new(3);
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        start.wait();
                        let removed = remove_path(&root).map_err(|error| error.kind());
                        let is_gone = matches!(removed, Ok(()) | Err(io::ErrorKind::NotFound));
                        assert!(is_gone, "{removed:?}");
                        assert!(!root.exists(), "{removed:?} too early");
                    });
                }
            });
        }
    }

    #[test]
    fn everything_in_a_tree_goes_and_nothing_outside() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("precious"), "content").unwrap();
        let root = outside.path().join("tree");
        for number in 0..3 * MAX_NOTED {
            fs::create_dir_all(root.join(format!("{number}/below"))).unwrap();
            fs::write(root.join(format!("{number}/file")), "x").unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), root.join("out")).unwrap();
        remove_path(&root).unwrap();
        assert!(!root.exists());
        assert_eq!(fs::read(outside.path().join("precious")).unwrap(), b"content");
        assert_eq!(remove_path(&root).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
