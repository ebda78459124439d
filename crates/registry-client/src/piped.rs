//! Documents that are no files.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foreign_text::bounded::{ReadError, read_path, read_stream};
use zeroize::Zeroizing;

/// What came through pipes, which can be read only once, by the paths that somebody gave: messages
/// name these. Documents are read anew for each pull.
#[derive(Clone, Default)]
pub struct Piped(BTreeMap<PathBuf, Arc<Zeroizing<Vec<u8>>>>);

impl Piped {
    /// Reads a pipe to its end. Blocks.
    ///
    /// # Errors
    ///
    /// Those of reading, and a text of more than `limit` bytes.
    pub fn keep(&mut self, path: &Path, pipe: impl Read, limit: usize) -> Result<(), ReadError> {
        let text = read_stream(pipe, limit)?;
        self.0.insert(path.to_owned(), text.into());
        Ok(())
    }

    /// What came by this path, otherwise the file that is there. Blocks.
    pub(crate) fn read(
        &self,
        path: &Path,
        limit: usize,
    ) -> Result<Arc<Zeroizing<Vec<u8>>>, ReadError> {
        match self.0.get(path) {
            Some(text) if text.len() > limit => Err(ReadError::TooLong { limit }),
            Some(text) => Ok(text.clone()),
            None => read_path(path, limit).map(Arc::new),
        }
    }
}

/// The paths only: a document has passwords.
impl fmt::Debug for Piped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
