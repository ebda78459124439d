//! The initdata document, parsed.
//!
//! Spec: `docs/format.md`, "Initdata". Parsed only once the digest fits, except where an
//! administrator allowed unverified initdata on a machine without a TEE.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_parser::Source;
use unicode_normalization::UnicodeNormalization;

use crate::digest::Algorithm;
use crate::printable;

/// The version of the specification that is understood.
pub const VERSION: &str = "0.1.0";

/// The most entries in `[data]`: each becomes a file. Real documents have four or five. Not part of
/// the format.
pub const MAX_ENTRIES: usize = 1024;

/// The most tokens of TOML: names, values, brackets, lines. A real document has some dozens, since
/// a file's content is one token.
///
/// The parser keeps all of them, and a table for every dotted key: without this limit four
/// megabytes become a gigabyte. Not part of the format.
pub const MAX_TOKENS: usize = 32 << 10;

/// The longest name of a file on Linux.
pub const MAX_NAME_BYTES: usize = 255;

/// A document whose every entry can become a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The algorithm of the digest that stands for this document.
    pub algorithm: Algorithm,
    /// File names and their contents.
    pub data: BTreeMap<FileName, String>,
    /// Top-level keys that have no meaning here, printable.
    ///
    /// Tolerated: the document is measured by whoever wrote it, the specification does not forbid
    /// further keys, and Kata's own readers ignore them. One document must not be good for them and
    /// bad for us.
    pub unknown_keys: Vec<String>,
}

/// The name of a file in one directory, and nothing but that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName(String);

impl FileName {
    /// Takes `name` if it is one plain path component that a log can show.
    ///
    /// # Errors
    ///
    /// [`DocumentError::Name`].
    pub fn new(name: &str) -> Result<Self, DocumentError> {
        let rule = if name.is_empty() {
            "it is empty"
        } else if name.len() > MAX_NAME_BYTES {
            "it has more than 255 bytes"
        } else if name == "." || name == ".." {
            "it is a directory"
        } else if name.contains('/') {
            "it has a slash"
        } else if name.chars().any(char::is_control) {
            "it has a control character"
        } else {
            return Ok(Self(name.to_owned()));
        };
        Err(DocumentError::Name {
            name: shown(name),
            rule,
        })
    }

