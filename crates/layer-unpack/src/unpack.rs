//! Makes files of entries, with owners, modes, times and attributes. Whiteouts get the form that
//! overlayfs expects.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, FileType, Mode, chmodat, chownat, fchmod, fchown, linkat, makedev, mkdirat, mknodat,
    symlinkat, utimensat,
};
use rustix::io::Errno;

use super::archive::{Archive, Entry, EntryKind};
use super::archive_error::ArchiveError;
use super::attributes;
use super::caller::CallerWatch;
use super::chunks::Share;
use super::creation;
use super::directory;
use super::endings::Endings;
use super::filling::Files;
use super::tree::{Directory, EntryPath, Occupant, Tree, kind_of, set_opaque};
use super::unpack_error::{
    MAKE_OPAQUE, MAKE_OPAQUE_AROUND, SET_ATTRIBUTE, UnpackError, broken, failed,
};

/// The prefix of names that hide something of the layers below (OCI image specification, layer,
/// "Whiteouts").
pub(crate) const WHITEOUT: &[u8] = b".wh.";

/// The name that hides everything of a directory below.
pub(crate) const OPAQUE: &[u8] = b".wh..wh..opq";

/// Names of aufs's own bookkeeping.
pub(crate) const AUFS: &[u8] = b".wh..wh.";

/// What came out of an archive.
#[derive(Debug)]
pub struct Contents {
    /// The number of entries.
    pub entries: u64,
    /// Whether whiteouts or opaque directories hide something of the layers below.
    pub hides: bool,
    /// Directories that are there only because something lies in them; the empty path is the root.
    pub implied: BTreeSet<Vec<u8>>,
}

/// Unpacks an archive below a directory that nothing else uses. `files` may be at work when this
/// returns.
///
/// # Errors
///
/// [`UnpackError`]; the directory then holds the entries before the bad one. An error of `files`
/// concerns an earlier entry, or the same.
pub(crate) fn unpack(
    source: &mut (impl Read + Share),
    root: OwnedFd,
    max_entries: u64,
    files: Files,
    caller: &CallerWatch,
) -> Result<Contents, UnpackError> {
    let mut archive = Archive::new(source, max_entries);
    let mut unpacker = Unpacker {
        tree: Tree::new(root).map_err(|source| UnpackError::File {
            action: "find",
            path: "/".to_owned(),
            source,
        })?,
        files,
        endings: Endings::default(),
        skipped_xattrs: 0,
        hides: false,
        caller,
    };
    while let Some(entry) = archive.next_entry()? {
        // Many entries fit into one read, and each may take a while.
        unpacker.look_at_caller()?;
        let path = EntryPath::parse(&entry.path).map_err(|rule| broken(&entry, rule))?;
        unpacker.unpack(entry, &path, &mut archive)?;
    }
    Ok(Contents { entries: archive.entries(), hides: unpacker.hides, implied: unpacker.finish()? })
}

struct Unpacker<'a> {
    tree: Tree,
    files: Files,
    endings: Endings,
    skipped_xattrs: u64,
    hides: bool,
    caller: &'a CallerWatch,
}

