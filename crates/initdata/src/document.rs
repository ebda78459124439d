//! The initdata document, parsed.
//!
//! Spec: `docs/format.md`, "Initdata". The guest parses a document only after its digest fits the
//! evidence, except where an administrator allowed unverified initdata on a machine without a TEE.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use foreign_text::position::line_of;
use foreign_text::shown;
use foreign_text::toml::{Field, Table, Tree, WrongType};
use toml_parser::Source;
use unicode_normalization::UnicodeNormalization;

use crate::digest::Algorithm;

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

/// How much of a key stands in a fault, in characters: a log and a policy cut the end of the line,
/// and there is the rule.
const MAX_KEY_CHARS: usize = 40;

/// A document whose every entry can become a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The algorithm of the digest that stands for this document.
    pub algorithm: Algorithm,
    /// File names and their contents.
    pub data: BTreeMap<FileName, String>,
    /// Top-level keys that have no meaning here, safe to show.
    ///
    /// They are tolerated: the document is measured, the specification does not forbid further
    /// keys, and Kata's own readers ignore them. A document that is good for those readers must not
    /// be bad here.
    pub unknown_keys: Vec<String>,
}

impl Document {
    /// Parses `bytes`, which the caller has bounded (`config_image::MAX_DOCUMENT_BYTES`).
    ///
    /// # Errors
    ///
    /// The first [`Refusal`] of all; no input causes a panic.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let Reading { document, faults, .. } = Reading::of(bytes);
        document.ok_or_else(|| faults.into_iter().next().unwrap_or_default())
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
    /// The reason why it is not, as a sentence.
    pub fn new(name: &str) -> Result<Self, &'static str> {
        Err(if name.is_empty() {
            "not a plain file name: it is empty"
        } else if name.len() > MAX_NAME_BYTES {
            "not a plain file name: it has more than 255 bytes"
        } else if name == "." || name == ".." {
            "not a plain file name: it is a directory"
        } else if name.contains('/') {
            "not a plain file name: it has a slash"
        } else if name.chars().any(char::is_control) {
            "not a plain file name: it has a control character"
        } else {
            return Ok(Self(name.to_owned()));
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

/// Everything that can be read of a document, good or bad.
#[derive(Debug, Default)]
pub struct Reading {
    /// The string `version`, unchecked; `None` where there is none.
    pub version: Option<String>,
    /// The string `algorithm`, unchecked; `None` where there is none.
    pub algorithm: Option<String>,
    /// The names of the strings in `[data]`, unchecked, and their lengths in bytes.
    pub lengths: BTreeMap<String, usize>,
    /// The document, if the guest takes it.
    pub document: Option<Document>,
    /// Everything that is wrong with it, in the order in which the guest meets it.
    pub faults: Vec<Refusal>,
}

/// Why the guest refuses a document: a broken rule, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The line, counted from 1; `None` for the document as a whole.
    pub line: Option<usize>,
    /// The dotted key, safe to show; empty where no key is concerned.
    pub key: String,
    /// The rule. Texts of the document are cut and safe to show in it.
    pub rule: String,
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.rule)
    }
}

impl std::error::Error for Refusal {}

