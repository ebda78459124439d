//! The initdata document, parsed.
//!
//! Spec: `docs/format.md`, "Initdata". The guest parses a document only after its digest fits the
//! evidence, except where an administrator allowed unverified initdata on a machine without a TEE.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use toml_parser::Source;
use unicode_normalization::UnicodeNormalization;

use crate::digest::Algorithm;
use crate::fault::{Fault, MAX_FAULTS, Refusal, Rule};
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

/// How many unknown top-level keys are kept; a warning does not need more.
const MAX_UNKNOWN_KEYS: usize = 8;

/// A document whose every entry can become a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The algorithm of the digest that stands for this document.
    pub algorithm: Algorithm,
    /// File names and their contents.
    pub data: BTreeMap<FileName, String>,
    /// Top-level keys that have no meaning here, safe to show.
    ///
    /// They are tolerated: whoever wrote the document had it measured, the specification does not
    /// forbid further keys, and Kata's own readers ignore them. A document that is good for them
    /// must not be bad here.
    pub unknown_keys: Vec<String>,
}

impl Document {
    /// Parses `bytes`, which the caller has bounded (`config_image::MAX_DOCUMENT_BYTES`).
    ///
    /// # Errors
    ///
    /// [`Refusal`]; no input causes a panic.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        Reading::of(bytes).document
    }
}

/// The name of a file in one directory, and nothing but that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName(String);

impl FileName {
    /// Takes `name` if it is one plain path component without control characters.
    ///
    /// # Errors
    ///
    /// [`Rule::Name`].
    pub fn new(name: &str) -> Result<Self, Rule> {
        Err(Rule::Name(if name.is_empty() {
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
        }))
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

/// What can be read of any bytes, good or bad, for somebody who looks for a fault.
#[derive(Debug)]
pub struct Reading {
    /// The string `version` as it is written.
    pub version: Option<String>,
    /// The string `algorithm` as it is written.
    pub algorithm: Option<String>,
    /// The names of the strings in `[data]` as they are written, and their lengths in bytes.
    pub lengths: BTreeMap<String, usize>,
    /// What the guest makes of the bytes.
    pub document: Result<Document, Refusal>,
}

impl Reading {
    /// Reads `bytes`, within the same limits as [`Document::parse`].
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut reader = Reader::default();
        let document = reader.document(bytes);
        Self {
            version: reader.version,
            algorithm: reader.algorithm,
            lengths: reader.lengths,
            document: document.ok_or(Refusal(reader.faults)),
        }
    }
}

/// The work of one reading. A function that answers `None` has noted a fault.
#[derive(Default)]
struct Reader<'a> {
    text: &'a str,
    version: Option<String>,
    algorithm: Option<String>,
    lengths: BTreeMap<String, usize>,
    faults: Vec<Fault>,
}

impl<'a> Reader<'a> {
    fn document(&mut self, bytes: &'a [u8]) -> Option<Document> {
        self.text = match str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return self.refuse(None, "", Rule::Utf8(error.valid_up_to())),
        };
        // Reads one token at a time, in constant memory.
        if let Some(token) = Source::new(self.text).lex().nth(MAX_TOKENS) {
            return self.refuse(Some(token.span().start()), "", Rule::Tokens);
        }
        let table = match DeTable::parse(self.text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let offset = error.span().map(|span| span.start);
                return self.refuse(offset, "", Rule::Toml(printable(error.message())));
            }
        };
        let version = self.version(&table);
        let algorithm = self.algorithm(&table);
        let data = self.data(&table);
        version?;
        let unknown_keys = table
            .keys()
            .map(|key| key.get_ref().as_ref())
            .filter(|key| !["version", "algorithm", "data"].contains(key))
            .take(MAX_UNKNOWN_KEYS)
            .map(shown)
            .collect();
        Some(Document {
            algorithm: algorithm?,
            data: data?,
            unknown_keys,
        })
    }

    fn version(&mut self, table: &DeTable<'_>) -> Option<()> {
        let (found, offset) = self.string(table, "version")?;
        self.version = Some(found.to_owned());
        match found {
            VERSION => Some(()),
            _ => self.refuse(Some(offset), "version", Rule::Version(shown(found))),
        }
    }

    fn algorithm(&mut self, table: &DeTable<'_>) -> Option<Algorithm> {
        let (found, offset) = self.string(table, "algorithm")?;
        self.algorithm = Some(found.to_owned());
        Algorithm::named(found)
            .or_else(|| self.refuse(Some(offset), "algorithm", Rule::Algorithm(shown(found))))
    }

    /// The string `key`, and its place in the text.
    fn string<'t>(
        &mut self,
        table: &'t DeTable<'_>,
        key: &'static str,
    ) -> Option<(&'t str, usize)> {
        let Some(value) = table.get(key) else {
            return self.refuse(None, key, Rule::Missing);
        };
        match value.get_ref().as_str() {
            Some(text) => Some((text, value.span().start)),
            None => self.wrong_type(key, "a string", value),
        }
    }

    fn data(&mut self, table: &DeTable<'_>) -> Option<BTreeMap<FileName, String>> {
        let Some(value) = table.get("data") else {
            return self.refuse(None, "data", Rule::Missing);
        };
        let DeValue::Table(data) = value.get_ref() else {
            return self.wrong_type("data", "a table", value);
        };
        if data.len() > MAX_ENTRIES {
            return self.refuse(None, "data", Rule::Entries(data.len()));
        }
        let mut files = BTreeMap::new();
        let mut composed = BTreeSet::new();
        for (name, value) in data {
            let key = format!("data.\"{}\"", shown(name.get_ref()));
            let file = self.name(&key, name, &mut composed);
            if let Some(content) = self.content(&key, value) {
                self.lengths
                    .insert(name.get_ref().to_string(), content.len());
                files.extend(file.map(|file| (file, content.to_owned())));
            }
        }
        (files.len() == data.len()).then_some(files)
    }

    /// The parser has refused equal keys, escapes resolved. What is left are names that only look
    /// equal: those whose composed form is in `composed` already.
    fn name(
        &mut self,
        key: &str,
        name: &Spanned<DeString<'_>>,
        composed: &mut BTreeSet<String>,
    ) -> Option<FileName> {
        let offset = Some(name.span().start);
        let file = match FileName::new(name.get_ref()) {
            Ok(file) => file,
            Err(rule) => return self.refuse(offset, key, rule),
        };
        match composed.insert(file.as_str().nfc().collect()) {
            true => Some(file),
            false => self.refuse(offset, key, Rule::SameName),
        }
    }

    fn content<'t>(&mut self, key: &str, value: &'t Spanned<DeValue<'_>>) -> Option<&'t str> {
        match value.get_ref() {
            DeValue::String(content) => Some(content),
            // `policy.rego = ` without quotes is a table `policy` in TOML, the commonest mistake.
            DeValue::Table(_) => {
                self.wrong_type(key, "a string (a name with a dot needs quotes)", value)
            }
            _ => self.wrong_type(key, "a string", value),
        }
    }

    fn wrong_type<T>(
        &mut self,
        key: &str,
        expected: &'static str,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<T> {
        let found = value.get_ref().type_str();
        let offset = value.span().start;
        self.refuse(Some(offset), key, Rule::Type { expected, found })
    }

    /// Notes a fault at the byte `offset`.
    fn refuse<T>(&mut self, offset: Option<usize>, key: &str, rule: Rule) -> Option<T> {
        // Beyond that not even the line is looked up, which takes as long as the text is.
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Fault {
                line: offset.map(|offset| line_of(self.text, offset)),
                key: key.to_owned(),
                rule,
            });
        }
        None
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