impl Unpacker<'_> {
    fn look_at_caller(&self) -> Result<(), UnpackError> {
        Ok(self.caller.look().map_err(ArchiveError::Read)?)
    }

    fn unpack(
        &mut self,
        entry: Entry,
        path: &EntryPath,
        content: &mut impl Share,
    ) -> Result<(), UnpackError> {
        if path.is_root() {
            return self.root(&entry);
        }
        let directory =
            self.tree.directory(&path.parent).map_err(failed("open the directory of", &entry))?;
        if path.name.starts_with(WHITEOUT) {
            return self.whiteout(&entry, path, &directory);
        }
        match &entry.kind {
            EntryKind::Directory => self.directory(&entry, path, &directory),
            EntryKind::HardLink(target) => self.hard_link(&entry, path, &directory, target),
            EntryKind::File => self.file(entry, path, &directory, content),
            _ => {
                // Overlayfs takes every such device for a whiteout.
                self.hides |= entry.kind == EntryKind::CharacterDevice(0, 0);
                let node = || node(&entry, path, &directory);
                self.make(&entry, path, &directory, node)?;
                self.finish_other(&entry, path, &directory)
            }
        }
    }

    fn root(&mut self, entry: &Entry) -> Result<(), UnpackError> {
        if entry.kind != EntryKind::Directory {
            return Err(broken(entry, "takes the place of the root"));
        }
        let root = self.tree.open(b"").map_err(failed("open", entry))?;
        self.tree.make_explicit(b"");
        attributes::clear(&root).map_err(failed("clear the attributes of", entry))?;
        self.tree.forget(b"");
        self.finish_directory(&root, entry, Vec::new())
    }

    /// Makes something; of two entries with one name the later one holds.
    fn make<T>(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        directory: &Directory,
        make: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, UnpackError> {
        match make() {
            Err(Errno::EXIST) => {}
            made => return made.map_err(failed("create", entry)),
        }
        self.tree.remove(directory, &path.name, self.caller).map_err(failed("replace", entry))?;
        self.endings.forget(&directory.path_of(&path.name));
        make().map_err(failed("create", entry))
    }

    /// Makes a file. What else is to be done to it may be done later, for it is open.
    fn file(
        &mut self,
        entry: Entry,
        path: &EntryPath,
        directory: &Directory,
        content: &mut impl Share,
    ) -> Result<(), UnpackError> {
        let create = || creation::create(directory, &path.name, &entry);
        let created = self.make(&entry, path, directory, create)?;
        self.files.fill(created, entry, content)
    }

    fn directory(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        directory: &Directory,
    ) -> Result<(), UnpackError> {
        let make = || mkdirat(directory, &path.name[..], Mode::RWXU);
        let found = match make() {
            Ok(()) => None,
            Err(Errno::EXIST) => {
                let found = kind_of(directory, &path.name).map_err(failed("look for", entry))?;
                if found != Some(Occupant::Directory) {
                    self.make(entry, path, directory, make)?;
                }
                found
            }
            Err(error) => return Err(failed("create", entry)(error)),
        };
        let made = directory::open(directory, &path.name).map_err(failed("open", entry))?;
        if found == Some(Occupant::Directory) {
            attributes::clear(&made).map_err(failed("clear the attributes of", entry))?;
        }
        if found == Some(Occupant::Whiteout) {
            // The layer removed what was there below and made a new directory.
            set_opaque(&made).map_err(failed(MAKE_OPAQUE, entry))?;
        }
        let place = directory.path_of(&path.name);
        self.tree.make_explicit(&place);
        self.finish_directory(&made, entry, place)?;
        self.tree.keep(path.whole(), made, directory, &path.name);
        Ok(())
    }

    /// Owner, mode and attributes of a directory. `place` is its path without symbolic links.
    fn finish_directory(
        &mut self,
        made: &OwnedFd,
        entry: &Entry,
        place: Vec<u8>,
    ) -> Result<(), UnpackError> {
        let (uid, gid) = creation::owner_of(entry);
        fchown(made, uid, gid).map_err(failed("set the owner of", entry))?;
        fchmod(made, Mode::from_raw_mode(entry.mode)).map_err(failed("set the mode of", entry))?;
        let skipped = attributes::set(made, attributes::of_directory(entry));
        self.skipped_xattrs += skipped.map_err(failed(SET_ATTRIBUTE, entry))?;
        Ok(self.endings.note(place, entry)?)
    }

    /// Gives a file a second name. Mode, owner and times belong to the file and were set with its
    /// first one.
    fn hard_link(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        directory: &Directory,
        target: &[u8],
    ) -> Result<(), UnpackError> {
        let broken = |rule| broken(entry, rule);
        let target = EntryPath::parse(target)
            .map_err(|_| broken("is a hard link that leads out of the layer"))?;
        if target.is_root() || target == *path {
            return Err(broken("is a hard link to itself or to the root"));
        }
        let missing = || broken("is a hard link to a file that this layer does not have");
        let parent = match self.tree.open(&target.parent) {
            Ok(parent) => parent,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
            Err(error) => return Err(failed("find the target of", entry)(error)),
        };
        match kind_of(&parent, &target.name).map_err(failed("find the target of", entry))? {
            None => return Err(missing()),
            Some(Occupant::Symlink | Occupant::Other) => {}
            Some(Occupant::Directory | Occupant::Whiteout) => {
                return Err(broken("is a hard link to what is no file"));
            }
        }
        let (old, new) = (&target.name[..], &path.name[..]);
        self.make(entry, path, directory, || linkat(&parent, old, directory, new, AtFlags::empty()))
    }

    /// Owner, mode and time of what is not opened. The name was made a moment ago in a directory
    /// that only we use.
    fn finish_other(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        directory: &Directory,
    ) -> Result<(), UnpackError> {
        let name = &path.name[..];
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        if !directory.new_file().is_some_and(|new| new.is_owner(entry)) {
            let (uid, gid) = creation::owner_of(entry);
            chownat(directory, name, uid, gid, nofollow)
                .map_err(failed("set the owner of", entry))?;
        }
        if !matches!(entry.kind, EntryKind::Symlink(_)) {
            let mode = Mode::from_raw_mode(entry.mode);
            chmodat(directory, name, mode, AtFlags::empty())
                .map_err(failed("set the mode of", entry))?;
        }
        if !entry.xattrs.is_empty() {
            self.skipped_xattrs += attributes::set_node(directory, name, entry)
                .map_err(failed(SET_ATTRIBUTE, entry))?;
        }
        utimensat(directory, name, &entry.mtime.timestamps(), nofollow)
            .map_err(failed("set the time of", entry))
    }

    fn whiteout(
        &mut self,
        entry: &Entry,
        path: &EntryPath,
        directory: &Directory,
    ) -> Result<(), UnpackError> {
        self.hides = true;
        if path.name == OPAQUE {
            return set_opaque(directory).map_err(failed(MAKE_OPAQUE_AROUND, entry));
        }
        if path.name.starts_with(AUFS) {
            return Ok(());
        }
        let hidden = &path.name[WHITEOUT.len()..];
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(broken(entry, "is a whiteout of nothing"));
        }
        match kind_of(directory, hidden).map_err(failed("look for what is hidden by", entry))? {
            None => {
                let kind = FileType::CharacterDevice;
                mknodat(directory, hidden, kind, Mode::empty(), makedev(0, 0))
                    .map_err(failed("create", entry))
            }
            // A whiteout concerns the layers below; what this layer has of that name stays, alone.
            Some(Occupant::Directory) => {
                let made = directory::open(directory, hidden).map_err(failed("open", entry))?;
                // It takes over nothing from below, its owner and mode neither.
                self.tree.make_explicit(&directory.path_of(hidden));
                set_opaque(&made).map_err(failed(MAKE_OPAQUE, entry))
            }
            Some(Occupant::Whiteout | Occupant::Symlink | Occupant::Other) => Ok(()),
        }
    }

    /// Does what is left for the end; gives the directories without an entry.
    fn finish(mut self) -> Result<BTreeSet<Vec<u8>>, UnpackError> {
        self.files.finish()?;
        attributes::tell_skipped(self.skipped_xattrs);
        self.endings.set(&self.tree, self.caller)?;
        Ok(self.tree.into_implied())
    }
}

/// Makes what is neither file nor directory.
fn node(entry: &Entry, path: &EntryPath, directory: &Directory) -> Result<(), Errno> {
    let name = &path.name[..];
    let (kind, device) = match &entry.kind {
        EntryKind::Symlink(target) => return symlinkat(&target[..], directory, name),
        EntryKind::CharacterDevice(major, minor) => {
            (FileType::CharacterDevice, makedev(*major, *minor))
        }
        EntryKind::BlockDevice(major, minor) => (FileType::BlockDevice, makedev(*major, *minor)),
        EntryKind::Fifo => (FileType::Fifo, 0),
        EntryKind::File | EntryKind::Directory | EntryKind::HardLink(_) => return Ok(()),
    };
    mknodat(directory, name, kind, Mode::RUSR | Mode::WUSR, device)
}

#[cfg(test)]
mod tests;