/// The work of one reading. A function that answers `None` has noted a fault.
impl Reading {
    /// Reads `bytes`, within the same limits as [`Document::parse`].
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut reading = Self::default();
        reading.document = reading.read(bytes);
        reading
    }

    fn read(&mut self, bytes: &[u8]) -> Option<Document> {
        // The lexer needs constant memory, the parser keeps every token. Bytes that are not text
        // have no token; the parser refuses them.
        let text = str::from_utf8(bytes).unwrap_or_default();
        if let Some(token) = Source::new(text).lex().nth(MAX_TOKENS) {
            let line = line_of(bytes, token.span().start());
            let rule = format!("expected at most {MAX_TOKENS} names, values, brackets and lines");
            return self.refuse(Some(line), "", rule);
        }
        let tree = match Tree::parse(bytes) {
            Ok(tree) => tree,
            Err(error) => {
                return self.refuse(Some(error.line), "", format!("not TOML: {}", error.message));
            }
        };
        let mut table = tree.table();
        let version = self.version(&mut table);
        let algorithm = self.algorithm(&mut table);
        let data = self.data(&mut table);
        version?;
        let unknown_keys = table.rest().take(MAX_UNKNOWN_KEYS).map(|field| field.path).collect();
        Some(Document { algorithm: algorithm?, data: data?, unknown_keys })
    }

    fn version(&mut self, table: &mut Table<'_, '_>) -> Option<()> {
        let field = self.take(table, "version")?;
        let found = self.typed(&field, field.text())?;
        self.version = Some(found.to_owned());
        match found {
            VERSION => Some(()),
            _ => self.refuse_value(&field, format_args!("\"{VERSION}\""), found),
        }
    }

    fn algorithm(&mut self, table: &mut Table<'_, '_>) -> Option<Algorithm> {
        let field = self.take(table, "algorithm")?;
        let found = self.typed(&field, field.text())?;
        self.algorithm = Some(found.to_owned());
        Algorithm::named(found)
            .or_else(|| self.refuse_value(&field, "sha256, sha384 or sha512", found))
    }

    fn data(&mut self, table: &mut Table<'_, '_>) -> Option<BTreeMap<FileName, String>> {
        let field = self.take(table, "data")?;
        let entries = self.typed(&field, field.table())?;
        let count = entries.len();
        if count > MAX_ENTRIES {
            let rule = format!("{count} entries, at most {MAX_ENTRIES} are accepted");
            return self.refuse_field(&field, rule);
        }
        let mut files = BTreeMap::new();
        let mut composed = BTreeSet::new();
        for field in entries.rest() {
            let file = match FileName::new(field.key) {
                Err(rule) => self.refuse_field(&field, rule),
                // The parser has refused equal keys, escapes resolved. What is left are names that
                // only look equal: those whose composed form is there already.
                Ok(_) if !composed.insert(field.key.nfc().collect::<String>()) => {
                    self.refuse_field(&field, "there twice, in two Unicode spellings")
                }
                Ok(file) => Some(file),
            };
            // `policy.rego = ` without quotes is a table `policy` in TOML, the commonest mistake.
            let content = match field.is_table() {
                true => Err(field.wrong_type("string (a name with a dot needs quotes)")),
                false => field.text(),
            };
            if let Some(content) = self.typed(&field, content) {
                self.lengths.insert(field.key.to_owned(), content.len());
                files.extend(file.map(|file| (file, content.to_owned())));
            }
        }
        (files.len() == count).then_some(files)
    }

    fn take<'t, 'i>(&mut self, table: &mut Table<'t, 'i>, key: &str) -> Option<Field<'t, 'i>> {
        table.take(key).or_else(|| self.refuse(None, key, "the key is missing"))
    }

    fn typed<T>(&mut self, field: &Field<'_, '_>, value: Result<T, WrongType>) -> Option<T> {
        value.map_err(|error| self.refuse_field::<T>(field, error)).ok()
    }

    fn refuse_value<T>(
        &mut self,
        field: &Field<'_, '_>,
        expected: impl Display,
        found: &str,
    ) -> Option<T> {
        let found = shown(found).up_to(64);
        self.refuse_field(field, format_args!("expected {expected}, found \"{found}\""))
    }

    fn refuse_field<T>(&mut self, field: &Field<'_, '_>, rule: impl Display) -> Option<T> {
        self.refuse(Some(field.line), &field.path, rule)
    }

    fn refuse<T>(&mut self, line: Option<usize>, key: &str, rule: impl Display) -> Option<T> {
        let key = shown(key).up_to(MAX_KEY_CHARS).to_string();
        self.faults.push(Refusal { line, key, rule: rule.to_string() });
        None
    }
}

#[cfg(test)]
mod tests;
