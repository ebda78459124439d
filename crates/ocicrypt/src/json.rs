//! Objects that no two readers read differently.
//!
//! Other programs read the same bytes, most of them in Go, whose parser takes the last of two
//! members of one name and does not mind the case of names. What means something here is there
//! once, in one spelling; anything else may be there and is ignored. Errors consist of this
//! project's own words: the text may hold a key.

use std::fmt;

use base64::engine::general_purpose::STANDARD;
use base64::{Engine as _, decoded_len_estimate};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use zeroize::Zeroizing;

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

/// The members of an object. What they hold is in the text that was read, or else zeroed with this.
#[derive(Default)]
pub(crate) struct Object<'a>(Vec<(Text<'a>, Value<'a>)>);

/// As much of a value as is ever needed.
enum Value<'a> {
    Text(Text<'a>),
    Object(Object<'a>),
    Null,
    Other,
}

enum Text<'a> {
    Borrowed(&'a str),
    /// Had escapes in it.
    Unescaped(Zeroizing<String>),
}

impl<'a> Object<'a> {
    /// Reads a text of a limited size.
    ///
    /// # Errors
    ///
    /// [`InvalidJson::Object`] and [`InvalidJson::TooLong`].
    pub(crate) fn parse(text: &'a [u8], limit: usize) -> Result<Self, InvalidJson> {
        if text.len() > limit {
            let found = text.len();
            return Err(InvalidJson::TooLong { limit, found });
        }
        // The library's own words would quote the text.
        match serde_json::from_slice(text) {
            Ok(Value::Object(object)) => Ok(object),
            _ => Err(InvalidJson::Object),
        }
    }

    /// Whether there is no member at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text, if there is one; `null` is as good as nothing.
    pub(crate) fn text(&self, name: &'static str) -> Result<Option<&str>, InvalidJson> {
        match self.member(name)? {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(InvalidJson::Text(name)),
        }
    }

    /// A text that has to be there.
    pub(crate) fn required(&self, name: &'static str) -> Result<&str, InvalidJson> {
        self.text(name)?.ok_or(InvalidJson::Missing(name))
    }

    /// An object, if there is one.
    pub(crate) fn object(&self, name: &'static str) -> Result<Option<&Object<'a>>, InvalidJson> {
        match self.member(name)? {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(InvalidJson::Members(name)),
        }
    }

    /// Bytes that have to be there.
    pub(crate) fn bytes(&self, name: &'static str) -> Result<Zeroizing<Vec<u8>>, InvalidJson> {
        let text = self.required(name)?;
        // Into memory of our own: what is decoded before an error is part of a key, too.
        let mut bytes = Zeroizing::new(vec![0; decoded_len_estimate(text.len())]);
        match STANDARD.decode_slice(text, &mut bytes) {
            Ok(written) => {
                bytes.truncate(written);
                Ok(bytes)
            }
            Err(_) => Err(InvalidJson::Base64(name)),
        }
    }

    /// A known number of bytes that have to be there.
    pub(crate) fn array<const N: usize>(
        &self,
        name: &'static str,
    ) -> Result<Zeroizing<[u8; N]>, InvalidJson> {
        let bytes = self.bytes(name)?;
        match <&[u8; N]>::try_from(&bytes[..]) {
            Ok(array) => Ok(Zeroizing::new(*array)),
            Err(_) => Err(InvalidJson::Length {
                member: name,
                expected: N,
                found: bytes.len(),
            }),
        }
    }

    fn member(&self, name: &'static str) -> Result<Option<&Value<'a>>, InvalidJson> {
        let folded = fold(name);
        let mut alike = self
            .0
            .iter()
            .filter(|(found, _)| *fold(found.as_str()) == *folded);
        match (alike.next(), alike.next()) {
            (None, _) => Ok(None),
            (Some(_), Some(_)) => Err(InvalidJson::Twice(name)),
            (Some((found, _)), None) if found.as_str() != name => Err(InvalidJson::Case(name)),
            (Some((_, Value::Null)), None) => Ok(None),
            (Some((_, value)), None) => Ok(Some(value)),
        }
    }
}

impl Text<'_> {
    fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Unescaped(text) => text,
        }
    }
}

/// The letters that Go takes for the same: ASCII in either case, and the two others whose lower or
/// upper case is an ASCII letter.
fn fold(name: &str) -> Zeroizing<String> {
    let fold = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    };
    Zeroizing::new(name.chars().map(fold).collect())
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextReader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Value::Object(Object(members)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value<'de>, A::Error> {
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Text::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Text::unescaped(text)))
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }
}

struct TextReader;

impl<'de> Visitor<'de> for TextReader {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text::unescaped(text))
    }
}

impl Text<'_> {
    fn unescaped(text: &str) -> Self {
        Self::Unescaped(Zeroizing::new(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
