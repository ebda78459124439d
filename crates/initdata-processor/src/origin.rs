//! `/run/initdata-processor`: which disk the boot found for each file, so that no other one is read
//! again.
//!
//! The disks that the boot reads were written by the host alone. Later a container may write to a
//! volume, magic and all, and so may whoever had that volume before.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use foreign_text::bounded::{if_there, read_in};
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use crate::Error;
use crate::insecure::open_directory;
use crate::settings::Target;

/// The directory's name below `/run`: root's, also where the configurations are another user's.
pub const DIRECTORY: &str = "initdata-processor";

/// The longest note: a device's name and three numbers.
const MAX_NOTE_BYTES: usize = 256;

/// The directory, held open.
#[derive(Debug)]
pub struct Origins {
    path: PathBuf,
    directory: File,
    /// Whether this run made it.
    is_new: bool,
}

impl Origins {
    /// Makes the directory, and sets the mode of one that is there.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn make(run: &Path) -> Result<Self, Error> {
        let path = run.join(DIRECTORY);
        let made = match DirBuilder::new().mode(0o755).create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            made => made.map(|()| true),
        };
        let made = made.and_then(|is_new| {
            let directory = File::from(open_directory(&path)?);
            directory.set_permissions(Permissions::from_mode(0o755))?;
            Ok((directory, is_new))
        });
        match made {
            Ok((directory, is_new)) => Ok(Self { path, directory, is_new }),
            Err(source) => Err(Error::Write(path, source)),
        }
    }

    /// The directory, for the sandbox.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Notes that `target` comes from the disk that [`crate::disk::Disk::identity`] calls
    /// `identity`.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn note(&self, target: &Target, identity: &str) -> Result<(), Error> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = name(target);
        openat(&self.directory, &name, flags | OFlags::TRUNC, Mode::RUSR | Mode::WUSR)
            .map_err(io::Error::from)
            .and_then(|fd| File::from(fd).write_all(identity.as_bytes()))
            .map_err(|source| Error::Write(self.path.join(name), source))
    }

    /// Takes the note away that an earlier run left, if there was one.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn forget_earlier(&self, target: &Target) -> Result<(), Error> {
        if self.is_new {
            return Ok(());
        }
        let name = name(target);
        match unlinkat(&self.directory, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::Write(self.path.join(name), errno.into())),
        }
    }

    /// The note; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Origin`].
    pub fn read(&self, target: &Target) -> Result<Option<String>, Error> {
        let name = name(target);
        let note = if_there(read_in(&self.directory, &name, MAX_NOTE_BYTES))
            .map_err(|error| Error::Origin(self.path.join(name), error.into()))?;
        Ok(note.map(|note| String::from_utf8_lossy(&note).into_owned()))
    }
}

fn name(target: &Target) -> String {
    format!("{}.disk", target.name)
}
