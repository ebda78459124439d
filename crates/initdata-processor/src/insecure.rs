//! `/run/insecure-cfg`: the files from unmeasured disks, or the reasons why there are none; and
//! `/run/initdata-processor`: which disk the boot found for each, so that no other one is read
//! again.
//!
//! Each file has three states: it is there; its error file is there; neither, which means "no
//! configuration". The image puller looks for the error file first, so each change below passes
//! through a state that refuses rather than one that forgets.
//!
//! The disks that the boot reads were written by the host alone. Later a container may write to a
//! volume, magic and all, and so may whoever had that volume before.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config_image::MAX_DOCUMENT_BYTES;
use foreign_text::bounded::{ReadError, if_there, read_in};
use linux_sys::lock;
use linux_sys::replace::{discard, replace};
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid, fchown, flock, open, openat};
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::error::{Class, Error, refused, unwritten};
use crate::journal::{Journal, line};
use crate::settings::{Owner, Target};

/// The name below `/run` of the directory for the files.
pub const DIRECTORY: &str = "insecure-cfg";

/// The name below `/run` of the directory for the notes: root's, also where the files are another
/// user's.
pub const NOTES: &str = "initdata-processor";

/// Stands beside the files from the start of a run until initdata is accepted: then nothing may be
/// put here later either.
const REFUSED: &str = "initdata.refused";

/// The longest line in an error file; a reason is a sentence. Longer ones are cut.
pub const MAX_ERROR_BYTES: usize = 1024;

/// The longest note: a device's name and three numbers.
const MAX_NOTE_BYTES: usize = 256;

/// Both directories, held open: the files' 0700 with each file 0600, the notes' 0755.
#[derive(Debug)]
pub struct Insecure {
    path: PathBuf,
    directory: File,
    owner: Option<Owner>,
    notes_path: PathBuf,
    notes: File,
}

impl Drop for Insecure {
    /// Gives the lock back, also where a process that was left behind has the directory open.
    fn drop(&mut self) {
        self.unlock();
    }
}

