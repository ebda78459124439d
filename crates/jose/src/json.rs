//! JSON read so that every reader reads the same: of two members with one name, readers take the
//! first, the last or neither.

use std::collections::BTreeMap;
use std::fmt;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{Engine, decoded_len_estimate};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use zeroize::Zeroizing;

/// How many values a text may have: 32 recipients have some hundred. What an object takes in memory
/// is a hundred times its text.
const MAX_VALUES: usize = 4096;

/// The members of an object, by name.
pub(crate) type Object = BTreeMap<String, Json>;

/// A value; texts may be parts of a private key. What nothing here reads (numbers, `null`) is kept
/// as the fact that it is there.
pub(crate) enum Json {
    Object(Object),
    Array(Vec<Json>),
    Text(Zeroizing<String>),
    Other,
}

impl Json {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Reads an object. The caller bounds the text.
///
/// # Errors
///
/// Words that fit after "it" or "its header", never with a part of the text.
pub(crate) fn object(text: &[u8]) -> Result<Object, &'static str> {
    let mut state = State {
        values: 0,
        broken: "is not JSON",
    };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Read(&mut state).deserialize(&mut deserializer);
    match value.and_then(|value| deserializer.end().map(|()| value)) {
        Ok(Json::Object(members)) => Ok(members),
        Ok(_) => Err("is not a JSON object"),
        Err(_) => Err(state.broken),
    }
}

/// Decodes base64url as RFC 7515 section 2 has it: without padding, without white space, and with
/// no bit left over.
pub(crate) fn base64url(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    // Into memory of our own: what is decoded before an error is part of a key, too.
    let mut bytes = Zeroizing::new(vec![0; decoded_len_estimate(text.len())]);
    let written = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
    bytes.truncate(written);
    Some(bytes)
}

struct State {
    values: usize,
    /// Which rule an error is about.
    broken: &'static str,
}

impl State {
    fn refuse<E: de::Error>(&mut self, rule: &'static str) -> E {
        self.broken = rule;
        E::custom(rule)
    }
}

/// Reads a value.
struct Read<'a>(&'a mut State);

impl<'de> DeserializeSeed<'de> for Read<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        self.0.values += 1;
        if self.0.values > MAX_VALUES {
            return Err(self.0.refuse("has too many JSON values"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Read<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut members = Object::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.contains_key(&name) {
                return Err(self.0.refuse("has a JSON member twice"));
            }
            let value = map.next_value_seed(Read(self.0))?;
            members.insert(name, value);
        }
        Ok(Json::Object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element_seed(Read(self.0))? {
            values.push(value);
        }
        Ok(Json::Array(values))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(Zeroizing::new(text.to_owned())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Other)
    }
}

/// Never the texts: they may be a key's.
impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_readers_read_differently_is_refused() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for (text, want) in [
            (r#"{"a":1,"a":1}"#, "has a JSON member twice"),
            (r#"{"a":1,"\u0061":1}"#, "has a JSON member twice"),
            (
                r#"{"x":[{"y":{"a":"","b":1,"a":""}}]}"#,
                "has a JSON member twice",
            ),
            ("[]", "is not a JSON object"),
            ("\"{}\"", "is not a JSON object"),
            ("null", "is not a JSON object"),
            ("{} {}", "is not JSON"),
            ("{},", "is not JSON"),
            ("", "is not JSON"),
            ("\u{feff}{}", "is not JSON"),
            (r#"{"a":"\ud800"}"#, "is not JSON"),
            (deep.as_str(), "is not JSON"),
        ] {
            assert_eq!(object(text.as_bytes()).unwrap_err(), want, "{text}");
        }
        let many = format!("{{\"a\":[{}0]}}", "0,".repeat(MAX_VALUES));
        assert_eq!(
            object(many.as_bytes()).unwrap_err(),
            "has too many JSON values"
        );
        assert_eq!(object(b"{\"a\":\"\xff\"}").unwrap_err(), "is not JSON");
    }

    #[test]
    fn an_object_is_its_members() {
        let read = object(br#" {"a":"x","b":[1,-1,1.5,true,null],"c":{"a":"y"}} "#).unwrap();
        assert_eq!(read["a"].text(), Some("x"));
        assert_eq!(read["b"].text(), None);
        assert!(matches!(&read["b"], Json::Array(values) if values.len() == 5));
        assert!(matches!(&read["c"], Json::Object(inner) if inner["a"].text() == Some("y")));
        assert_eq!(format!("{:?}", read["a"]), "Json");
    }

    #[test]
    fn base64url_has_one_spelling() {
        assert_eq!(base64url("_-8").unwrap().as_slice(), [0xff, 0xef]);
        assert!(base64url("").unwrap().is_empty());
        for text in ["_-8=", "_-9", "/+8", "_-8 ", "_", " ", "_-8\n"] {
            assert!(base64url(text).is_none(), "{text:?}");
        }
    }
}
