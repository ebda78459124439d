//! JSON that no two readers read differently.
//!
//! What is accepted is what RFC 8259 allows: one value, valid UTF-8, no byte before or after it but
//! white space. Readers still differ in members of one name, and there are three rules for those:
//!
//! - [`Duplicates::Refused`] refuses them anywhere in the text.
//! - [`Object::only`] refuses them where a member is looked for, and also a name that differs from
//!   it in case only, which parsers such as Go's take for the same.
//! - [`Object::last`] takes the last of them, as most parsers do.
//!
//! Texts with escapes are zeroed when they are dropped, all others are borrowed; `Debug` shows
//! neither texts nor numbers.

mod reader;

use std::fmt;
use std::ops::Deref;

use zeroize::Zeroizing;

use crate::position::Position;

pub use reader::read;

/// The most levels of brackets that any caller may allow: as many as `serde_json` reads.
pub const MAX_DEPTH: usize = 127;

/// What bounds the work and the memory; a value takes some 60 bytes beside its text.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of the text.
    pub bytes: usize,
    /// The most values of all kinds, counting objects, arrays and what is in them.
    pub values: usize,
    /// The most levels of brackets, at most [`MAX_DEPTH`].
    pub depth: usize,
}

impl Limits {
    /// So many bytes, and as many values and levels as fit into them.
    #[must_use]
    pub const fn of_bytes(bytes: usize) -> Self {
        Self { bytes, values: bytes, depth: MAX_DEPTH }
    }
}

/// What to do about two members of one object that have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// The text is refused.
    Refused,
    /// Both are kept, for [`Object::only`] and [`Object::last`].
    Kept,
}

/// Reads a text that holds one object.
///
/// # Errors
///
/// [`JsonError`], also for another value.
pub fn read_object(
    text: &[u8],
    limits: Limits,
    duplicates: Duplicates,
) -> Result<Object<'_>, JsonError> {
    let Value { offset, kind } = read(text, limits, duplicates)?;
    match kind {
        Kind::Object(object) => Ok(object),
        _ => Err(JsonRule::NotObject.at(text, offset)),
    }
}

/// A broken rule, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule} (line {line}, column {column})")]
pub struct JsonError {
    /// The rule.
    pub rule: JsonRule,
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
}

/// What JSON, or the caller, asks of a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonRule {
    /// Not JSON, in this project's own words.
    #[error("{0}")]
    Syntax(&'static str),
    /// Another value where the caller needs an object.
    #[error("it is not an object")]
    NotObject,
    /// More bytes than the caller reads.
    #[error("it has {found} bytes, more than {limit}")]
    TooLong {
        /// The most that is read.
        limit: usize,
        /// How many there are.
        found: usize,
    },
    /// More values than the caller reads.
    #[error("it has more than {0} values")]
    TooManyValues(usize),
    /// More levels than the caller reads.
    #[error("it has more than {0} levels of brackets")]
    TooDeep(usize),
    /// Two members of one name; the name, quoted and safe to show.
    #[error("the member {0} is there twice")]
    Twice(String),
}

impl JsonRule {
    fn at(self, text: &[u8], offset: usize) -> JsonError {
        let Position { line, column } = Position::of(text, offset);
        JsonError { rule: self, line, column }
    }
}

/// A value and where it begins.
#[derive(Debug)]
pub struct Value<'a> {
    /// Of its first byte in the text; [`crate::position::Position::of`] makes a line of it.
    pub offset: usize,
    /// What it is.
    pub kind: Kind<'a>,
}

/// What a value is.
#[derive(Debug)]
pub enum Kind<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it is written; it is less than 1e308 in amount.
    Number(Text<'a>),
    /// A text.
    Text(Text<'a>),
    /// An array.
    Array(Vec<Value<'a>>),
    /// An object.
    Object(Object<'a>),
}

impl<'a> Value<'a> {
    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The members, if it is an object.
    #[must_use]
    pub fn object(&self) -> Option<&Object<'a>> {
        match &self.kind {
            Kind::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The values, if it is an array.
    #[must_use]
    pub fn array(&self) -> Option<&[Value<'a>]> {
        match &self.kind {
            Kind::Array(values) => Some(values),
            _ => None,
        }
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }
}

/// The characters of a text.
pub enum Text<'a> {
    /// As they are written.
    Borrowed(&'a str),
    /// With the escapes resolved.
    Unescaped(Zeroizing<String>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Unescaped(text) => text,
        }
    }
}

/// The members of an object, in the order of the text.
#[derive(Debug, Default)]
pub struct Object<'a>(Vec<(Text<'a>, Value<'a>)>);

/// Two programs could take different members for the one that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ambiguous {
    /// There are two, of this name or of names that differ in case only.
    Twice,
    /// There is one, and its name differs in case.
    Case,
}

impl<'a> Object<'a> {
    /// Names and values in the order of the text.
    pub fn members(&self) -> impl DoubleEndedIterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the last member of this name out.
    pub fn take(&mut self, name: &str) -> Option<Value<'a>> {
        let index = self.0.iter().rposition(|(found, _)| **found == *name)?;
        Some(self.0.remove(index).1)
    }

    /// The last member of this name.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<&Value<'a>> {
        let mut named = self.members().rev().filter(|(found, _)| *found == name);
        named.next().map(|(_, value)| value)
    }

    /// The member of this name, if every program takes the same for it.
    ///
    /// # Errors
    ///
    /// [`Ambiguous`].
    pub fn only(&self, name: &str) -> Result<Option<&Value<'a>>, Ambiguous> {
        let alike = |(found, _): &(&str, _)| is_same_but_for_case(found, name);
        let mut alike = self.members().filter(alike);
        match (alike.next(), alike.next()) {
            (None, _) => Ok(None),
            (Some(_), Some(_)) => Err(Ambiguous::Twice),
            (Some((found, _)), None) if found != name => Err(Ambiguous::Case),
            (Some((_, value)), None) => Ok(Some(value)),
        }
    }
}

/// Whether Go takes two names for the same: it minds the case neither of ASCII's letters nor of the
/// two others whose lower or upper case is one of them.
#[must_use]
pub fn is_same_but_for_case(one: &str, other: &str) -> bool {
    let fold = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    };
    one.chars().map(fold).eq(other.chars().map(fold))
}

/// No character: it may be a secret's.
impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Text")
    }
}
