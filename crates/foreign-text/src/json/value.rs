//! A value that was read.

use std::fmt;
use std::ops::Deref;

use zeroize::Zeroizing;

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
pub struct Object<'a>(pub(super) Vec<(Text<'a>, Value<'a>)>);

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
