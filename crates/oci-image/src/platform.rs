//! The platform that images run on, and the order of those that run on one, which is containerd's.
//!
//! An image says what it was built for; the registry configuration cannot change it.

use std::fmt;

use serde::Deserialize;

/// What stands for a part that no platform has, so that it is equal to nothing and can be shown.
const UNREADABLE: &str = "?";

/// The longest part of a platform that is taken for one.
const MAX_PART_BYTES: usize = 64;

/// Below every variant of the own architecture: another one whose programs run here too.
const OTHER_ARCHITECTURE: u32 = 1 << 16;

/// The oldest ARM that images are built for.
const MIN_ARM: u8 = 5;

/// An operating system and processor architecture.
///
/// Invariant: in the one spelling of Go that image formats use: lower-case, `amd64` for `x86_64`,
/// no variant where it is the one that is meant anyway (`amd64/v1`, `arm64/v8`), always a variant
/// for `arm`; parts are short words of ASCII.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawPlatform")]
pub struct Platform {
    os: String,
    architecture: String,
    variant: Option<String>,
    features: Vec<String>,
}

/// A platform as documents have it; every field may be missing, and be null, as Go's encoder writes
/// it.
#[derive(Deserialize)]
struct RawPlatform {
    #[serde(default)]
    os: Option<String>,
    #[serde(default)]
    architecture: Option<String>,
    #[serde(default)]
    variant: Option<String>,
    #[serde(rename = "os.features", default)]
    features: Option<Vec<String>>,
}

/// Why a text is no platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPlatform {
    /// Not two or three parts.
    #[error(
        "a platform is written OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT, such as linux/amd64"
    )]
    Parts,
    /// A part that no platform has.
    #[error("each part of a platform is a word of letters, digits, \"_\", \"-\" and \".\"")]
    Word,
}

impl From<RawPlatform> for Platform {
    fn from(raw: RawPlatform) -> Self {
        let word = |part: Option<String>| {
            let part = part.unwrap_or_default();
            if part.is_empty() || is_word(&part) { part } else { UNREADABLE.to_owned() }
        };
        let features = raw.features.unwrap_or_default();
        let mut platform = Self::new(&word(raw.os), &word(raw.architecture), &word(raw.variant));
        platform.features = features.into_iter().map(|part| word(Some(part))).collect();
        platform
    }
}

impl Platform {
    /// The platform of this guest, with the level that its processor has.
    pub fn of_guest() -> Self {
        let architecture = match std::env::consts::ARCH {
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
            "powerpc64" => "ppc64",
            "loongarch64" => "loong64",
            other => other,
        };
        #[cfg(target_arch = "x86_64")]
        let variant = format!("v{}", crate::cpu::level());
        #[cfg(not(target_arch = "x86_64"))]
        let variant = String::new();
        Self::new(std::env::consts::OS, architecture, &variant)
    }

    /// Reads `linux/amd64` or `linux/arm/v7`, in any of the usual spellings.
    ///
    /// # Errors
    ///
    /// [`InvalidPlatform`] names the rule that the text breaks.
    pub fn parse(text: &str) -> Result<Self, InvalidPlatform> {
        let parts: Vec<_> = text.split('/').take(4).collect();
        let (os, architecture, variant) = match parts[..] {
            [os, architecture] => (os, architecture, None),
            [os, architecture, variant] => (os, architecture, Some(variant)),
            _ => return Err(InvalidPlatform::Parts),
        };
        if ![os, architecture].into_iter().chain(variant).all(is_word) {
            return Err(InvalidPlatform::Word);
        }
        Ok(Self::new(os, architecture, variant.unwrap_or_default()))
    }

    fn new(os: &str, architecture: &str, variant: &str) -> Self {
        let os = match os.to_ascii_lowercase().as_str() {
            "macos" => "darwin".to_owned(),
            os => os.to_owned(),
        };
        let variant = variant.to_ascii_lowercase();
        let (architecture, variant) = match architecture.to_ascii_lowercase().as_str() {
            "x86_64" | "x86-64" | "amd64" => ("amd64".to_owned(), variant),
            "i386" | "i486" | "i586" | "i686" | "x86" | "386" => ("386".to_owned(), String::new()),
            "aarch64" | "arm64" => ("arm64".to_owned(), variant),
            "armhf" => ("arm".to_owned(), "v7".to_owned()),
            "armel" => ("arm".to_owned(), "v6".to_owned()),
            architecture => (architecture.to_owned(), variant),
        };
        let variant = match (architecture.as_str(), variant.as_str()) {
            ("amd64", "v1") | ("arm64", "v8" | "8") => None,
            ("arm", "") => Some("v7".to_owned()),
            ("arm", "5" | "6" | "7" | "8") => Some(format!("v{variant}")),
            (_, "") => None,
            _ => Some(variant),
        };
        Self { os, architecture, variant, features: Vec::new() }
    }

