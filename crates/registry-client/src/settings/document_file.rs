//! A document as it lies in the guest, and the refusal that may lie beside it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use puller_config::{Document, MAX_DOCUMENT_BYTES};
use zeroize::Zeroizing;

use super::Origin;
use crate::error::Error;

/// The file beside the document in which `initdata-processor` says why it handed none out.
///
/// Two configuration disks, a disk that does not decode, refused initdata: in all of them no
/// document may mean "no configuration", because that would be a silent anonymous pull.
const REFUSAL_EXTENSION: &str = "error";

/// The longest refusal that is passed on; the processor writes one line of a sentence or two.
const MAX_REFUSAL_BYTES: u64 = 4096;

/// A document and where it came from.
#[derive(Clone, Debug, Default)]
pub(super) struct DocumentFile {
    pub(super) document: Arc<Document>,
    /// Where it lies or would; empty where nobody named a place.
    pub(super) path: PathBuf,
    pub(super) is_present: bool,
}

impl DocumentFile {
    /// Reads a document; no file means the defaults. Blocks.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or breaks a rule is an error and never the defaults: that would
    /// be a silent anonymous pull.
    pub(super) fn load(path: &Path, origin: Origin) -> Result<Self, Error> {
        let unreadable = |source| Error::ConfigurationUnreadable {
            path: path.to_owned(),
            source,
        };
        let Some(file) = open(path).map_err(unreadable)? else {
            return Ok(Self {
                path: path.to_owned(),
                ..Self::default()
            });
        };
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(unreadable(std::io::Error::other("not a regular file")));
        }
        // Reserved once: a buffer that grows leaves copies of what it held behind.
        let mut text = Zeroizing::new(Vec::with_capacity(MAX_DOCUMENT_BYTES + 1));
        file.take(MAX_DOCUMENT_BYTES as u64 + 1)
            .read_to_end(&mut text)
            .map_err(unreadable)?;
        let checked = match origin {
            Origin::Measured => Document::parse_measured(&text),
            Origin::Configuration => Document::parse(&text),
        };
        let checked = checked.map_err(|problems| Error::ConfigurationInvalid {
            path: path.to_owned(),
            problems,
        })?;
        for warning in &checked.warnings {
            tracing::warn!(configuration = %path.display(), "{warning}");
        }
        Ok(Self {
            document: Arc::new(checked.document),
            path: path.to_owned(),
            is_present: true,
        })
    }
}

/// Reads why there is no document, on one printable line.
pub(super) fn refusal(document: &Path) -> Result<Option<String>, Error> {
    let path = document.with_extension(REFUSAL_EXTENSION);
    let unreadable = |source| Error::ConfigurationUnreadable {
        path: path.clone(),
        source,
    };
    let Some(file) = open(&path).map_err(unreadable)? else {
        return Ok(None);
    };
    let mut reason = Vec::new();
    file.take(MAX_REFUSAL_BYTES)
        .read_to_end(&mut reason)
        .map_err(unreadable)?;
    let reason = String::from_utf8_lossy(&reason);
    let printable = reason
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c });
    Ok(Some(printable.collect()))
}

fn open(path: &Path) -> std::io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
