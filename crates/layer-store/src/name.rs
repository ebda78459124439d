//! What a layer is called in a store.

use std::fmt;

use oci_image::digest::Digest;

/// What stands before the name of a layer that was encrypted.
const KEYED: &str = "keyed-";

/// The name of a layer. The two kinds have nothing in common, so that no image can name a keyed
/// layer by what stands in its configuration: a keyed layer is found by who computed its name from
/// its key, and by nobody else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerName {
    /// The digest of its plain bytes.
    Plain(Digest),
    /// For a layer that was encrypted: what only those can compute who have its key.
    Keyed(Digest),
}

impl LayerName {
    pub(crate) fn file_name(&self) -> String {
        match self {
            Self::Plain(digest) => digest.file_name(),
            Self::Keyed(tag) => format!("{KEYED}{}", tag.file_name()),
        }
    }
}

impl fmt::Display for LayerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(digest) => digest.fmt(f),
            Self::Keyed(tag) => write!(f, "{KEYED}{tag}"),
        }
    }
}

impl From<&Digest> for LayerName {
    fn from(digest: &Digest) -> Self {
        Self::Plain(digest.clone())
    }
}

impl From<&LayerName> for LayerName {
    fn from(name: &LayerName) -> Self {
        name.clone()
    }
}
