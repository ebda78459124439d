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

mod error;
mod reader;
mod text;
mod value;

pub use error::{JsonError, JsonRule};
pub use value::{Ambiguous, Kind, Object, Text, Value, is_same_but_for_case};

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

/// Reads a text that holds one value.
///
/// # Errors
///
/// [`JsonError`], with the place.
pub fn read(text: &[u8], limits: Limits, duplicates: Duplicates) -> Result<Value<'_>, JsonError> {
    reader::read(text, limits, duplicates)
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
