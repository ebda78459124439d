//! What is wrong with a tar archive, its PAX records included.

use std::io;

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The stream under the archive failed.
    #[error("cannot read the archive")]
    Read(#[source] io::Error),
    /// The archive ends inside an entry.
    #[error("the archive ends in the middle of an entry")]
    Truncated,
    /// A header's own sum does not hold, or a number in it cannot be read.
    #[error("entry {0} has a broken header")]
    Header(u64),
    /// PAX records break their grammar.
    #[error("extended header: {0}")]
    Pax(&'static str),
    /// A limit is exceeded.
    #[error("{what} exceeds the limit of {limit}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A kind of entry that no image needs.
    #[error("entry {path:?} is of unknown type {kind:?}")]
    Kind {
        /// Its name.
        path: String,
        /// The type's letter.
        kind: char,
    },
    /// The map of a file with holes breaks its grammar or does not fit its content.
    #[error("the map of a sparse file {0}")]
    Sparse(&'static str),
}

impl ArchiveError {
    /// Refuses what is larger than a limit; `what` fits before "exceeds the limit".
    pub(crate) fn check(what: &'static str, found: u64, limit: u64) -> Result<(), Self> {
        if found > limit {
            return Err(Self::Limit { what, limit });
        }
        Ok(())
    }

    /// A failed read; an end in the middle of an entry has a name of its own.
    pub(crate) fn read(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Self::Truncated
        } else {
            Self::Read(error)
        }
    }
}
