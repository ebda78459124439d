//! Directory trees removed, however deep they are.
//!
//! The standard library goes down with a descriptor and a stack frame for each level, and what an unverified layer or a
//! container made may have more levels than a process has of either. Here names are kept, and two directories are open.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

/// How many subdirectories are noted before the first of them is gone into; the others are read again later.
const MAX_NOTED: usize = 64;

/// Removes a tree that nobody else changes. No symbolic link is followed, except on the way to it. Blocks.
///
/// # Errors
///
/// What the kernel said; some of the tree is left then.
pub fn remove_path(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or(OsStr::new("."));
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    remove(
        open(CWD, parent.as_os_str().as_bytes())?.as_fd(),
        name.as_bytes(),
    )
}

/// Removes what has a name in a directory, alone or with everything below it.
///
/// # Errors
///
/// As for [`remove_path`].
pub fn remove(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        other => return Ok(other?),
    }
    let mut directory = open_below(parent, name)?;
    // The way down to `directory`, and on each level of it what is known to be left there.
    let mut way: Vec<CString> = Vec::new();
    let mut left = vec![clear(&directory)?];
    while let Some(known) = left.last_mut() {
        if let Some(child) = known.pop() {
            directory = open_below(directory.as_fd(), child.as_bytes())?;
            way.push(child);
            left.push(clear(&directory)?);
            continue;
        }
        *known = clear(&directory)?;
        if !known.is_empty() {
            continue;
        }
        left.pop();
        if let Some(child) = way.pop() {
            directory = open(directory.as_fd(), b"..")?;
            unlinkat(&directory, child, AtFlags::REMOVEDIR)?;
        }
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

/// Removes what is no directory; gives some of the directories, and none only if there is none.
fn clear(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::ISDIR) => found.push(name.to_owned()),
            Err(error) => return Err(error.into()),
        }
        if found.len() == MAX_NOTED {
            break;
        }
    }
    Ok(found)
}

fn open_below(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(directory, name, flags, Mode::empty())?)
}

fn open(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(directory, path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;
    use std::fs;

    /// One layer of 160 KB once nested directories 19,500 deep: removing them took a descriptor for each level, failed, and
    /// the service never started again.
    #[test]
    fn the_deepest_tree_is_removed() {
        let outside = tempfile::tempdir_in("/dev/shm").unwrap();
        let root = outside.path().join("tree");
        fs::create_dir(&root).unwrap();
        let mut deepest: OwnedFd = fs::File::open(&root).unwrap().into();
        for _ in 0..20_000 {
            mkdirat(&deepest, "d", Mode::RWXU).unwrap();
            deepest = open_below(deepest.as_fd(), b"d").unwrap();
        }
        drop(deepest);
        remove_path(&root).unwrap();
        assert!(!root.exists());
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
        assert_eq!(
            fs::read(outside.path().join("precious")).unwrap(),
            b"content"
        );
        assert_eq!(
            remove_path(&root).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
