//! What a token server answers: the field names of its two dialects, and how long the token is
//! good.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use zeroize::Zeroize as _;

/// How long a token is good whose server does not say (distribution specification, "Token
/// Authentication").
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60);

/// How long a token is used at most, whatever its server says.
const MAX_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// How long before its end a token is not used any more.
const MARGIN: Duration = Duration::from_secs(10);

/// An answer. Borrowed where that is possible, zeroed where it is not, so that no copy of a token
/// is left behind.
#[derive(Default)]
pub(super) struct TokenAnswer<'a> {
    token: Text<'a>,
    access_token: Text<'a>,
    expires_in: Option<u64>,
    issued_at: Option<OffsetDateTime>,
}

impl TokenAnswer<'_> {
    /// The token, under either name.
    pub(super) fn token(&self) -> Option<&str> {
        [&self.token, &self.access_token]
            .into_iter()
            .map(|text| text.0.as_ref())
            .find(|text| !text.is_empty())
    }

    /// When it is time for another token. `now` is the time for the server, because a guest's clock
    /// is the host's to set.
    pub(super) fn renew_after(&self, now: Option<SystemTime>) -> Duration {
        let lifetime = match self.expires_in {
            None | Some(0) => DEFAULT_LIFETIME,
            Some(seconds) => Duration::from_secs(seconds),
        };
        // A token out of the server's own cache has a part of its life behind it.
        let age = match (self.issued_at, now) {
            (Some(issued), Some(now)) => {
                now.duration_since(SystemTime::from(issued)).unwrap_or_default()
            }
            _ => Duration::ZERO,
        };
        let left = lifetime.min(MAX_LIFETIME).saturating_sub(age);
        left.saturating_sub(MARGIN.min(left / 4))
    }
}

/// A text that may be a secret.
#[derive(Default)]
struct Text<'a>(Cow<'a, str>);

impl Drop for Text<'_> {
    fn drop(&mut self) {
        if let Cow::Owned(text) = &mut self.0 {
            text.zeroize();
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowing;
        impl<'de> Visitor<'de> for Borrowing {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(Borrowing)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TokenAnswer<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = TokenAnswer<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the answer of a token server")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut answer = TokenAnswer::default();
                while let Some(name) = map.next_key::<Cow<'_, str>>()? {
                    match name.as_ref() {
                        "token" => answer.token = map.next_value()?,
                        "access_token" => answer.access_token = map.next_value()?,
                        // How long it is good is a hint, so nonsense there is no reason to go
                        // without.
                        "expires_in" => answer.expires_in = number(&map.next_value()?),
                        "issued_at" => answer.issued_at = moment(&map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                if answer.token().is_none() {
                    return Err(A::Error::custom("no token"));
                }
                Ok(answer)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// A number, also one with a fraction or in quotes: all of these are in use.
fn number(value: &serde_json::Value) -> Option<u64> {
    let seconds = match value {
        serde_json::Value::String(text) => text.parse().ok()?,
        other => other.as_f64()?,
    };
    // Saturates, and takes what is no number for none.
    (seconds > 0.0).then_some(seconds as u64)
}

fn moment(value: &serde_json::Value) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(value.as_str()?, &Rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, u64)> {
        let answer: TokenAnswer<'_> = serde_json::from_str(text).ok()?;
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let token = answer.token()?.to_owned();
        Some((token, answer.renew_after(Some(now)).as_secs()))
    }

    #[test]
    fn both_dialects_are_read() {
        for (text, token, renew_after) in [
            (r#"{"token":"a"}"#, "a", 50),
            (r#"{"access_token":"b","token":""}"#, "b", 50),
            (r#"{"token":null,"access_token":"b"}"#, "b", 50),
            (r#"{"token":"a","access_token":"b","scope":["x"]}"#, "a", 50),
            (r#"{"token":"a\/b"}"#, "a/b", 50),
            (r#"{"token":"a","expires_in":300}"#, "a", 290),
            (r#"{"token":"a","expires_in":"300"}"#, "a", 290),
            (r#"{"token":"a","expires_in":300.7}"#, "a", 290),
            (r#"{"token":"a","expires_in":4}"#, "a", 3),
            (r#"{"token":"a","expires_in":0}"#, "a", 50),
            (r#"{"token":"a","expires_in":-5}"#, "a", 50),
            (r#"{"token":"a","expires_in":null}"#, "a", 50),
            (r#"{"token":"a","expires_in":1e300}"#, "a", 3590),
            (r#"{"token":"a","expires_in":300,"issued_at":"1970-01-01T00:15:00Z"}"#, "a", 190),
            (r#"{"token":"a","expires_in":300,"issued_at":"1970-01-01T00:01:00Z"}"#, "a", 0),
            (
                r#"{"token":"a","expires_in":300,"issued_at":"2999-01-01T00:00:00.5+01:00"}"#,
                "a",
                290,
            ),
            (r#"{"token":"a","expires_in":300,"issued_at":"yesterday"}"#, "a", 290),
        ] {
            assert_eq!(read(text), Some((token.to_owned(), renew_after)), "{text}");
        }
        for text in ["", "{}", "[]", r#"{"token":""}"#, r#"{"token":1}"#, "null"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
