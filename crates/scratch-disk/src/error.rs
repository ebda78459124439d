//! Why there is no scratch disk.

use std::io;
use std::path::PathBuf;

/// Why there is no scratch disk, as a sentence without its end. Repeats nothing that stands on the
/// disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused something.
    #[error("cannot {action} {path}: {source}", path = .path.display())]
    File {
        /// A verb, such as `read`.
        action: &'static str,
        /// The file, directory or device.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// More than one disk is meant; none is taken.
    #[error("several disks have the magic of a scratch disk: {0}")]
    Several(String),
    /// The disk holds more than its magic, so it may be somebody's.
    #[error("the disk {0} has the magic of a scratch disk and is not empty")]
    NotEmpty(String),
    /// The disk cannot be written.
    #[error("the scratch disk {0} is read-only")]
    ReadOnly(String),
    /// Keys could get on a disk.
    #[error(
        "the guest has swap space, which may be the host's; a scratch disk's key must not \
        get there"
    )]
    Swap,
    /// No memory for the key.
    #[error("no locked memory for the key of the scratch disk: {0}")]
    Key(io::Error),
    /// A program that is needed is not in the image.
    #[error("cannot run {program}, which a scratch disk needs: {source}")]
    Missing {
        /// Its name.
        program: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A program failed.
    #[error("{program} {action}: {says}")]
    Program {
        /// Its name.
        program: &'static str,
        /// What it was to do.
        action: &'static str,
        /// Its last words, or how it ended.
        says: String,
    },
    /// What was opened is not what was asked for.
    #[error("the kernel's table of the scratch disk, {0:?} and on, is not what was asked for")]
    Table(String),
    /// An earlier service of this boot could not make it.
    #[error("in this boot it failed already: {0}")]
    Earlier(String),
    /// It was mounted in this boot, and is not any more.
    #[error("the scratch disk of this boot is not mounted any more; start the guest anew")]
    Gone,
}

impl Error {
    /// Makes an [`Error::File`] out of what the kernel said.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }
}
