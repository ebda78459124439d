//! The directories of a layer while it is unpacked. The kernel resolves every path below the
//! layer's root.
//!
//! A symbolic link in the middle of a path is followed, as in a running container, but its target
//! is looked up below the same root, even if it is absolute or has `..`. The last component of a
//! path is never followed.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use linux_sys::rooted::open_scoped;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, XattrFlags, fchmod, fsetxattr, mkdirat,
    readlink, readlinkat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::caller::CallerWatch;
use crate::creation::NewFile;
use crate::removal;
use crate::way::Way;

/// How deep directories may be nested. The kernel takes paths of 4095 bytes, so 2047 levels; trees
/// have tens.
const MAX_DEPTH: usize = 512;

/// How many directories are kept open.
const MAX_OPEN: usize = 32;

/// What a short path costs in a collection besides its own bytes, about: a node's slot, a vector,
/// an allocation.
pub(crate) const ENTRY_BYTES: usize = 128;

/// The most bytes of paths of directories without an entry, with [`ENTRY_BYTES`] for each; each is
/// looked up in all layers below for every mount.
const MAX_IMPLIED_BYTES: usize = 16 << 20;

/// Overlayfs's mark of a directory that hides those of its name below.
pub const OPAQUE_XATTR: &str = "trusted.overlay.opaque";

/// The path of an entry, clean: relative, without empty, `.` and `..` components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPath {
    /// Everything before the last component; empty for what lies in the root.
    pub parent: Vec<u8>,
    /// The last component; empty for the root itself.
    pub name: Vec<u8>,
}

impl EntryPath {
    /// Cleans a path. A leading slash means the layer's root, as in every tool that unpacks
    /// archives.
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
        Ok(Self { parent: parts.join(&b'/'), name })
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
    /// Directories by the paths that they were asked for with, the last used at the end: archives
    /// list the files of a directory one after another, with its subdirectories in between.
    open: Vec<(Vec<u8>, Arc<Directory>)>,
    implied: BTreeSet<Vec<u8>>,
    implied_bytes: usize,
}

/// An open directory of a tree.
#[derive(Debug)]
pub struct Directory {
    handle: OwnedFd,
    /// Where it is, below the root and without symbolic links; empty for the root itself.
    path: Vec<u8>,
    new_file: OnceLock<NewFile>,
}

impl Directory {
    /// The path of something in it.
    pub fn path_of(&self, name: &[u8]) -> Vec<u8> {
        if self.path.is_empty() { name.to_vec() } else { [&self.path, name].join(&b'/') }
    }

    /// What a file gets that is made in it, if that is known.
    pub(crate) fn new_file(&self) -> Option<NewFile> {
        self.new_file.get().copied()
    }

    /// Notes what a file got.
    pub(crate) fn learn(&self, new_file: NewFile) {
        let _ = self.new_file.set(new_file);
    }

