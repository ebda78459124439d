//! Objects that no two readers read differently.
//!
//! Other programs read the same bytes, most of them in Go, whose parser takes the last of two
//! members of one name and ignores the case of names. What means something here is there once, in
//! one spelling; anything else may be there and is ignored. Errors consist of this project's own
//! words: the text may hold a key.

use base64::engine::general_purpose::STANDARD;
pub(crate) use foreign_text::json::Object;
use foreign_text::json::{self, Ambiguous, Duplicates, JsonRule, Limits, Value};
use zeroize::Zeroizing;

use crate::json::decode;

/// Why a text is not the object that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidJson {
    /// No JSON, or no object.
    #[error("there is no JSON object")]
    Object,
    /// More bytes than anything real has.
    #[error("there are {found} bytes, more than the limit of {limit}")]
    TooLong {
        /// The most that is read.
        limit: usize,
        /// How many there are.
        found: usize,
    },
    /// A member has to be there.
    #[error("the member {0:?} is missing")]
    Missing(&'static str),
    /// Two members of one name, or of names that differ in case only.
    #[error("the member {0:?} is there twice, and programs differ in which of them they take")]
    Twice(&'static str),
    /// A name that some programs take for another.
    #[error("a member differs from {0:?} in case only, and some programs read it as that")]
    Case(&'static str),
    /// Text is needed.
    #[error("the member {0:?} is no text")]
    Text(&'static str),
    /// An object is needed.
    #[error("the member {0:?} is no object")]
    Members(&'static str),
    /// Base64 is needed, in the standard alphabet and padded (RFC 4648, section 4).
    #[error("the member {0:?} is not padded standard base64")]
    Base64(&'static str),
    /// A number of bytes is given by the cipher.
    #[error("the member {member:?} has {found} bytes instead of {expected}")]
    Length {
        /// The member.
        member: &'static str,
        /// What the cipher needs.
        expected: usize,
        /// What there is.
        found: usize,
    },
}

/// Reads a text of a limited size, which must hold an object.
///
/// # Errors
///
/// [`InvalidJson::Object`] and [`InvalidJson::TooLong`].
pub(crate) fn object(text: &[u8], limit: usize) -> Result<Object<'_>, InvalidJson> {
    let object = json::read_object(text, Limits::of_bytes(limit), Duplicates::Kept);
    object.map_err(|error| match error.rule {
        JsonRule::TooLong { limit, found } => InvalidJson::TooLong { limit, found },
        _ => InvalidJson::Object,
    })
}

/// A text, if there is one; `null` counts as absent.
pub(crate) fn text<'o>(
    object: &'o Object<'_>,
    name: &'static str,
) -> Result<Option<&'o str>, InvalidJson> {
    let text = |value: &'o Value<'_>| value.text().ok_or(InvalidJson::Text(name));
    member(object, name)?.map(text).transpose()
}

/// A text that has to be there.
pub(crate) fn required<'o>(
    object: &'o Object<'_>,
    name: &'static str,
) -> Result<&'o str, InvalidJson> {
    text(object, name)?.ok_or(InvalidJson::Missing(name))
}

/// An object within another, if there is one.
pub(crate) fn inner<'o, 'a>(
    object: &'o Object<'a>,
    name: &'static str,
) -> Result<Option<&'o Object<'a>>, InvalidJson> {
    let inner = |value: &'o Value<'a>| value.object().ok_or(InvalidJson::Members(name));
    member(object, name)?.map(inner).transpose()
}

/// Bytes that have to be there.
pub(crate) fn bytes(
    object: &Object<'_>,
    name: &'static str,
) -> Result<Zeroizing<Vec<u8>>, InvalidJson> {
    decode(&STANDARD, required(object, name)?).ok_or(InvalidJson::Base64(name))
}

/// A known number of bytes that have to be there.
pub(crate) fn array<const N: usize>(
    object: &Object<'_>,
    name: &'static str,
) -> Result<Zeroizing<[u8; N]>, InvalidJson> {
    let bytes = bytes(object, name)?;
    let array = <&[u8; N]>::try_from(&bytes[..]);
    let array =
        array.map_err(|_| InvalidJson::Length { member: name, expected: N, found: bytes.len() })?;
    Ok(Zeroizing::new(*array))
}

fn member<'o, 'a>(
    object: &'o Object<'a>,
    name: &'static str,
) -> Result<Option<&'o Value<'a>>, InvalidJson> {
    match object.only(name) {
        Ok(value) => Ok(value.filter(|value| !value.is_null())),
        Err(Ambiguous::Twice) => Err(InvalidJson::Twice(name)),
        Err(Ambiguous::Case) => Err(InvalidJson::Case(name)),
    }
}

#[cfg(test)]
mod tests;
