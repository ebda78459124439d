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
    /// The digest that the name has.
    pub fn digest(&self) -> &Digest {
        match self {
            Self::Plain(digest) | Self::Keyed(digest) => digest,
        }
    }

    /// Whether the layer was encrypted.
    pub fn is_keyed(&self) -> bool {
        matches!(self, Self::Keyed(_))
    }

    pub(crate) fn file_name(&self) -> String {
        match self {
            Self::Plain(digest) => digest.file_name(),
            Self::Keyed(tag) => format!("{KEYED}{}", tag.file_name()),
        }
    }

    /// The layer of a directory with this name, if it is one's.
    pub(crate) fn of_file(name: &str) -> Option<Self> {
        let (digest, is_keyed) = match name.strip_prefix(KEYED) {
            Some(rest) => (rest, true),
            None => (name, false),
        };
        let digest = Digest::parse(&digest.replacen('-', ":", 1)).ok()?;
        Some(if is_keyed { Self::Keyed(digest) } else { Self::Plain(digest) })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_what_it_was_written() {
        let digest = Digest::parse(&format!("sha256:{}", "5".repeat(64))).unwrap();
        let names = [LayerName::Plain(digest.clone()), LayerName::Keyed(digest)];
        assert_ne!(names[0].file_name(), names[1].file_name());
        for name in names {
            assert_eq!(LayerName::of_file(&name.file_name()), Some(name));
        }
        for other in ["keyed-", "keyed-keyed-sha256-5", "keyed", "lost+found", ""] {
            assert_eq!(LayerName::of_file(other), None, "{other}");
        }
    }
}
