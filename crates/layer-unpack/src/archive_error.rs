//! What is wrong with a tar archive, its PAX records included.

use std::io;

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The stream under the archive failed.
    #[error("cannot read the archive")]
    Read(#[source] io::Error),
    /// Something about one entry.
    #[error("entry {number} of the archive, {path:?}: {fault}")]
    Entry {
        /// Its place among the headers, from 1.
        number: u64,
        /// Its name, cut; of an extended header, that header's.
        path: String,
        /// What is wrong with it.
        fault: Box<ArchiveError>,
    },
    /// The archive ends inside an entry or a header.
    #[error("the archive ends in the middle of it")]
    Truncated,
    /// Something in the header.
    #[error("{0}")]
    Header(&'static str),
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
    #[error("it is of unknown type {0:?}")]
    Kind(char),
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

    /// Says of which entry this is, if nothing does so far; a stream that failed concerns none.
    pub(crate) fn of(self, number: u64, path: &[u8]) -> Self {
        match self {
            Self::Read(_) | Self::Entry { .. } => self,
            fault => Self::Entry { number, path: shown(path), fault: Box::new(fault) },
        }
    }

    /// What is wrong, without the entry's name.
    #[must_use]
    pub fn fault(&self) -> &Self {
        match self {
            Self::Entry { fault, .. } => fault,
            fault => fault,
        }
    }
}

/// A path for a message: cut, because the archive chose it.
pub(crate) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(shown_part(path)).into_owned()
}

/// As much of a path as messages show.
pub(crate) fn shown_part(path: &[u8]) -> &[u8] {
    &path[..path.len().min(256)]
}