impl Insecure {
    /// Makes the directories, and sets modes and owner of those that are there.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn make(run: &Path, owner: Option<Owner>) -> Result<Self, Error> {
        let (path, notes_path) = (run.join(DIRECTORY), run.join(NOTES));
        let directory = made(&path, 0o700, owner).map_err(|error| unwritten(&path, error))?;
        let notes = made(&notes_path, 0o755, None).map_err(|e| unwritten(&notes_path, e))?;
        Ok(Self { path, directory, owner, notes_path, notes })
    }

    /// Whether a run has made the directory.
    #[must_use]
    pub fn is_there(run: &Path) -> bool {
        run.join(DIRECTORY).is_dir()
    }

    /// The files' directory, for the sandbox.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The notes' directory, for the sandbox.
    pub fn notes(&self) -> BorrowedFd<'_> {
        self.notes.as_fd()
    }

    /// Waits until no other run or refresh is at work here, but not longer than `limit`, and keeps
    /// them out until [`Insecure::unlock`] or until this is dropped.
    ///
    /// # Errors
    ///
    /// The lock does not become free, or is none.
    pub fn lock(&self, limit: Duration, journal: &mut Journal<'_>) -> Result<(), Error> {
        let lock = |within| {
            let locked = lock::exclusive(&self.directory, within);
            locked.map_err(|error| unwritten(&self.path, error))
        };
        if lock(Duration::ZERO)? {
            return Ok(());
        }
        journal.info("waiting for another run or refresh to end");
        if lock(limit)? {
            return Ok(());
        }
        let text = format!(
            "wait for another run or refresh of initdata-processor: it has not ended after {} s",
            limit.as_secs()
        );
        Err(Error::new(Class::Failed, text))
    }

    /// Lets others in again.
    pub fn unlock(&self) {
        // Nothing but a descriptor that is none can make this fail.
        let _ = flock(&self.directory, FlockOperation::Unlock);
    }

    /// Notes that initdata is refused, or not yet accepted.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn mark_refused(&self) -> Result<(), Error> {
        self.write(REFUSED, b"")
    }

    /// Takes the note away: files may be placed here.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn mark_accepted(&self) -> Result<(), Error> {
        self.remove(REFUSED)
    }

    /// Whether the note is there. An error counts as yes.
    pub fn is_refused(&self) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        !matches!(openat(&self.directory, REFUSED, flags, Mode::empty()), Err(Errno::NOENT))
    }

    /// Puts `document` in place.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn store(&self, target: &Target, document: &[u8]) -> Result<(), Error> {
        self.write(target.file, document)?;
        self.remove(target.error_file)
    }

    /// Puts `reason` in place of the file.
    ///
    /// # Errors
    ///
    /// The system's. The caller must not report success then: without the reason the puller would
    /// go on unconfigured.
    pub fn refuse(&self, target: &Target, reason: &str) -> Result<(), Error> {
        let line = line(reason, MAX_ERROR_BYTES) + "\n";
        self.write(target.error_file, line.as_bytes())?;
        self.remove(target.file)
    }

    /// Leaves neither file: there is no configuration.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn clear(&self, target: &Target) -> Result<(), Error> {
        self.remove(target.file)?;
        self.remove(target.error_file)
    }

    /// Whether the state is already the one that [`Insecure::store`] would make, or
    /// [`Insecure::clear`] for an empty document.
    pub fn holds(&self, target: &Target, document: &[u8]) -> bool {
        let absent = |name: &str| matches!(self.read(name), Ok(None));
        let same = match self.read(target.file) {
            Ok(Some(content)) => !document.is_empty() && content.as_slice() == document,
            Ok(None) => document.is_empty(),
            Err(_) => false,
        };
        same && absent(target.error_file)
    }

    /// Notes that `target` comes from the disk that [`crate::disks::Disk::identity`] calls
    /// `identity`.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn note(&self, target: &Target, identity: &str) -> Result<(), Error> {
        let name = note(target);
        replace(&self.notes, &name, identity.as_bytes(), 0o600, None)
            .map_err(|source| unwritten(&self.notes_path.join(name), source))
    }

    /// Takes the note away that an earlier run left, if there was one.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn forget(&self, target: &Target) -> Result<(), Error> {
        let name = note(target);
        discard(&self.notes, &name).map_err(|e| unwritten(&self.notes_path.join(name), e))
    }

    /// The note; `None` where there is none.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn noted(&self, target: &Target) -> Result<Option<String>, Error> {
        let name = note(target);
        let note = if_there(read_in(&self.notes, &name, MAX_NOTE_BYTES)).map_err(|error| {
            let path = self.notes_path.join(name);
            refused(format!("refresh: read {}", path.display())).because(io::Error::from(error))
        })?;
        Ok(note.map(|note| String::from_utf8_lossy(&note).into_owned()))
    }

    /// A file's content, at most what a document may have; `None` where there is no file.
    fn read(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, ReadError> {
        if_there(read_in(&self.directory, name, MAX_DOCUMENT_BYTES))
    }

    /// Two writers keep each other out by the lock.
    fn write(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let owner = self.owner.map(|owner| (owner.user, owner.group));
        replace(&self.directory, name, content, 0o600, owner)
            .map_err(|source| unwritten(&self.path.join(name), source))
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        discard(&self.directory, name).map_err(|source| unwritten(&self.path.join(name), source))
    }
}

fn note(target: &Target) -> String {
    format!("{}.disk", target.name)
}

/// A directory that is no link, with this mode and owner.
fn made(path: &Path, mode: u32, owner: Option<Owner>) -> io::Result<File> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = File::from(open(path, flags, Mode::empty())?);
    // Only what is not so already: the mode of another's directory takes a right that the units do
    // not leave.
    let found = directory.metadata()?;
    if found.mode() & 0o7777 != mode {
        directory.set_permissions(Permissions::from_mode(mode))?;
    }
    if let Some(Owner { user, group }) = owner
        && (found.uid(), found.gid()) != (user, group)
    {
        fchown(&directory, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
    }
    Ok(directory)
}

#[cfg(test)]
#[path = "insecure/tests.rs"]
mod tests;
