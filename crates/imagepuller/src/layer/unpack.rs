//! Entries made into files, with owners, modes, times and attributes, and with whiteouts as overlayfs wants them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat,
    fchmod, fchown, fsetxattr, futimens, linkat, makedev, mkdirat, mknodat, openat, symlinkat,
    utimensat,
};
use rustix::io::Errno;

use super::archive::{Archive, Entry, EntryKind};
use super::archive_error::ArchiveError;
use super::caller::{self, Caller};
use super::pax::Time;
use super::tree::{Directory, EntryPath, Found, Tree, kind_of, set_opaque};

/// The most bytes of directory paths kept until the end, when their times are set.
const MAX_DIRECTORY_BYTES: usize = 64 << 20;

/// How much of a file is copied at once.
const COPY_BYTES: usize = 128 << 10;

/// The prefix of names that hide something of the layers below (OCI image specification, layer, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";

/// The name that hides everything of a directory below.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Names of aufs's own bookkeeping.
const AUFS: &[u8] = b".wh..wh.";

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// The archive itself.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// An entry's path leads out of the layer or nowhere.
    #[error("the path of entry {path:?} {rule}")]
    Path {
        /// As the archive has it.
        path: String,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// An entry names something impossible.
    #[error("entry {path:?} {rule}")]
    Entry {
        /// As the archive has it.
        path: String,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// The kernel refused.
    #[error("cannot {action} {path:?}")]
    File {
        /// A verb, such as `create`.
        action: &'static str,
        /// As the archive has it.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl UnpackError {
    /// Whether the file system is full.
    pub fn is_no_space(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, Self::File { source, .. } if full.contains(&source.kind()))
    }
}

/// What came out of an archive.
#[derive(Debug)]
pub struct Contents {
    /// The number of entries.
    pub entries: u64,
    /// Directories that are there only because something lies in them; the empty path is the root.
    pub implied: BTreeSet<Vec<u8>>,
}

/// Unpacks an archive below a directory that nobody else uses.
///
/// # Errors
///
/// [`UnpackError`]; the directory then holds the entries before the bad one.
pub fn unpack(
    source: &mut impl Read,
    root: OwnedFd,
    max_entries: u64,
    caller: &Caller,
) -> Result<Contents, UnpackError> {
    let source = io::BufReader::with_capacity(COPY_BYTES, source);
    let mut archive = Archive::new(source, max_entries);
    let mut unpacker = Unpacker {
        tree: Tree::new(root).map_err(|source| UnpackError::File {
            action: "find",
            path: "/".to_owned(),
            source,
        })?,
        directories: BTreeMap::new(),
        directory_bytes: 0,
        skipped_xattrs: 0,
    };
    let mut buffer = vec![0; COPY_BYTES];
    while let Some(entry) = archive.next_entry()? {
        // Many entries fit into one read, and each may take a while.
        if caller.is_gone() {
            return Err(ArchiveError::Read(caller::gone()).into());
        }
        let rule = |rule| UnpackError::Path {
            path: shown(&entry.path),
            rule,
        };
        let path = EntryPath::parse(&entry.path).map_err(rule)?;
        unpacker.unpack(&entry, &path, &mut archive, &mut buffer)?;
    }
    Ok(Contents {
        entries: archive.entries(),
        implied: unpacker.finish()?,
    })
}

struct Unpacker {
    tree: Tree,
    /// When each directory was last modified, which its own children change.
    directories: BTreeMap<Vec<u8>, Time>,
    directory_bytes: usize,
    skipped_xattrs: u64,
}

impl Unpacker {
    fn unpack(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        content: &mut impl Read,
        buffer: &mut [u8],
    ) -> Result<(), UnpackError> {
        if path.is_root() {
            if entry.kind != EntryKind::Directory {
                return Err(UnpackError::Entry {
                    path: shown(&entry.path),
                    rule: "takes the place of the root",
                });
            }
            let root = self.tree.open(b"").map_err(failed("open", entry))?;
            self.tree.make_explicit(b"");
            return self.finish_directory(&root, entry, path);
        }
        let directory = self
            .tree
            .directory(&path.parent)
            .map_err(failed("open the directory of", entry))?;
        if path.name.starts_with(WHITEOUT) {
            return self.whiteout(entry, path, &directory);
        }
        match &entry.kind {
            EntryKind::Directory => return self.directory(entry, path, &directory),
            EntryKind::HardLink(target) => return self.hard_link(entry, path, &directory, target),
            _ => self.make_room(entry, path, &directory)?,
        }
        match &entry.kind {
            EntryKind::File => self.file(entry, path, &directory, content, buffer)?,
            EntryKind::Symlink(target) => {
                symlinkat(&target[..], &directory, &path.name[..])
                    .map_err(failed("create", entry))?;
            }
            EntryKind::CharacterDevice(major, minor) => {
                self.node(
                    entry,
                    path,
                    &directory,
                    FileType::CharacterDevice,
                    (*major, *minor),
                )?;
            }
            EntryKind::BlockDevice(major, minor) => {
                self.node(
                    entry,
                    path,
                    &directory,
                    FileType::BlockDevice,
                    (*major, *minor),
                )?;
            }
            EntryKind::Fifo => self.node(entry, path, &directory, FileType::Fifo, (0, 0))?,
            EntryKind::Directory | EntryKind::HardLink(_) => {}
        }
        if entry.kind != EntryKind::File {
            self.finish_other(entry, path, &directory)?;
        }
        Ok(())
    }

    /// Of two entries with one name the later one holds.
    fn make_room(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        directory: &Directory,
    ) -> Result<(), UnpackError> {
        if kind_of(directory, &path.name)
            .map_err(failed("look for", entry))?
            .is_some()
        {
            self.tree
                .remove(directory, &path.name)
                .map_err(failed("replace", entry))?;
            self.forget_directories(&path.whole());
        }
        Ok(())
    }

    fn forget_directories(&mut self, path: &[u8]) {
        self.directories.remove(path);
        let below = [path, b"/"].concat();
        let after = self
            .directories
            .range(below.clone()..)
            .map(|(known, _)| known);
        let gone: Vec<_> = after
            .take_while(|known| known.starts_with(&below))
            .cloned()
            .collect();
        for path in gone {
            self.directories.remove(&path);
        }
    }

    fn file(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        directory: &Directory,
        content: &mut impl Read,
        buffer: &mut [u8],
    ) -> Result<(), UnpackError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, &path.name[..], flags, Mode::RUSR | Mode::WUSR)
            .map_err(failed("create", entry))?;
        let mut file = File::from(file);
        loop {
            let read = match content.read(buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ArchiveError::read(error).into()),
            };
            file.write_all(&buffer[..read])
                .map_err(|source| file_error("write", entry, source))?;
        }
        self.finish_open(&file, entry)
    }

    /// Owner first, for it clears set-uid and capabilities; then mode, attributes and, last, the time.
    fn finish_open(&mut self, file: &impl AsFd, entry: &Entry) -> Result<(), UnpackError> {
        let owner = (
            Some(Uid::from_raw(entry.uid)),
            Some(Gid::from_raw(entry.gid)),
        );
        fchown(file, owner.0, owner.1).map_err(failed("set the owner of", entry))?;
        fchmod(file, Mode::from_raw_mode(entry.mode)).map_err(failed("set the mode of", entry))?;
        for (name, value) in &entry.xattrs {
            self.set_xattr(file, entry, name, value)?;
        }
        futimens(file, &timestamps(entry.mtime)).map_err(failed("set the time of", entry))
    }

    /// Attributes of users and file capabilities come in; the rest is the guest's business: `trusted.overlay.*` would
    /// redirect lookups of the mount, and labels belong to the guest's own policy.
    fn set_xattr(
        &mut self,
        file: &impl AsFd,
        entry: &Entry,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), UnpackError> {
        if !name.starts_with(b"user.") && name != b"security.capability" {
            self.skipped_xattrs += 1;
            return Ok(());
        }
        match fsetxattr(file, name, value, XattrFlags::empty()) {
            Ok(()) => Ok(()),
            // A tmpfs before Linux 6.6 has no user attributes, and no program may rely on them there.
            Err(Errno::OPNOTSUPP) if name.starts_with(b"user.") => {
                self.skipped_xattrs += 1;
                Ok(())
            }
            Err(error) => Err(file_error(
                "set an extended attribute of",
                entry,
                error.into(),
            )),
        }
    }

    fn directory(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        directory: &Directory,
    ) -> Result<(), UnpackError> {
        let found = kind_of(directory, &path.name).map_err(failed("look for", entry))?;
        if found != Some(Found::Directory) {
            self.make_room(entry, path, directory)?;
            mkdirat(directory, &path.name[..], Mode::RWXU).map_err(failed("create", entry))?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(directory, &path.name[..], flags, Mode::empty())
            .map_err(failed("open", entry))?;
        if found == Some(Found::Whiteout) {
            // The layer removed what was there below and made a new directory.
            set_opaque(&made).map_err(failed("make opaque", entry))?;
        }
        self.tree.make_explicit(&directory.path_of(&path.name));
        self.finish_directory(&made, entry, path)
    }

    fn finish_directory(
        &mut self,
        made: &OwnedFd,
        entry: &Entry,
        path: &EntryPath,
    ) -> Result<(), UnpackError> {
        self.finish_open(made, entry)?;
        let path = path.whole();
        self.directory_bytes += path.len();
        if self.directory_bytes > MAX_DIRECTORY_BYTES {
            let what = "the length of all directories' paths";
            return Err(ArchiveError::Limit {
                what,
                limit: MAX_DIRECTORY_BYTES as u64,
            }
            .into());
        }
        self.directories.insert(path, entry.mtime);
        Ok(())
    }

    /// Gives a file a second name. Mode, owner and times belong to the file and were set with its first one.
    fn hard_link(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        directory: &Directory,
        target: &[u8],
    ) -> Result<(), UnpackError> {
        let broken = |rule| UnpackError::Entry {
            path: shown(&entry.path),
            rule,
        };
        let target = EntryPath::parse(target)
            .map_err(|_| broken("is a hard link that leads out of the layer"))?;
        if target.is_root() || target == *path {
            return Err(broken("is a hard link to itself or to the root"));
        }
        let missing = || broken("is a hard link to a file that this layer does not have");
        let parent = match self.tree.open(&target.parent) {
            Ok(parent) => parent,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
            Err(error) => return Err(file_error("find the target of", entry, error)),
        };
        match kind_of(&parent, &target.name).map_err(failed("find the target of", entry))? {
            None => return Err(missing()),
            Some(Found::Other) => {}
            Some(Found::Directory | Found::Whiteout) => {
                return Err(broken("is a hard link to what is no file"));
            }
        }
        self.make_room(entry, path, directory)?;
        linkat(
            &parent,
            &target.name[..],
            directory,
            &path.name[..],
            AtFlags::empty(),
        )
        .map_err(failed("link", entry))
    }

    fn node(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        directory: &Directory,
        kind: FileType,
        (major, minor): (u32, u32),
    ) -> Result<(), UnpackError> {
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(directory, &path.name[..], kind, mode, makedev(major, minor))
            .map_err(failed("create", entry))
    }

    /// Owner, mode and time of what is not opened. The name was made a moment ago in a directory that only we use.
    fn finish_other(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        directory: &Directory,
    ) -> Result<(), UnpackError> {
        let owner = (
            Some(Uid::from_raw(entry.uid)),
            Some(Gid::from_raw(entry.gid)),
        );
        let name = &path.name[..];
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        chownat(directory, name, owner.0, owner.1, nofollow)
            .map_err(failed("set the owner of", entry))?;
        if !matches!(entry.kind, EntryKind::Symlink(_)) {
            let mode = Mode::from_raw_mode(entry.mode);
            chmodat(directory, name, mode, AtFlags::empty())
                .map_err(failed("set the mode of", entry))?;
        }
        self.skipped_xattrs += entry.xattrs.len() as u64;
        utimensat(directory, name, &timestamps(entry.mtime), nofollow)
            .map_err(failed("set the time of", entry))
    }

    fn whiteout(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        directory: &Directory,
    ) -> Result<(), UnpackError> {
        if path.name == OPAQUE {
            return set_opaque(directory).map_err(failed("make opaque the directory of", entry));
        }
        if path.name.starts_with(AUFS) {
            return Ok(());
        }
        let hidden = &path.name[WHITEOUT.len()..];
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(UnpackError::Entry {
                path: shown(&entry.path),
                rule: "is a whiteout of nothing",
            });
        }
        match kind_of(directory, hidden).map_err(failed("look for what is hidden by", entry))? {
            None => {
                let kind = FileType::CharacterDevice;
                mknodat(directory, hidden, kind, Mode::empty(), makedev(0, 0))
                    .map_err(failed("create", entry))
            }
            // A whiteout concerns the layers below; what this layer has of that name stays, alone.
            Some(Found::Directory) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let made = openat(directory, hidden, flags, Mode::empty())
                    .map_err(failed("open", entry))?;
                // It takes over nothing from below, its owner and mode neither.
                self.tree.make_explicit(&directory.path_of(hidden));
                set_opaque(&made).map_err(failed("make opaque", entry))
            }
            Some(Found::Whiteout | Found::Other) => Ok(()),
        }
    }

    /// Sets the times of directories, which their children changed, deepest first; gives those without an entry.
    fn finish(self) -> Result<BTreeSet<Vec<u8>>, UnpackError> {
        if self.skipped_xattrs > 0 {
            tracing::debug!(
                count = self.skipped_xattrs,
                "extended attributes of the layer that are not taken over"
            );
        }
        for (path, mtime) in self.directories.iter().rev() {
            let failed = |source| UnpackError::File {
                action: "set the time of",
                path: shown(path),
                source,
            };
            let directory = match self.tree.open(path) {
                Ok(directory) => directory,
                // Reached through a symbolic link that a later entry replaced.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            futimens(&directory, &timestamps(*mtime)).map_err(|error| failed(error.into()))?;
        }
        Ok(self.tree.into_implied())
    }
}

fn timestamps(mtime: Time) -> Timestamps {
    let time = Timespec {
        tv_sec: mtime.seconds,
        tv_nsec: mtime.nanoseconds.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

fn failed<E: Into<io::Error>>(
    action: &'static str,
    entry: &Entry,
) -> impl FnOnce(E) -> UnpackError {
    move |error| file_error(action, entry, error.into())
}

fn file_error(action: &'static str, entry: &Entry, source: io::Error) -> UnpackError {
    UnpackError::File {
        action,
        path: shown(&entry.path),
        source,
    }
}

/// A path for a message: cut, because the archive chose it.
fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(&path[..path.len().min(256)]).into_owned()
}
