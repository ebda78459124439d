//! A node's files, for readers of files that name others.

use std::path::{Component, Path, PathBuf};

use zeroize::Zeroizing;

use crate::glob::{glob_matches, is_glob};

/// A node's files, by absolute paths.
pub trait NodeFiles {
    /// Reads a file of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// [`Unread`].
    fn read(&mut self, path: &Path, limit: usize) -> Result<Zeroizing<Vec<u8>>, Unread>;

    /// The names in a directory, hidden ones too; none where it cannot be read.
    fn list(&mut self, directory: &Path) -> Vec<String>;
}

/// Why a file is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// Nothing is there, or a link to nothing.
    #[error("it is not there")]
    Absent,
    /// It is a directory or a device, `/dev/null` for example.
    #[error("it is not a regular file")]
    NotRegular,
    /// Anything else, as a fragment.
    #[error("{0}")]
    Other(String),
}

/// Which names a `*` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// Also those that begin with a dot, as in Go.
    Matched,
    /// Not those, as in a shell.
    Skipped,
}

/// The files that are there for an absolute path with a pattern, sorted within each directory; at
/// most `limit` and one. `None` where the pattern is malformed.
pub(crate) fn matching(
    path: &Path,
    hidden: Hidden,
    limit: usize,
    files: &mut dyn NodeFiles,
) -> Option<Vec<PathBuf>> {
    let mut found = vec![PathBuf::from("/")];
    for component in path.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        let name = name.to_str()?;
        let is_pattern = is_pattern(name);
        if is_pattern && !is_glob(name) {
            return None;
        }
        let below = |directory: &PathBuf| {
            let mut names = files.list(directory);
            let is_shown = |known: &str| hidden == Hidden::Matched || !known.starts_with('.');
            names.retain(|known| match is_pattern {
                true => is_shown(known) && glob_matches(name, known),
                false => name == known,
            });
            names.sort_unstable();
            let paths = names.iter().map(|name| directory.join(name));
            paths.collect::<Vec<_>>()
        };
        found = found.iter().flat_map(below).take(limit + 1).collect();
    }
    Some(found)
}

/// Whether a text is more than a name.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '\\'])
}
