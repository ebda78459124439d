//! The directories of a layer while it is unpacked: every path is resolved by the kernel below the layer's root.
//!
//! A symbolic link of the layer is followed in the middle of a path, as in a running container, but its target is looked up
//! below the same root, absolute or with `..` as it may be. The last component of a path is never followed.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, XattrFlags, fchmod, fsetxattr, mkdirat, openat2,
    readlink, statat, unlinkat,
};
use rustix::io::Errno;

use crate::removal;

/// How deep directories may be nested. The kernel takes paths of 4095 bytes, so 2047 levels; trees have tens.
const MAX_DEPTH: usize = 512;

/// The most bytes of paths of directories without an entry; each is looked up in all layers below for every mount.
const MAX_IMPLIED_BYTES: usize = 16 << 20;

/// Overlayfs's mark of a directory that hides those of its name below.
pub const OPAQUE_XATTR: &str = "trusted.overlay.opaque";

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
    /// The root's own path, which the kernel puts before that of everything below.
    root_path: Vec<u8>,
    /// The parent of the last entry: archives list the files of a directory one after another.
    last: Option<(Vec<u8>, Arc<Directory>)>,
    implied: BTreeSet<Vec<u8>>,
    implied_bytes: usize,
}

/// An open directory of a tree.
#[derive(Debug)]
pub struct Directory {
    handle: OwnedFd,
    /// Where it is, below the root and without symbolic links; empty for the root itself.
    path: Vec<u8>,
}

impl Directory {
    /// The path of something in it.
    pub fn path_of(&self, name: &[u8]) -> Vec<u8> {
        if self.path.is_empty() {
            name.to_vec()
        } else {
            [&self.path, name].join(&b'/')
        }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Tree {
    /// A tree below an open directory, which is to stay where it is.
    pub fn new(root: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            root_path: path_of(&root)?,
            root,
            last: None,
            implied: BTreeSet::from([Vec::new()]),
            implied_bytes: 0,
        })
    }

    /// Opens a directory; those missing on the way are made, with the mode and owner that a layer without an entry for
    /// them leaves open.
    pub fn directory(&mut self, path: &[u8]) -> io::Result<Arc<Directory>> {
        if let Some((_, directory)) = self.last.as_ref().filter(|(known, _)| known == path) {
            return Ok(directory.clone());
        }
        let directory = match self.open(path) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                self.make(path)?
            }
            opened => self.place(opened?)?,
        };
        let directory = Arc::new(directory);
        self.last = Some((path.to_vec(), directory.clone()));
        Ok(directory)
    }

    /// From the root down again, making what is missing.
    fn make(&mut self, path: &[u8]) -> io::Result<Directory> {
        let mut ends: Vec<usize> = path
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/')
            .map(|(at, _)| at)
            .collect();
        ends.push(path.len());
        let mut start = 0;
        let mut directory = self.place(self.open(b"")?)?;
        for end in ends {
            let name = &path[start..end];
            directory = match mkdirat(&directory, name, Mode::RWXU) {
                Ok(()) => self.made(&path[..end], true)?,
                Err(Errno::EXIST) => match self.open(&path[..end]) {
                    // The layer hides what was there below and goes on with a directory of its own.
                    Err(error)
                        if error.kind() == io::ErrorKind::NotADirectory
                            && kind_of(&directory, name)? == Some(Found::Whiteout) =>
                    {
                        unlinkat(&directory, name, AtFlags::empty())?;
                        mkdirat(&directory, name, Mode::RWXU)?;
                        let made = self.made(&path[..end], false)?;
                        set_opaque(&made)?;
                        made
                    }
                    opened => self.place(opened?)?,
                },
                Err(error) => return Err(error.into()),
            };
            start = end + 1;
        }
        Ok(directory)
    }

    /// Opens a directory that was made a moment ago. Its mode is set here, for making it was subject to the umask.
    fn made(&mut self, path: &[u8], is_implied: bool) -> io::Result<Directory> {
        let directory = self.place(self.open(path)?)?;
        fchmod(&directory, Mode::from_raw_mode(0o755))?;
        if is_implied {
            self.implied_bytes += directory.path.len() + 1;
            if self.implied_bytes > MAX_IMPLIED_BYTES {
                return Err(io::Error::other(format!(
                    "directories without an entry of their own have paths of more than {MAX_IMPLIED_BYTES} bytes"
                )));
            }
            self.implied.insert(directory.path.clone());
        }
        Ok(directory)
    }

    /// Finds out where a directory is. Textual paths are bounded, but a symbolic link that leads deep may be followed to
    /// a place from where the next one leads deeper.
    fn place(&self, handle: OwnedFd) -> io::Result<Directory> {
        let whole = path_of(&handle)?;
        let path = whole
            .strip_prefix(&self.root_path[..])
            .ok_or_else(|| io::Error::other("lies outside of the layer"))?;
        let path = path.strip_prefix(b"/").unwrap_or(path).to_vec();
        let depth = path.split(|&byte| byte == b'/').count();
        if depth > MAX_DEPTH {
            return Err(io::Error::other(format!(
                "lies more than {MAX_DEPTH} directories deep"
            )));
        }
        Ok(Directory { handle, path })
    }

    /// Notes that a directory has an entry of its own; the empty path is the root's.
    pub fn make_explicit(&mut self, path: &[u8]) {
        self.implied.remove(path);
    }

    /// The directories that were made only because something lies in them.
    pub fn into_implied(self) -> BTreeSet<Vec<u8>> {
        self.implied
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
    pub fn remove(&mut self, directory: &Directory, name: &[u8]) -> io::Result<()> {
        removal::remove(directory.as_fd(), name)?;
        // What was removed may be the way to the directory that is kept open.
        self.last = None;
        let path = directory.path_of(name);
        let below = [&path[..], b"/"].concat();
        let after = self.implied.range(below.clone()..);
        let gone: Vec<_> = after
            .take_while(|known| known.starts_with(&below))
            .cloned()
            .collect();
        for path in gone.iter().chain([&path]) {
            self.implied.remove(path);
        }
        Ok(())
    }
}

/// Hides what the layers below have in a directory.
pub fn set_opaque(directory: impl AsFd) -> Result<(), Errno> {
    fsetxattr(directory, OPAQUE_XATTR, b"y", XattrFlags::empty())
}

/// Where an open directory is, as the kernel sees it; an error where the path is longer than the kernel takes.
fn path_of(directory: &OwnedFd) -> io::Result<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    Ok(readlink(link, Vec::new())?.into_bytes())
}

/// What has a name in a directory, if anything.
pub fn kind_of(directory: impl AsFd, name: &[u8]) -> io::Result<Option<Found>> {
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
