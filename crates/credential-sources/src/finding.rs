//! What a source said that has no place in the document, or not the same meaning there.

use std::fmt;

use serde::Serialize;

/// One thing that was not taken over as it stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file, secret or plugin.
    pub source: String,
    /// The key in it, printable; empty where the whole source is meant.
    pub key: String,
    /// How much that matters.
    pub loss: Loss,
    /// What is wrong and what became of it, as a fragment without a full stop. Never a value.
    pub text: String,
}

impl Finding {
    /// A finding about `key`, which is printable or empty.
    #[must_use]
    pub fn new(source: &str, key: &str, loss: Loss, text: impl Into<String>) -> Self {
        Self { source: source.to_owned(), key: key.to_owned(), loss, text: text.into() }
    }
}

/// A foreign word in a message: visible, not endless, and without what may be a password before an
/// `@`.
#[must_use]
pub fn printable(text: &str) -> String {
    foreign_text::shown(text).without_user().to_string()
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// Nothing is lost; worth knowing.
    Note,
    /// Something was left out or changed its meaning: an error where losses are not accepted.
    Lost,
    /// Taken over, more hosts would receive a password than its author named: left out unless that
    /// is accepted.
    Widens,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.text)
    }
}
