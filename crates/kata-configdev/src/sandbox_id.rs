//! The id of a sandbox, before it becomes part of a path.

use std::fmt;

/// The longest id; container engines use 64 hexadecimal digits. Free to change.
const MAX_ID_BYTES: usize = 128;

/// A plain name: ASCII letters, digits, `-`, `_` and `.`, beginning with a letter or digit.
///
/// So it is never a path, never hidden, never an option and never in need of quotes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SandboxId(String);

/// The text is no [`SandboxId`]. Does not repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a sandbox id consists of 1 to {MAX_ID_BYTES} ASCII letters, digits, \"-\", \"_\" and \".\", \
    the first a letter or digit"
)]
pub struct InvalidSandboxId;

impl SandboxId {
    /// Reads an id.
    ///
    /// # Errors
    ///
    /// [`InvalidSandboxId`].
    pub fn parse(text: &str) -> Result<Self, InvalidSandboxId> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let valid = text.len() <= MAX_ID_BYTES
            && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
            && text.bytes().all(is_plain);
        valid.then(|| Self(text.into())).ok_or(InvalidSandboxId)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for SandboxId {
    type Err = InvalidSandboxId;

    fn from_str(text: &str) -> Result<Self, InvalidSandboxId> {
        Self::parse(text)
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_plain_name() {
        let long = "a".repeat(MAX_ID_BYTES);
        for id in ["1", "0a1b", "pod_x.1-b", "a..b", &long] {
            assert_eq!(SandboxId::parse(id).unwrap().as_str(), id);
        }
        let longer = format!("{long}a");
        for text in [
            "", ".", "..", ".a", "-a", "_a", "a/b", "../a", "a b", "a\n", "a,b", "a\0", "\u{e9}",
            &longer,
        ] {
            assert_eq!(SandboxId::parse(text), Err(InvalidSandboxId), "{text:?}");
        }
    }
}
