//! The directories of a layer while it is unpacked: every path is resolved by the kernel below the layer's root.
//!
//! A symbolic link of the layer is followed in the middle of a path, as in a running container, but its target is looked up
//! below the same root, absolute or with `..` as it may be. The last component of a path is never followed.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, mkdirat, openat2, statat, unlinkat,
};
use rustix::io::Errno;

/// How deep directories may be nested. The kernel takes paths of 4095 bytes, so 2047 levels; trees have tens.
const MAX_DEPTH: usize = 512;

/// How often the kernel may ask to repeat a lookup with `..` that a rename elsewhere raced with.
const MAX_LOOKUPS: usize = 256;

/// The path of an entry, clean: relative, without empty, `.` and `..` components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPath {
    /// Everything before the last component; empty for what lies in the root.
    pub parent: Vec<u8>,
    /// The last component; empty for the root itself.
    pub name: Vec<u8>,
}

impl EntryPath {
    /// Cleans a path. A leading slash means the layer's root, as in every tool that unpacks archives.
    ///
    /// # Errors
    ///
    /// Words about `..`, zero bytes, a component or a depth that no file system takes.
    pub fn parse(path: &[u8]) -> Result<Self, &'static str> {
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in path.split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err("has a component \"..\""),
                _ if part.contains(&0) => return Err("has a zero byte"),
                _ if part.len() > 255 => return Err("has a component of more than 255 bytes"),
                _ => parts.push(part),
            }
        }
        if parts.len() > MAX_DEPTH {
            return Err("is nested too deeply");
        }
        let name = parts.pop().unwrap_or_default().to_vec();
        Ok(Self {
            parent: parts.join(&b'/'),
            name,
        })
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.name.is_empty()
    }

    /// The whole path.
    pub fn whole(&self) -> Vec<u8> {
        if self.parent.is_empty() {
            self.name.clone()
        } else {
            [&self.parent[..], &self.name].join(&b'/')
        }
    }
}

/// A directory that paths are resolved below.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
    /// The parent of the last entry: archives list the files of a directory one after another.
    last: Option<(Vec<u8>, Arc<OwnedFd>)>,
}

impl Tree {
    /// A tree below an open directory.
    pub fn new(root: OwnedFd) -> Self {
        Self { root, last: None }
    }

    /// The root itself.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Opens a directory; those missing on the way are made, with the mode and owner that a layer without an entry for
    /// them leaves open.
    pub fn directory(&mut self, path: &[u8]) -> io::Result<Arc<OwnedFd>> {
        if let Some((_, directory)) = self.last.as_ref().filter(|(known, _)| known == path) {
            return Ok(directory.clone());
        }
        let directory = Arc::new(self.open_or_make(path)?);
        self.last = Some((path.to_vec(), directory.clone()));
        Ok(directory)
    }

    fn open_or_make(&self, path: &[u8]) -> io::Result<OwnedFd> {
        match self.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        // The nearest directory that is there, then down again.
        let mut ends: Vec<usize> = path
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/')
            .map(|(at, _)| at)
            .collect();
        ends.push(path.len());
        let mut start = 0;
        let mut directory = self.open(b"")?;
        for end in ends {
            let name = &path[start..end];
            match mkdirat(&directory, name, Mode::from_raw_mode(0o755)) {
                // The mode of a directory that was just made is subject to the process's umask.
                Ok(()) => {
                    directory = self.open(&path[..end])?;
                    rustix::fs::fchmod(&directory, Mode::from_raw_mode(0o755))?;
                }
                Err(Errno::EXIST) => directory = self.open(&path[..end])?,
                Err(error) => return Err(error.into()),
            }
            start = end + 1;
        }
        Ok(directory)
    }

    /// Opens a directory that is there.
    pub fn open(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let path = if path.is_empty() { b"." } else { path };
        for _ in 0..MAX_LOOKUPS {
            match openat2(&self.root, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return Ok(opened?),
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Removes what has a name, a whole directory too, and follows nothing.
    pub fn remove(&mut self, directory: &OwnedFd, name: &[u8]) -> io::Result<()> {
        match unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::ISDIR) => {
                // One component below an open directory: the standard library takes care not to follow links from there.
                let base = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
                std::fs::remove_dir_all(base.join(std::ffi::OsStr::from_bytes(name)))?;
            }
            Err(error) => return Err(error.into()),
        }
        // What was removed may be the way to the directory that is kept open.
        self.last = None;
        Ok(())
    }
}

/// What has a name in a directory, if anything.
pub fn kind_of(directory: &OwnedFd, name: &[u8]) -> io::Result<Option<Found>> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => Found::Directory,
            FileType::CharacterDevice if found.st_rdev == 0 => Found::Whiteout,
            _ => Found::Other,
        })),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The kinds of things that matter to what comes after them in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A directory.
    Directory,
    /// A whiteout in overlayfs's form.
    Whiteout,
    /// Anything else.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_or_refused() {
        for (path, parent, name) in [
            ("a", "", "a"),
            ("./a/b/", "a", "b"),
            ("/etc//passwd", "etc", "passwd"),
            ("a/./b/c", "a/b", "c"),
            (".", "", ""),
            ("/", "", ""),
            ("", "", ""),
            ("a/...", "a", "..."),
        ] {
            let parsed = EntryPath::parse(path.as_bytes()).unwrap();
            assert_eq!(
                parsed,
                EntryPath {
                    parent: parent.into(),
                    name: name.into()
                },
                "{path}"
            );
        }
        for path in ["..", "../a", "a/../b", "a/..", "/../a", "a\0b"] {
            assert!(EntryPath::parse(path.as_bytes()).is_err(), "{path}");
        }
        assert!(EntryPath::parse("a".repeat(256).as_bytes()).is_err());
        assert!(EntryPath::parse("a/".repeat(MAX_DEPTH + 1).as_bytes()).is_err());
    }
}
