//! A document that a search wants, and the proof that it came.

use std::fmt;

use crate::digest::{Digest, Mismatch, Unverified};

/// The document to fetch, from whichever source has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentRequest {
    /// What it is, and so where a registry has it.
    pub kind: Kind,
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes, where another document gave it.
    pub size: Option<u64>,
}

/// What a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A manifest or an index.
    Manifest,
    /// The blob of an image's configuration.
    Config,
}

/// A wanted document of which every byte was checked.
pub struct Document {
    pub(crate) digest: Digest,
    pub(crate) text: Vec<u8>,
}

impl DocumentRequest {
    /// Checks what came.
    ///
    /// # Errors
    ///
    /// [`Mismatch`]: the source sent something else. Another one may be asked.
    pub fn verify(&self, content: Unverified) -> Result<Document, Mismatch> {
        let text = content.verify(&self.digest, self.size)?;
        Ok(Document { digest: self.digest.clone(), text })
    }
}

impl Document {
    /// Its digest.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Its bytes.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({}, {} bytes)", self.digest, self.text.len())
    }
}
