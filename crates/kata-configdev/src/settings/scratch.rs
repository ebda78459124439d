//! `[scratch]`: disks that guests keep unpacked images on.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use toml::Spanned;

use super::at_line::{AtLine, Broken, Lines};
use crate::capacity::{BytesOrText, bytes_of};

/// Where the files of scratch disks are, unless the settings say otherwise.
pub const DEFAULT_DIRECTORY: &str = "/var/lib/kata-configdev/scratch";

const MIB: u64 = 1 << 20;

/// The smallest disk: the guest's xfs takes none below 300 MiB, and what authenticates it needs
/// room too.
pub const MIN_BYTES: u64 = 512 * MIB;

/// The largest disk. Free to change.
pub const MAX_BYTES: u64 = 64 << 40;

/// Scratch disks as the settings have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// How large the disk of each sandbox is; `None` gives none.
    pub size: Option<ScratchSize>,
    /// The directory whose file system holds them.
    pub directory: PathBuf,
    /// The most that the disks of all living sandboxes have together.
    pub max_total: Option<ScratchSize>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            size: None,
            directory: DEFAULT_DIRECTORY.into(),
            max_total: None,
        }
    }
}

impl Scratch {
    /// What no sandbox could be started with.
    pub(super) fn contradiction(&self) -> Option<&'static str> {
        let (size, max_total) = (self.size?, self.max_total?);
        (size > max_total).then_some("scratch.max-total: smaller than scratch.size")
    }
}

/// A whole number of MiB, from 512 MiB to 64 TiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ScratchSize(u64);

impl ScratchSize {
    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// The text or number is no [`ScratchSize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a scratch size is a whole number of MiB from \"512M\" to \"64T\", as in \"8G\"")]
pub struct InvalidScratchSize;

impl TryFrom<u64> for ScratchSize {
    type Error = InvalidScratchSize;

    fn try_from(bytes: u64) -> Result<Self, InvalidScratchSize> {
        ((MIN_BYTES..=MAX_BYTES).contains(&bytes) && bytes.is_multiple_of(MIB))
            .then_some(Self(bytes))
            .ok_or(InvalidScratchSize)
    }
}

impl FromStr for ScratchSize {
    type Err = InvalidScratchSize;

    fn from_str(text: &str) -> Result<Self, InvalidScratchSize> {
        bytes_of(text).ok_or(InvalidScratchSize)?.try_into()
    }
}

impl<'de> Deserialize<'de> for ScratchSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesOrText(PhantomData))
    }
}

/// What one file says.
#[derive(Debug, Default)]
pub struct ScratchLayer {
    pub size: Option<AtLine<ScratchSize>>,
    pub directory: Option<AtLine<PathBuf>>,
    pub max_total: Option<AtLine<ScratchSize>>,
}

/// The table as it stands.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawScratch {
    size: Option<Spanned<ScratchSize>>,
    directory: Option<Spanned<PathBuf>>,
    max_total: Option<Spanned<ScratchSize>>,
}

impl ScratchLayer {
    pub(super) fn check(raw: Option<RawScratch>, lines: Lines<'_>) -> Result<Self, Broken> {
        let raw = raw.unwrap_or_default();
        let plain = |path| lines.at(path).plain("scratch.directory");
        Ok(Self {
            size: raw.size.map(|size| lines.at(size)),
            directory: raw.directory.map(plain).transpose()?,
            max_total: raw.max_total.map(|size| lines.at(size)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::Layer;

    #[test]
    fn sizes_are_whole_mebibytes_within_the_limits() {
        for (text, bytes) in [
            ("\"512M\"", 512 << 20),
            ("8589934592", 8 << 30),
            ("\"64T\"", 64 << 40),
        ] {
            let text = format!("[scratch]\nsize = {text}\n");
            let layer = Layer::parse(text.as_bytes()).unwrap().scratch;
            assert_eq!(layer.size.unwrap().value.bytes(), bytes);
        }
        for (line, rule) in [
            ("size = \"511M\"", "from \"512M\" to \"64T\""),
            ("size = \"65T\"", "from \"512M\" to \"64T\""),
            ("size = 8589934593", "whole number of MiB"),
            ("size = -1", "whole number of MiB"),
            ("max-total = \"8g\"", "whole number of MiB"),
            ("size = true", "expected a number of bytes"),
            (
                "directory = \"x\"",
                "scratch.directory: not an absolute path",
            ),
            (
                "directory = \"/x/../y\"",
                "scratch.directory: a directory has",
            ),
            ("max_total = \"8G\"", "unknown field `max_total`"),
        ] {
            let text = format!("[scratch]\n{line}\n");
            let (at, found) = Layer::parse(text.as_bytes()).unwrap_err();
            assert!(at == 2 && found.contains(rule), "{line}: {at}: {found}");
        }
    }
}
