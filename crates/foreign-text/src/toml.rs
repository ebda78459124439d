//! A TOML file, taken key by key: known keys are taken out, what is left is unknown.
//!
//! Every key and every value that has a wrong type comes with its line. What to do about those is
//! up to the caller.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};
use zeroize::{Zeroize, Zeroizing};

use crate::position::{Lines, line_of};
use crate::shown;

/// The parsed text, whose strings are zeroed when it is dropped.
///
/// Most strings are borrowed from the text, which is the caller's to zero; those with escape
/// sequences are copies.
pub struct Tree<'i> {
    root: DeTable<'i>,
    lines: Lines,
}

/// Why a text is not TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotToml {
    /// The line, from 1.
    pub line: usize,
    /// The bytes of the text that are meant, where the parser says so.
    pub span: Option<Range<usize>>,
    /// The parser's words, which do not quote the text.
    pub message: String,
}

impl<'i> Tree<'i> {
    /// Parses a text. The caller bounds it, because the parser takes about a kilobyte of memory for
    /// two bytes.
    ///
    /// # Errors
    ///
    /// [`NotToml`].
    pub fn parse(text: &'i [u8]) -> Result<Self, NotToml> {
        let not_toml = |span: Option<Range<usize>>, message: &str| NotToml {
            line: line_of(text, span.as_ref().map_or(0, |span| span.start)),
            span,
            message: message.to_owned(),
        };
        let written = str::from_utf8(text).map_err(|error| {
            let start = error.valid_up_to();
            not_toml(Some(start..start), "it is not UTF-8")
        })?;
        // The error's `Display` would quote the line.
        let root =
            DeTable::parse(written).map_err(|error| not_toml(error.span(), error.message()))?;
        Ok(Self { root: root.into_inner(), lines: Lines::of(text) })
    }

    /// The table of the whole file; its path is empty.
    #[must_use]
    pub fn table(&self) -> Table<'_, 'i> {
        Table::of(&self.root, &self.lines, 0, String::new())
    }
}

impl Drop for Tree<'_> {
    fn drop(&mut self) {
        wipe(&mut self.root);
    }
}

/// Zeroes the strings that the parser had to copy. It bounds the nesting, and so this recursion.
fn wipe(table: &mut DeTable<'_>) {
    for (_, value) in table.iter_mut() {
        wipe_value(value.get_mut());
    }
}

fn wipe_value(value: &mut DeValue<'_>) {
    match value {
        DeValue::String(Cow::Owned(text)) => text.zeroize(),
        DeValue::Array(items) => items.iter_mut().for_each(|item| wipe_value(item.get_mut())),
        DeValue::Table(table) => wipe(table),
        // Texts of the other types cannot be reached.
        _ => {}
    }
}

/// A table that is being read.
pub struct Table<'t, 'i> {
    /// The line of its key, or of the item that it is; 0 for the file itself.
    pub line: usize,
    /// The dotted path of its key, safe to show; empty for the file itself.
    pub path: String,
    lines: &'t Lines,
    /// Key, its offset, value, in the order of the text; what is taken is gone.
    fields: Vec<(&'t str, usize, &'t DeValue<'i>)>,
}

impl<'t, 'i> Table<'t, 'i> {
    fn of(table: &'t DeTable<'i>, lines: &'t Lines, line: usize, path: String) -> Self {
        let field = |(key, value): (&'t toml::Spanned<Cow<'i, str>>, _)| {
            (&**key.get_ref(), key.span().start, toml::Spanned::get_ref(value))
        };
        let mut fields: Vec<_> = table.iter().map(field).collect();
        fields.sort_by_key(|(_, offset, _)| *offset);
        Self { line, path, lines, fields }
    }

    /// The number of keys that are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether no key is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Takes a key, if it is there.
    pub fn take(&mut self, key: &str) -> Option<Field<'t, 'i>> {
        let index = self.fields.iter().position(|(name, ..)| *name == key)?;
        let (key, offset, value) = self.fields.remove(index);
        Some(field(&self.path, self.lines, key, offset, value))
    }

    /// The keys that are left, in the order of the text.
    pub fn rest(mut self) -> impl Iterator<Item = Field<'t, 'i>> {
        self.drain()
    }

