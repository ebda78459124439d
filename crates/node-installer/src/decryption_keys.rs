//! Keys of encrypted images as the kubelet mounts them: secrets of any type with key files, or
//! lists of keys, in them.

use std::fs::read_dir;
use std::io;
use std::path::{Path, PathBuf};

use credential_sources::decryption_secret::{MAX_VALUE_BYTES, MAX_VALUES, Source, Values};
use zeroize::Zeroizing;

use crate::secret::read_file;

/// The most values of one secret, passwords of keys included. Free to change.
const MAX_FILES: usize = 2 * MAX_VALUES;

/// What is at one place.
pub(crate) enum Content {
    /// The values of a mounted secret.
    Secret(Values),
    /// A file.
    File(Zeroizing<Vec<u8>>),
}

impl Content {
    /// The same for who reads keys.
    pub(crate) fn source<'s>(&'s self, name: &'s str) -> Source<'s> {
        match self {
            Self::Secret(values) => Source::Mounted { name, values },
            Self::File(text) => Source::File { name, text },
        }
    }
}

/// Reads what is at `place`, the directory of a secret or a file; `None` if there is nothing yet,
/// or nothing in it. The error names the file.
pub(crate) fn read(place: &Path) -> Result<Option<Content>, (PathBuf, io::Error)> {
    if place.is_dir() {
        let values = read_secret(place)?;
        return Ok((!values.is_empty()).then_some(Content::Secret(values)));
    }
    let text = read_file(place, MAX_VALUE_BYTES).map_err(|error| (place.into(), error))?;
    let text = text.filter(|text| !text.trim_ascii().is_empty());
    Ok(text.map(Content::File))
}

/// Reads every value of a secret. What begins with two dots is the kubelet's own.
fn read_secret(directory: &Path) -> Result<Values, (PathBuf, io::Error)> {
    let at = |error| (directory.to_owned(), error);
    let mut values = Values::new();
    for entry in read_dir(directory).map_err(at)? {
        let Ok(name) = entry.map_err(at)?.file_name().into_string() else {
            continue;
        };
        let path = directory.join(&name);
        if name.starts_with("..") || path.is_dir() {
            continue;
        }
        if values.len() == MAX_FILES {
            return Err(at(io::Error::other(format!("it has more than {MAX_FILES} values"))));
        }
        let value = read_file(&path, MAX_VALUE_BYTES).map_err(|error| (path, error))?;
        values.extend(value.map(|value| (name, value)));
    }
    Ok(values)
}