    /// Whether it says what it is for at all; where it does not, the image's own configuration has
    /// to.
    pub(crate) fn is_named(&self) -> bool {
        !self.architecture.is_empty()
    }

    /// Whether it marks what is no image, as builders do with what they say about images.
    pub(crate) fn is_unknown(&self) -> bool {
        self.os == "unknown" || self.architecture == "unknown"
    }

    /// How well an image for `offered` runs here, or that it does not. Less is better.
    ///
    /// As containerd has it: a lower variant runs, the nearest one best, and last the 32-bit
    /// architecture of the same processor. An operating system that is left out is this one; its
    /// version matters for Windows only; an image that needs features of it (`os.features`) does
    /// not run on an ordinary Linux.
    pub fn rank(&self, offered: &Self) -> Option<u32> {
        if (!offered.os.is_empty() && self.os != offered.os) || !offered.features.is_empty() {
            return None;
        }
        if self.architecture == offered.architecture && self.variant == offered.variant {
            return Some(0);
        }
        match (self.architecture.as_str(), offered.architecture.as_str()) {
            ("amd64", "amd64") => below(self.number(1)?, offered.number(1)?, 1),
            ("amd64", "386") => Some(OTHER_ARCHITECTURE),
            ("arm", "arm") => below(self.number(7)?, offered.number(7)?, MIN_ARM),
            ("arm64", "arm64") => below_arm64(self.version()?, offered.version()?),
            ("arm64", "arm") => {
                below(8, offered.number(7)?, MIN_ARM).map(|rank| rank + OTHER_ARCHITECTURE)
            }
            (ours, theirs) if ours == theirs && offered.variant.is_none() => Some(1),
            _ => None,
        }
    }

    /// Whether an image whose configuration says `offered` runs here; a field that is not filled in
    /// objects to nothing.
    pub fn accepts(&self, offered: &Self) -> bool {
        if offered.is_named() {
            return self.rank(offered).is_some();
        }
        offered.os.is_empty() || offered.os == self.os
    }

    /// The number in a variant such as `v7`.
    fn number(&self, default: u8) -> Option<u8> {
        match &self.variant {
            Some(variant) => digits(variant.strip_prefix('v')?),
            None => Some(default),
        }
    }

    /// The numbers in a variant such as `v8.2`.
    fn version(&self) -> Option<(u8, u8)> {
        let Some(variant) = &self.variant else {
            return Some((8, 0));
        };
        let variant = variant.strip_prefix('v')?;
        match variant.split_once('.') {
            Some((major, minor)) => Some((digits(major)?, digits(minor)?)),
            None => Some((digits(variant)?, 0)),
        }
    }
}

/// How far a level is below the one that this guest has.
fn below(ours: u8, theirs: u8, lowest: u8) -> Option<u32> {
    (lowest..=ours).contains(&theirs).then(|| u32::from(ours - theirs))
}

/// The same for 64-bit ARM, where version 9.n contains 8.(n+5).
fn below_arm64(ours: (u8, u8), theirs: (u8, u8)) -> Option<u32> {
    let ((major, minor), (their_major, their_minor)) = (ours, theirs);
    match (major, their_major) {
        (8 | 9, _) if major == their_major => below(minor, their_minor, 0),
        (9, 8) => below(minor.checked_add(5)?, their_minor, 0).map(|rank| rank + 256),
        _ => None,
    }
}

fn digits(text: &str) -> Option<u8> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn is_word(part: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !part.is_empty() && part.len() <= MAX_PART_BYTES && part.bytes().all(is_legal)
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_any = |part: &str| if part.is_empty() { "any" } else { part }.to_owned();
        write!(f, "{}", or_any(&self.os))?;
        if let Some(feature) = self.features.first() {
            let others = if self.features.len() > 1 { "+..." } else { "" };
            write!(f, "(+{feature}{others})")?;
        }
        write!(f, "/{}", or_any(&self.architecture))?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}