    /// Takes the keys that are left, in the order of the text.
    pub fn drain(&mut self) -> impl Iterator<Item = Field<'t, 'i>> + use<'t, 'i> {
        let (path, lines) = (self.path.clone(), self.lines);
        let fields = std::mem::take(&mut self.fields).into_iter();
        fields.map(move |(key, offset, value)| field(&path, lines, key, offset, value))
    }
}

fn field<'t, 'i>(
    path: &str,
    lines: &'t Lines,
    key: &'t str,
    offset: usize,
    value: &'t DeValue<'i>,
) -> Field<'t, 'i> {
    Field { key, line: lines.at(offset), path: join(path, key), lines, value }
}

/// A value that was taken, with the place of its key.
#[derive(Clone)]
pub struct Field<'t, 'i> {
    /// The key as it is in the file; for an item of an array, the array's.
    pub key: &'t str,
    /// The line, from 1.
    pub line: usize,
    /// The dotted path, safe to show, with `, item 2` behind it for an item of an array.
    pub path: String,
    lines: &'t Lines,
    value: &'t DeValue<'i>,
}

/// A value has another type than the caller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct WrongType {
    /// What is needed.
    pub expected: &'static str,
    /// What it is.
    pub found: &'static str,
}

impl<'t, 'i> Field<'t, 'i> {
    /// What the value is, to say that something else is expected.
    #[must_use]
    pub fn wrong_type(&self, expected: &'static str) -> WrongType {
        let found = self.value.type_str();
        WrongType { expected, found }
    }

    /// Whether it is a table.
    #[must_use]
    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// The string that it is.
    ///
    /// # Errors
    ///
    /// [`WrongType`], as for all that follow.
    pub fn text(&self) -> Result<&'t str, WrongType> {
        self.value.as_str().ok_or(self.wrong_type("string"))
    }

    /// A copy of the string that it is.
    ///
    /// # Errors
    ///
    /// [`WrongType`].
    pub fn secret(&self) -> Result<Zeroizing<String>, WrongType> {
        Ok(Zeroizing::new(self.text()?.to_owned()))
    }

    /// The boolean that it is.
    ///
    /// # Errors
    ///
    /// [`WrongType`].
    pub fn flag(&self) -> Result<bool, WrongType> {
        self.value.as_bool().ok_or(self.wrong_type("boolean"))
    }

    /// The integer of at most 64 bits that it is.
    ///
    /// # Errors
    ///
    /// [`WrongType`].
    pub fn integer(&self) -> Result<i64, WrongType> {
        let written = self.value.as_integer();
        let value = written.and_then(|it| i64::from_str_radix(it.as_str(), it.radix()).ok());
        value.ok_or(self.wrong_type("integer"))
    }

    /// The table that it is.
    ///
    /// # Errors
    ///
    /// [`WrongType`].
    pub fn table(&self) -> Result<Table<'t, 'i>, WrongType> {
        match self.value {
            DeValue::Table(table) => Ok(Table::of(table, self.lines, self.line, self.path.clone())),
            _ => Err(self.wrong_type("table")),
        }
    }

    /// The items of the array that it is, each with a line of its own.
    ///
    /// # Errors
    ///
    /// [`WrongType`].
    pub fn items(&self) -> Result<Vec<Self>, WrongType> {
        let items = self.value.as_array().ok_or(self.wrong_type("array"))?;
        let item = |(index, item): (usize, &'t toml::Spanned<DeValue<'i>>)| Self {
            key: self.key,
            line: self.lines.at(item.span().start),
            path: format!("{}, item {}", self.path, index + 1),
            lines: self.lines,
            value: item.get_ref(),
        };
        Ok(items.iter().enumerate().map(item).collect())
    }
}

/// Appends a key to a dotted path: bare where TOML allows it, quoted and escaped where not, and
/// without the password of `user:password@host`.
#[must_use]
pub fn join(path: &str, key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let shown_key = if !key.is_empty() && key.bytes().all(is_bare) {
        shown(key)
    } else {
        shown(key).without_user().quoted()
    };
    let dot = if path.is_empty() { "" } else { "." };
    format!("{path}{dot}{shown_key}")
}

impl fmt::Debug for Tree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tree")
    }
}

impl fmt::Debug for Table<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.path)
    }
}

impl fmt::Debug for Field<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({})", self.path)
    }
}

#[cfg(test)]
mod tests;
