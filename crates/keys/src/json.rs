//! The JSON and the base64url that messages and keys are written in.

use base64::engine::general_purpose::{GeneralPurpose, URL_SAFE_NO_PAD};
use base64::{Engine, decoded_len_estimate};
use foreign_text::json::{self, Duplicates, JsonRule, Limits};
pub(crate) use foreign_text::json::{Kind, Object, Text, Value};
use zeroize::Zeroizing;

/// How many values a text may have. A message for 32 recipients has some hundred.
const MAX_VALUES: usize = 4096;

/// Reads an object that has no member twice. The caller bounds the text.
///
/// # Errors
///
/// Words that fit after "it" or "its header", never with a part of the text.
pub(crate) fn object(text: &[u8]) -> Result<Object<'_>, &'static str> {
    let limits = Limits { values: MAX_VALUES, ..Limits::of_bytes(text.len()) };
    json::read_object(text, limits, Duplicates::Refused).map_err(|error| match error.rule {
        JsonRule::NotObject => "is not a JSON object",
        JsonRule::Twice(_) => "has a JSON member twice",
        JsonRule::TooManyValues(_) => "has too many JSON values",
        _ => "is not JSON",
    })
}

/// Decodes base64url as RFC 7515 section 2 has it: without padding, without white space, and with
/// no bit left over.
pub(crate) fn base64url(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    decode(&URL_SAFE_NO_PAD, text)
}

/// Decodes into memory of our own: what is decoded before an error is part of a key, too.
pub(crate) fn decode(alphabet: &GeneralPurpose, text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; decoded_len_estimate(text.len())]);
    let written = alphabet.decode_slice(text, &mut bytes).ok()?;
    bytes.truncate(written);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_readers_read_differently_is_refused() {
        let many = format!("{{\"a\":[{}0]}}", "0,".repeat(MAX_VALUES));
        for (text, want) in [
            (r#"{"a":1,"a":1}"#, "has a JSON member twice"),
            (r#"{"x":[{"a":"","b":1,"a":""}]}"#, "has a JSON member twice"),
            ("[]", "is not a JSON object"),
            ("\"{}\"", "is not a JSON object"),
            ("null", "is not a JSON object"),
            ("{} {}", "is not JSON"),
            ("", "is not JSON"),
            (many.as_str(), "has too many JSON values"),
        ] {
            assert_eq!(object(text.as_bytes()).unwrap_err(), want, "{text}");
        }
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
