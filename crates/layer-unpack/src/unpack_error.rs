//! Why an archive was not unpacked.

use std::io;

use rustix::io::Errno;

use super::archive::Entry;
use super::archive_error::ArchiveError;
pub(crate) use super::archive_error::{shown, shown_part};

/// What is done about extended attributes, in the words of [`UnpackError::File`].
pub(crate) const SET_ATTRIBUTE: &str = "set an extended attribute of";
pub(crate) const SET_ENDING: &str = "set the time or default ACL of";
pub(crate) const MAKE_OPAQUE: &str = "make opaque";
pub(crate) const MAKE_OPAQUE_AROUND: &str = "make opaque the directory of";

/// Some file systems have little room for the attributes of each file, and none of that is missing
/// elsewhere.
const ABOUT_ATTRIBUTES: [&str; 4] = [SET_ATTRIBUTE, SET_ENDING, MAKE_OPAQUE, MAKE_OPAQUE_AROUND];

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// The archive itself.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// An entry's path leads out of the layer or nowhere, or it names something impossible.
    #[error("entry {path:?} {rule}")]
    Entry {
        /// As the archive has it.
        path: String,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// The kernel refused.
    #[error("cannot {action} {path:?}")]
    File {
        /// A verb, such as `create`.
        action: &'static str,
        /// As the archive has it.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl UnpackError {
    /// Whether the file system is full. An attribute that is too large for the file system ends
    /// with the same number, but it is no question of room.
    pub fn is_no_space(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(
            self,
            Self::File { action, source, .. }
                if full.contains(&source.kind()) && !ABOUT_ATTRIBUTES.contains(action)
        )
    }

    /// Whether the reason is this machine and not the archive: no room, a broken disk, no memory or
    /// descriptor left.
    pub fn is_local(&self) -> bool {
        let Self::File { source, .. } = self else {
            return false;
        };
        let error = Errno::from_io_error(source);
        self.is_no_space()
            || matches!(
                error,
                Some(Errno::IO | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::ROFS)
            )
    }
}

/// An entry breaks a rule.
pub(crate) fn broken(entry: &Entry, rule: &'static str) -> UnpackError {
    let path = shown(&entry.path);
    UnpackError::Entry { path, rule }
}

/// The kernel refused something about an entry.
pub(crate) fn failed<E: Into<io::Error>>(
    action: &'static str,
    entry: &Entry,
) -> impl Fn(E) -> UnpackError {
    failed_at(action, &entry.path)
}

/// As [`failed`], of the entry with that path.
pub(crate) fn failed_at<E: Into<io::Error>>(
    action: &'static str,
    path: &[u8],
) -> impl Fn(E) -> UnpackError {
    move |error| UnpackError::File { action, path: shown(path), source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_lacks_is_told_from_what_the_layer_asks_for() {
        for (action, error, is_no_space, is_local) in [
            ("write", Errno::NOSPC, true, true),
            ("create", Errno::DQUOT, true, true),
            (SET_ATTRIBUTE, Errno::NOSPC, false, false),
            (SET_ENDING, Errno::NOSPC, false, false),
            (MAKE_OPAQUE, Errno::NOSPC, false, false),
            (MAKE_OPAQUE_AROUND, Errno::NOSPC, false, false),
            (SET_ATTRIBUTE, Errno::IO, false, true),
            ("write", Errno::IO, false, true),
            ("open", Errno::MFILE, false, true),
            ("open", Errno::NFILE, false, true),
            ("create", Errno::NOMEM, false, true),
            ("create", Errno::ROFS, false, true),
            ("create", Errno::NAMETOOLONG, false, false),
            ("write", Errno::FBIG, false, false),
        ] {
            let failed = UnpackError::File { action, path: "a".to_owned(), source: error.into() };
            let found = (failed.is_no_space(), failed.is_local());
            assert_eq!(found, (is_no_space, is_local), "{action} {error}");
        }
    }
}