    /// A name that stands in the program.
    #[must_use]
    pub fn fixed(name: &'static str) -> Self {
        debug_assert!(Self::new(name).is_ok(), "{name}");
        Self(name.to_owned())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why bytes are not an initdata document.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// Not text.
    #[error("expected UTF-8, found another byte at offset {offset}")]
    NotUtf8 {
        /// Where.
        offset: usize,
    },
    /// Not TOML.
    #[error("line {line}: {message}")]
    NotToml {
        /// Where, counted from 1; 0 where it is not known.
        line: usize,
        /// The parser's message, which quotes nothing of the document.
        message: String,
    },
    /// More tokens than [`MAX_TOKENS`].
    #[error("line {line}: expected at most {MAX_TOKENS} names, values, brackets and lines")]
    TooManyTokens {
        /// Where the first one too many is, counted from 1.
        line: usize,
    },
    /// A key is missing.
    #[error("the key \"{key}\" is missing")]
    Missing {
        /// Which.
        key: &'static str,
    },
    /// A value has another type.
    #[error("line {line}: expected {expected} for \"{key}\", found {found}")]
    Type {
        /// Where, counted from 1.
        line: usize,
        /// The key.
        key: String,
        /// What the specification says.
        expected: &'static str,
        /// The TOML type.
        found: &'static str,
    },
    /// Another version of the specification.
    #[error("expected version \"{VERSION}\", found \"{found}\"")]
    Version {
        /// The value, printable.
        found: String,
    },
    /// An unknown algorithm.
    #[error("expected algorithm sha256, sha384 or sha512, found \"{found}\"")]
    Algorithm {
        /// The value, printable.
        found: String,
    },
    /// A key in `[data]` that cannot be a file's name.
    #[error("the key \"{name}\" in [data] is not a plain file name: {rule}")]
    Name {
        /// The key, printable and cut.
        name: String,
        /// The broken rule.
        rule: &'static str,
    },
    /// Two keys in `[data]` are one name to a reader, written with other code points.
    #[error("the key \"{name}\" in [data] is there twice, in two Unicode spellings")]
    SameName {
        /// The key, printable and cut.
        name: String,
    },
    /// More entries than [`MAX_ENTRIES`].
    #[error("[data] has {found} entries, at most {MAX_ENTRIES} are accepted")]
    TooManyEntries {
        /// How many.
        found: usize,
    },
}

impl Document {
    /// Parses `bytes`, which the caller has bounded (`config_image::MAX_DOCUMENT_BYTES`).
    ///
    /// # Errors
    ///
    /// [`DocumentError`]; no input causes a panic.
    pub fn parse(bytes: &[u8]) -> Result<Self, DocumentError> {
        let text = std::str::from_utf8(bytes).map_err(|error| DocumentError::NotUtf8 {
            offset: error.valid_up_to(),
        })?;
        // Reads one token at a time, in constant memory.
        if let Some(token) = Source::new(text).lex().nth(MAX_TOKENS) {
            return Err(DocumentError::TooManyTokens {
                line: line_of(text, token.span().start()),
            });
        }
        let table = DeTable::parse(text).map_err(|error| DocumentError::NotToml {
            line: error.span().map_or(0, |span| line_of(text, span.start)),
            message: printable(error.message()),
        })?;
        let table = table.get_ref();

        let version = string(text, table, "version")?;
        if version != VERSION {
            return Err(DocumentError::Version {
                found: shown(version),
            });
        }
        let algorithm = string(text, table, "algorithm")?;
        let algorithm = Algorithm::named(algorithm).ok_or_else(|| DocumentError::Algorithm {
            found: shown(algorithm),
        })?;
        let data = table
            .get("data")
            .ok_or(DocumentError::Missing { key: "data" })?;
        let DeValue::Table(data) = data.get_ref() else {
            return Err(wrong_type(text, "data", "a table", data));
        };
        if data.len() > MAX_ENTRIES {
            return Err(DocumentError::TooManyEntries { found: data.len() });
        }
        let data = data
            .iter()
            .map(|(key, value)| entry(text, key.get_ref(), value))
            .collect::<Result<BTreeMap<_, _>, _>>()?;
        distinct(data.keys())?;
        let unknown_keys = table
            .keys()
            .map(|key| key.get_ref().as_ref())
            .filter(|key| !["version", "algorithm", "data"].contains(key))
            .take(MAX_SHOWN_KEYS)
            .map(shown)
            .collect();
        Ok(Self {
            algorithm,
            data,
            unknown_keys,
        })
    }
}

/// The parser has refused equal keys, escapes resolved. What is left are names that only look
/// equal.
fn distinct<'a>(names: impl Iterator<Item = &'a FileName>) -> Result<(), DocumentError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.as_str().nfc().collect::<String>()) {
            return Err(DocumentError::SameName {
                name: shown(name.as_str()),
            });
        }
    }
    Ok(())
}

/// How many unknown keys are named; a warning does not need more.
const MAX_SHOWN_KEYS: usize = 8;

fn entry(
    text: &str,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<(FileName, String), DocumentError> {
    let name = FileName::new(key)?;
    match value.get_ref() {
        DeValue::String(content) => Ok((name, content.clone().into_owned())),
        // `policy.rego = ` without quotes is a table `policy` in TOML, the commonest mistake.
        DeValue::Table(_) => Err(wrong_type(
            text,
            key,
            "a string (a name with a dot needs quotes)",
            value,
        )),
        _ => Err(wrong_type(text, key, "a string", value)),
    }
}

fn string<'a>(
    text: &str,
    table: &'a DeTable<'_>,
    key: &'static str,
) -> Result<&'a str, DocumentError> {
    let value = table.get(key).ok_or(DocumentError::Missing { key })?;
    value
        .get_ref()
        .as_str()
        .ok_or_else(|| wrong_type(text, key, "a string", value))
}

fn wrong_type(
    text: &str,
    key: &str,
    expected: &'static str,
    value: &Spanned<DeValue<'_>>,
) -> DocumentError {
    DocumentError::Type {
        line: line_of(text, value.span().start),
        key: shown(key),
        expected,
        found: value.get_ref().type_str(),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// At most 64 characters of something from the document, printable.
fn shown(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 64;
    let mut short: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    printable(&short)
}

#[cfg(test)]
mod tests;
