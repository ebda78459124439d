//! Why a file of the host is not used.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use foreign_text::bounded::ReadError;
use node_installer::administered::NotAdministered;
use rustix::io::Errno;

/// Why a file of the host is not used. Says nothing of its content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// A directory, FIFO, device or socket.
    #[error("it is not a regular file")]
    NotRegular,
    /// A directory, FIFO, character device or socket.
    #[error("it is neither a regular file nor a block device")]
    NotDisk,
    /// Somebody else than the administrator can have written it.
    #[error(transparent)]
    NotAdministered(#[from] NotAdministered),
    /// It is longer than this many bytes.
    #[error("it has more than {0} bytes")]
    TooLong(usize),
    /// A directory has more than this many entries.
    #[error("it has more than {0} entries")]
    TooManyEntries(usize),
    /// The file cannot be a configuration image.
    #[error("it is no configuration image")]
    NotImage,
    /// The name means another file now.
    #[error("it was replaced meanwhile")]
    Replaced,
    /// The kernel refused.
    #[error("{}", description(.0))]
    Io(io::Error),
}

impl From<io::Error> for FileFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<FileFault> for io::Error {
    fn from(fault: FileFault) -> Self {
        match fault {
            FileFault::Io(error) => error,
            other => Self::other(other),
        }
    }
}

impl From<ReadError> for FileFault {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotRegular => Self::NotRegular,
            ReadError::TooLong { limit } => Self::TooLong(limit),
            other => Self::Io(other.into()),
        }
    }
}

impl From<Errno> for FileFault {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

impl FileFault {
    /// The fault as one of the file or directory `path`.
    #[must_use]
    pub fn at(self, path: impl Into<PathBuf>) -> FileError {
        FileError { path: path.into(), fault: self }
    }

    /// Whether the file is simply not there.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == ErrorKind::NotFound)
    }

    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NotRegular => "put a regular file there, or name another path",
            Self::NotDisk => "name an image in a file or on a block device",
            Self::NotAdministered(why) => why.remedy(),
            Self::TooLong(_) => "shorten it, or name the file that was meant",
            Self::TooManyEntries(_) => "remove what does not belong into this directory",
            Self::NotImage => "remove it with kata-configdev detach",
            Self::Replaced => "try again",
            Self::Io(error) => match error.kind() {
                ErrorKind::NotFound => "create it, or correct the path",
                ErrorKind::PermissionDenied => "run this as a user that may use it, such as root",
                _ if is_link(error) => "use a path without symbolic links",
                _ if is_out_of_files(error) => MORE_FILES,
                ErrorKind::StorageFull => "free some of that file system, or name a path elsewhere",
                _ => "look at the file system and at the kernel's log",
            },
        }
    }
}

/// What to do about [`is_out_of_files`].
pub const MORE_FILES: &str = "raise the limit of open files (ulimit -n, LimitNOFILE of the service \
    that starts this)";

/// Whether the process or the system has as many files open as it may.
#[must_use]
pub fn is_out_of_files(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

fn is_link(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::LOOP | Errno::XDEV))
}

/// Says what the kernel means where its own words are those of another situation.
fn description(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::LOOP) => "a part of its path is a symbolic link".into(),
        Some(Errno::XDEV) => "its path leads out of the directory".into(),
        _ => error.to_string(),
    }
}

/// A [`FileFault`] with the path that it concerns.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct FileError {
    /// The file or directory.
    pub path: PathBuf,
    /// Why it is not used.
    pub fault: FileFault,
}

impl FileError {
    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        self.fault.remedy()
    }
}