    fn depth(&self) -> usize {
        self.path.split(|&byte| byte == b'/').count()
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
            open: Vec::new(),
            implied: BTreeSet::from([Vec::new()]),
            implied_bytes: 0,
        })
    }

    /// Opens a directory; those missing on the way are made, with the mode and owner that a layer
    /// without an entry for them leaves open.
    pub fn directory(&mut self, path: &[u8]) -> io::Result<Arc<Directory>> {
        if let Some(at) = self.open.iter().rposition(|(known, _)| known == path) {
            let found = self.open.remove(at);
            let directory = found.1.clone();
            self.open.push(found);
            return Ok(directory);
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
        Ok(self.remember(path.to_vec(), directory))
    }

    /// Forgets what files get in a directory, for it got another owner or mode.
    pub fn forget(&mut self, path: &[u8]) {
        self.open.retain(|(_, directory)| directory.path != path);
    }

    fn remember(&mut self, path: Vec<u8>, directory: Directory) -> Arc<Directory> {
        if self.open.len() == MAX_OPEN {
            self.open.remove(0);
        }
        let directory = Arc::new(directory);
        self.open.push((path, directory.clone()));
        directory
    }

    /// Keeps a directory open that got its own entry, for what comes in it next. `path` is how the
    /// archive calls it.
    pub fn keep(&mut self, path: Vec<u8>, handle: OwnedFd, parent: &Directory, name: &[u8]) {
        let directory = Directory { handle, path: parent.path_of(name), new_file: OnceLock::new() };
        self.forget(&directory.path);
        // What is too deep is refused when something is to be made in it.
        if directory.depth() <= MAX_DEPTH {
            self.remember(path, directory);
        }
    }

    /// From the root down again, making what is missing, also behind symbolic links: builders that
    /// put archives together write entries below a link whose target only a lower layer has
    /// (`bin -> usr/bin`, and `bin/x`). What is made then is a directory without an entry, below
    /// the same root.
    fn make(&mut self, path: &[u8]) -> io::Result<Directory> {
        let mut way = Way::new(path);
        let mut directory = self.place(self.open(b"")?)?;
        while let Some(name) = way.next() {
            if name == b".." {
                // The links before it are resolved, so this is the way up in the tree. The root's
                // parent is the root.
                let path = directory.path.clone();
                let end = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                directory = self.place(self.open(&path[..end])?)?;
                continue;
            }
            let path = directory.path_of(&name);
            directory = match mkdirat(&directory, &name[..], Mode::RWXU) {
                Ok(()) => self.made(&path, true)?,
                Err(Errno::EXIST) => match kind_of(&directory, &name)? {
                    Some(Occupant::Symlink) => {
                        let target = readlinkat(&directory, &name[..], Vec::new())?.into_bytes();
                        if way.follow(&target)? { self.place(self.open(b"")?)? } else { directory }
                    }
                    // The layer hides what was there below and goes on with a directory of its own.
                    Some(Occupant::Whiteout) => {
                        unlinkat(&directory, &name[..], AtFlags::empty())?;
                        mkdirat(&directory, &name[..], Mode::RWXU)?;
                        let made = self.made(&path, false)?;
                        set_opaque(&made)?;
                        made
                    }
                    _ => self.place(self.open(&path)?)?,
                },
                Err(error) => return Err(error.into()),
            };
        }
        Ok(directory)
    }

    /// Opens a directory that was made a moment ago. Its mode is set here, for making it was
    /// subject to the umask.
    fn made(&mut self, path: &[u8], is_implied: bool) -> io::Result<Directory> {
        let directory = self.place(self.open(path)?)?;
        fchmod(&directory, Mode::from_raw_mode(0o755))?;
        if is_implied {
            self.implied_bytes += ENTRY_BYTES + directory.path.len();
            if self.implied_bytes > MAX_IMPLIED_BYTES {
                return Err(io::Error::other(format!(
                    "directories without an entry of their own take more than {MAX_IMPLIED_BYTES} \
                    bytes"
                )));
            }
            self.implied.insert(directory.path.clone());
        }
        Ok(directory)
    }

    /// Finds out where a directory is. Textual paths are bounded, but a symbolic link that leads
    /// deep may be followed to a place from where the next one leads deeper.
    fn place(&self, handle: OwnedFd) -> io::Result<Directory> {
        let whole = path_of(&handle)?;
        let path = whole
            .strip_prefix(&self.root_path[..])
            .ok_or_else(|| io::Error::other("lies outside of the layer"))?;
        let path = path.strip_prefix(b"/").unwrap_or(path).to_vec();
        let directory = Directory { handle, path, new_file: OnceLock::new() };
        if directory.depth() > MAX_DEPTH {
            return Err(io::Error::other(format!("lies more than {MAX_DEPTH} directories deep")));
        }
        Ok(directory)
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
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let path = if path.is_empty() { b"." } else { path };
        open_scoped(&self.root, path, flags, resolve)
    }

    /// Removes what has a name, a whole directory too, and follows nothing. It ends early when the
    /// caller is gone.
    pub fn remove(
        &mut self,
        directory: &Directory,
        name: &[u8],
        caller: &CallerWatch,
    ) -> io::Result<()> {
        removal::remove_for(directory.as_fd(), name, caller)?;
        // What was removed may be the way to directories that are kept open.
        self.open.clear();
        let path = directory.path_of(name);
        self.implied.remove(&path);
        self.implied.extract_if(below(&path), |_| true).for_each(drop);
        Ok(())
    }
}

/// The paths that lie below another one, in the order of bytes.
pub(crate) fn below(path: &[u8]) -> Range<Vec<u8>> {
    [path, b"/"].concat()..[path, &[b'/' + 1]].concat()
}

/// Hides what the layers below have in a directory.
pub fn set_opaque(directory: impl AsFd) -> Result<(), Errno> {
    fsetxattr(directory, OPAQUE_XATTR, b"y", XattrFlags::empty())
}

/// Where an open directory is, as the kernel sees it; an error where the path is longer than the
/// kernel takes.
fn path_of(directory: &OwnedFd) -> io::Result<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    Ok(readlink(link, Vec::new())?.into_bytes())
}

/// What has a name in a directory, if anything.
pub fn kind_of(directory: impl AsFd, name: &[u8]) -> io::Result<Option<Occupant>> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => Occupant::Directory,
            FileType::CharacterDevice if found.st_rdev == 0 => Occupant::Whiteout,
            FileType::Symlink => Occupant::Symlink,
            _ => Occupant::Other,
        })),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The kinds of things that matter to what comes after them in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// A directory.
    Directory,
    /// A whiteout in overlayfs's form.
    Whiteout,
    /// A symbolic link.
    Symlink,
    /// Anything else.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_without_an_entry_counts_with_what_its_place_costs() {
        let directory = tempfile::tempdir().unwrap();
        let root = std::fs::File::open(directory.path()).unwrap().into();
        let mut tree = Tree::new(root).unwrap();
        tree.implied_bytes = MAX_IMPLIED_BYTES - 2 * (ENTRY_BYTES + 1);
        tree.directory(b"a").unwrap();
        tree.directory(b"b").unwrap();
        let error = tree.directory(b"c").unwrap_err().to_string();
        assert!(error.contains("without an entry"), "{error}");
    }

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
            assert_eq!(parsed, EntryPath { parent: parent.into(), name: name.into() }, "{path}");
        }
        for path in ["..", "../a", "a/../b", "a/..", "/../a", "a\0b"] {
            assert!(EntryPath::parse(path.as_bytes()).is_err(), "{path}");
        }
        assert!(EntryPath::parse("a".repeat(256).as_bytes()).is_err());
        assert!(EntryPath::parse("a/".repeat(MAX_DEPTH + 1).as_bytes()).is_err());
    }
}
