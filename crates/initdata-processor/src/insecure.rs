//! `/run/insecure-cfg`: the files from unmeasured disks, or the reasons why there are none.
//!
//! Each file has three states: it is there; its error file is there; neither, which means "no
//! configuration". The image puller looks for the error file first, so each change below passes
//! through a state that refuses rather than one that forgets.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use config_image::MAX_DOCUMENT_BYTES;
use foreign_text::bounded::{ReadError, if_there, read_in};
use rustix::fs::{
    AtFlags, FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid, fchown, flock, open, openat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::Error;
use crate::journal::Journal;
use crate::line::line;
use crate::settings::{Owner, Target};

/// The directory's name below `/run`.
pub const DIRECTORY: &str = "insecure-cfg";

/// Stands here from the start of a run until initdata is accepted: then nothing may be put here
/// later either.
const REFUSED: &str = "initdata.refused";

/// The longest line in an error file; a reason is a sentence. Longer ones are cut.
pub const MAX_ERROR_BYTES: usize = 1024;

/// How long after one attempt to get the lock the next one comes.
const PAUSE: Duration = Duration::from_millis(20);

/// The directory, held open: 0700, and each file 0600.
#[derive(Debug)]
pub struct Insecure {
    path: PathBuf,
    fd: OwnedFd,
    owner: Option<Owner>,
    /// Whether this run made it, so that nothing can be in it but what this run puts there.
    is_new: bool,
}

impl Drop for Insecure {
    /// Gives the lock back, also where a process that was left behind has the directory open.
    fn drop(&mut self) {
        let _ = flock(&self.fd, FlockOperation::Unlock);
    }
}

impl Insecure {
    /// Makes the directory, and sets mode and owner of one that is there.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn make(run: &Path, owner: Option<Owner>) -> Result<Self, Error> {
        let path = run.join(DIRECTORY);
        let is_new = match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(source) => return Err(Error::Write(path, source)),
            Ok(()) => true,
        };
        let opened = open_directory(&path).and_then(|fd| {
            let file = File::from(fd);
            file.set_permissions(Permissions::from_mode(0o700))?;
            give(&file, owner)?;
            Ok(OwnedFd::from(file))
        });
        match opened {
            Ok(fd) => Ok(Self { path, fd, owner, is_new }),
            Err(source) => Err(Error::Write(path, source)),
        }
    }

    /// Opens the directory that an earlier run made.
    ///
    /// # Errors
    ///
    /// [`Error::NotRun`], [`Error::Write`].
    pub fn open(run: &Path, owner: Option<Owner>) -> Result<Self, Error> {
        let path = run.join(DIRECTORY);
        match open_directory(&path) {
            Ok(fd) => Ok(Self { path, fd, owner, is_new: false }),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::NotRun(path)),
            Err(source) => Err(Error::Write(path, source)),
        }
    }

    /// The directory, for the sandbox.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Waits until no other run or refresh is at work here, but not longer than `limit`, and keeps
    /// them out until this is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`], [`Error::Write`].
    pub fn lock(&self, limit: Duration, journal: &mut Journal<'_>) -> Result<(), Error> {
        let end = Instant::now() + limit;
        let mut is_told = false;
        loop {
            match flock(&self.fd, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK) if Instant::now() >= end => return Err(Error::Busy(limit)),
                Err(Errno::WOULDBLOCK) => {}
                Err(errno) => return Err(self.failed("", errno.into())),
            }
            if !is_told {
                journal.info("waiting for another run or refresh to end");
                is_told = true;
            }
            sleep(PAUSE);
        }
    }

    /// Lets others in again.
    pub fn unlock(&self) {
        // Nothing but a descriptor that is none can make this fail.
        let _ = flock(&self.fd, FlockOperation::Unlock);
    }

    /// Notes that initdata is refused, or not yet accepted.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn mark_refused(&self) -> Result<(), Error> {
        // An empty file is whole from the start, and whatever stands there already will do.
        let made = match self.create(REFUSED) {
            Ok(file) => give(&file, self.owner),
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        };
        made.map_err(|source| self.failed(REFUSED, source))
    }

    /// Takes the note away: files may be placed here.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn mark_accepted(&self) -> Result<(), Error> {
        self.unlink(REFUSED)
    }

    /// Whether the note is there. An error counts as yes.
    pub fn is_refused(&self) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        !matches!(openat(&self.fd, REFUSED, flags, Mode::empty()), Err(Errno::NOENT))
    }

    /// Puts `document` in place.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn store(&self, target: &Target, document: &[u8]) -> Result<(), Error> {
        self.write(target.file.as_str(), document)?;
        self.remove(target.error_file.as_str())
    }

    /// Puts `reason` in place of the file.
    ///
    /// # Errors
    ///
    /// [`Error::Write`]. The caller must not report success then: without the reason the puller
    /// would go on unconfigured.
    pub fn refuse(&self, target: &Target, reason: &str) -> Result<(), Error> {
        self.put_reason(target, reason)?;
        self.remove(target.file.as_str())
    }

    /// The first thing that a run puts here: as [`Insecure::refuse`], without looking for an
    /// earlier run's files where there was none.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn refuse_first(&self, target: &Target, reason: &str) -> Result<(), Error> {
        self.put_reason(target, reason)?;
        match self.is_new {
            true => Ok(()),
            false => self.remove(target.file.as_str()),
        }
    }

    fn put_reason(&self, target: &Target, reason: &str) -> Result<(), Error> {
        let line = line(reason, MAX_ERROR_BYTES) + "\n";
        self.write(target.error_file.as_str(), line.as_bytes())
    }

    /// Leaves neither file: there is no configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn clear(&self, target: &Target) -> Result<(), Error> {
        self.remove(target.file.as_str())?;
        self.remove(target.error_file.as_str())
    }

    /// Whether the state is already the one that [`Insecure::store`] would make, or
    /// [`Insecure::clear`] for an empty document.
    pub fn holds(&self, target: &Target, document: &[u8]) -> bool {
        let absent = |name: &str| matches!(self.read(name), Ok(None));
        let same = match self.read(target.file.as_str()) {
            Ok(Some(content)) => !document.is_empty() && content.as_slice() == document,
            Ok(None) => document.is_empty(),
            Err(_) => false,
        };
        same && absent(target.error_file.as_str())
    }

    /// A file's content, at most what a document may have; `None` where there is no file.
    fn read(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, ReadError> {
        if_there(read_in(&self.fd, name, MAX_DOCUMENT_BYTES))
    }

    /// Atomically, 0600 from its first byte on. Two writers keep each other out by the lock.
    fn write(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let staging = staging(name);
        let created = match self.create(&staging) {
            // Of a killed writer.
            Err(Errno::EXIST) => {
                self.unlink(&staging)?;
                self.create(&staging)
            }
            created => created,
        };
        let written = created
            .map_err(io::Error::from)
            .and_then(|mut file| {
                // Set explicitly, because the umask may be odd.
                file.set_permissions(Permissions::from_mode(0o600))?;
                give(&file, self.owner)?;
                file.write_all(content)
            })
            .and_then(|()| {
                Ok(renameat_with(&self.fd, &staging, &self.fd, name, RenameFlags::empty())?)
            });
        written.map_err(|source| {
            // Nothing half-written stays, least of all half a password.
            let _ = self.unlink(&staging);
            self.failed(name, source)
        })
    }

    fn create(&self, name: &str) -> Result<File, Errno> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
    }

    /// Leaves nothing of a file, nor what a killed writer of it left.
    fn remove(&self, name: &str) -> Result<(), Error> {
        self.unlink(&staging(name))?;
        self.unlink(name)
    }

    fn unlink(&self, name: &str) -> Result<(), Error> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failed(name, errno.into())),
        }
    }

    fn failed(&self, name: &str, source: io::Error) -> Error {
        Error::Write(self.path.join(name), source)
    }
}

/// Where a file is before it has its name; no file in the settings begins with a dot.
fn staging(name: &str) -> String {
    format!(".{name}")
}

/// Opens a directory that is no link.
pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}

fn give(file: &File, owner: Option<Owner>) -> io::Result<()> {
    if let Some(Owner { user, group }) = owner {
        fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "insecure/tests.rs"]
mod tests;
