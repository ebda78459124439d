//! What directories get when nothing more is made in them: default ACLs and times.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, utimensat};

use super::archive::{Entry, MAX_PATH_BYTES};
use super::archive_error::ArchiveError;
use super::attributes;
use super::caller::CallerWatch;
use super::directory;
use super::pax::Time;
use super::tree::{ENTRY_BYTES, Tree, below};
use super::unpack_error::{SET_ENDING, UnpackError, failed_at};

/// The most bytes of directories' paths and default ACLs kept until the end, with [`ENTRY_BYTES`]
/// for each.
const MAX_BYTES: usize = 64 << 20;

/// How many directories are kept open on the way down to the next one.
const MAX_OPEN: usize = 16;

/// What the directories of a layer get at the end, by their paths without symbolic links: an
/// archive may call one directory by several names, and its last entry counts.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    directories: BTreeMap<Vec<u8>, Ending>,
    /// Of everything that was noted, also if it was forgotten.
    bytes: usize,
}

#[derive(Debug)]
struct Ending {
    mtime: Time,
    default_acl: Option<Vec<u8>>,
}

impl Endings {
    /// Notes what the directory at `path` gets by its entry.
    ///
    /// # Errors
    ///
    /// [`ArchiveError`] if there are too many.
    pub(crate) fn note(&mut self, path: Vec<u8>, entry: &Entry) -> Result<(), ArchiveError> {
        let default_acl = attributes::default_acl(entry).map(<[u8]>::to_vec);
        let of_entry = |error: ArchiveError| error.of(entry.number, &entry.path);
        // Links may lead to where no path of an archive does.
        let what = "the path of a directory without symbolic links";
        let (found, limit) = (path.len() as u64, MAX_PATH_BYTES as u64);
        ArchiveError::check(what, found, limit).map_err(of_entry)?;
        self.bytes += ENTRY_BYTES + path.len() + default_acl.as_ref().map_or(0, Vec::len);
        let what = "the size of all directories' paths and ACLs";
        let (found, limit) = (self.bytes as u64, MAX_BYTES as u64);
        ArchiveError::check(what, found, limit).map_err(of_entry)?;
        let mtime = entry.mtime;
        self.directories.insert(path, Ending { mtime, default_acl });
        Ok(())
    }

    /// Forgets what was removed, with everything below it.
    pub(crate) fn forget(&mut self, path: &[u8]) {
        self.directories.remove(path);
        let below = self.directories.extract_if(below(path), |_, _| true);
        below.for_each(drop);
    }

    /// Sets everything, deepest first.
    ///
    /// # Errors
    ///
    /// What the kernel says, or that the caller is gone.
    pub(crate) fn set(&self, tree: &Tree, caller: &CallerWatch) -> Result<(), UnpackError> {
        let mut parents = Parents(Vec::new());
        for (path, ending) in self.directories.iter().rev() {
            caller.look().map_err(ArchiveError::Read)?;
            let failed = failed_at(SET_ENDING, path);
            let end = path.iter().rposition(|&byte| byte == b'/');
            let (parent, name) = match end {
                Some(end) => (&path[..end], &path[end + 1..]),
                None if path.is_empty() => (&b""[..], &b"."[..]),
                None => (&b""[..], &path[..]),
            };
            let parent = parents.open(tree, parent).map_err(&failed)?;
            if let Some(acl) = &ending.default_acl {
                let set = directory::open(parent, name)
                    .and_then(|directory| attributes::set_default_acl(directory, acl));
                set.map_err(|error| failed(error.into()))?;
            }
            // By its name, because opening each directory costs more than its time.
            let times = ending.mtime.timestamps();
            let set = utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW);
            set.map_err(|error| failed(error.into()))?;
        }
        Ok(())
    }
}

/// The directories from the root down to the last parent, as far as they are open.
struct Parents<'a>(Vec<(&'a [u8], OwnedFd)>);

impl<'a> Parents<'a> {
    fn open(&mut self, tree: &Tree, path: &'a [u8]) -> io::Result<&OwnedFd> {
        let is_above = |above: &[u8]| {
            let rest = path.strip_prefix(above);
            rest.is_some_and(|rest| above.is_empty() || matches!(rest, [] | [b'/', ..]))
        };
        while self.0.pop_if(|(above, _)| !is_above(above)).is_some() {}
        if self.0.last().is_none_or(|(last, _)| *last != path) {
            if self.0.len() == MAX_OPEN {
                self.0.remove(0);
            }
            self.0.push((path, tree.open(path)?));
        }
        Ok(&self.0[self.0.len() - 1].1)
    }
}

#[cfg(test)]
impl Endings {
    /// Takes so many more bytes.
    pub(crate) fn with_room(left: usize) -> Self {
        Self { directories: BTreeMap::new(), bytes: MAX_BYTES - left }
    }
}
