//! Why the guest refuses a document.

use std::fmt;

use foreign_text::toml::WrongType;

use crate::document::{MAX_ENTRIES, MAX_TOKENS, VERSION};

/// Everything that is wrong with a document; its text is the first fault, which is the guest's
/// reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal(pub(crate) Vec<Fault>);

impl Refusal {
    /// At least one fault, in the order in which the guest meets them.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.0
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.first().map_or(Ok(()), |fault| fault.fmt(f))
    }
}

/// One fault, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, counted from 1; `None` for the document as a whole.
    pub line: Option<usize>,
    /// The dotted key, safe to show; empty where no key is concerned.
    pub key: String,
    /// The broken rule.
    pub rule: Rule,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        self.rule.fmt(f)
    }
}

/// The rules that a document can break. Texts of the document are cut and safe to show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// It is TOML; with the parser's message, which quotes nothing of the document.
    #[error("not TOML: {0}")]
    Toml(String),
    /// It has at most [`MAX_TOKENS`].
    #[error("expected at most {MAX_TOKENS} names, values, brackets and lines")]
    Tokens,
    /// This key has to be there.
    #[error("the key is missing")]
    Missing,
    /// The value has the specification's type.
    #[error(transparent)]
    Type(WrongType),
    /// The version is [`VERSION`]; with the one that was found.
    #[error("expected \"{VERSION}\", found \"{0}\"")]
    Version(String),
    /// The algorithm is a known one; with the one that was found.
    #[error("expected sha256, sha384 or sha512, found \"{0}\"")]
    Algorithm(String),
    /// The key is a file's name; with the reason why it is not.
    #[error("not a plain file name: {0}")]
    Name(&'static str),
    /// No two names are equal in Unicode's composed form (NFC).
    #[error("there twice, in two Unicode spellings")]
    SameName,
    /// There are at most [`MAX_ENTRIES`]; with the number that was found.
    #[error("{0} entries, at most {MAX_ENTRIES} are accepted")]
    Entries(usize),
}
