//! A failure, from where it arises to the policy's text, the log and the exit code.

use std::io;
use std::path::Path;

use crate::journal::line;

/// Why initdata or a configuration was refused, or a result not written.
///
/// Its text may quote a disk: it reaches people by [`sentence`].
pub type Error = problem::Error<Class>;

/// What the program does about a failure: its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Initdata or a configuration is refused.
    Refused = 65,
    /// There is no disk that may be read again, or it does not answer.
    NoDisk = 69,
    /// A result cannot be written, or this program has a bug.
    Failed = 70,
}

impl Class {
    /// The exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// The error, all its causes and the remedy as one line that is safe to show.
#[must_use]
pub fn sentence(error: &Error) -> String {
    line(&format!("failed to {}", error.chain()), usize::MAX)
}

pub(crate) fn refused(text: impl Into<String>) -> Error {
    Error::new(Class::Refused, text)
}

/// `path` cannot be written.
pub(crate) fn unwritten(path: &Path, source: impl Into<io::Error>) -> Error {
    Error::new(Class::Failed, format!("write {}", path.display())).because(source.into())
}
