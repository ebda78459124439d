//! A value of a secret: which of the forms it has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use registry_config::{DecryptionKey, MAX_DECRYPTION_KEYS, decode_base64};
use serde::Deserialize;
use serde::de::IgnoredAny;
use zeroize::Zeroizing;

use super::{MAX_VALUE_BYTES, kind_of};

/// A key as the document has it: `base64(key)`, with its password behind a colon, or a reference.
pub(super) type Item = Zeroizing<String>;

/// How the password of a list's item may have been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// In base64, as ocicrypt has it.
    Base64,
    /// As it stands, as Kubernetes' proposal has it.
    Clear,
}

/// One key of a value, in the ways in which it can be read, the likeliest first; never none.
pub(super) struct Candidate {
    /// With how its password is taken to be written, where that is a question.
    pub(super) readings: Vec<(Item, Option<Written>)>,
}

impl Candidate {
    /// The item without the password that stands in a list behind a key that needs none, and what
    /// the key is.
    pub(super) fn without_password(&self) -> Option<(Item, String)> {
        let (item, written) = self.readings.first()?;
        written.as_ref()?;
        let (key, _) = item.split_once(':')?;
        let what = kind_of(&DecryptionKey::parse(key).ok()?).ok()?;
        Some((Zeroizing::new(key.to_owned()), what))
    }
}

/// What a JSON text says of itself.
#[derive(Deserialize)]
struct Shape {
    /// The member that every JWK has (RFC 7517, section 4.1), and no manifest.
    kty: Option<IgnoredAny>,
}

/// Whether a file is to be read as manifests: text that is neither a key nor a list.
pub(super) fn may_be_manifest(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| !is_key_text(text.trim()) && !is_list(text))
}

/// The keys that a value holds, at most [`MAX_DECRYPTION_KEYS`]; with a password it is one key.
pub(super) fn candidates(value: &[u8], password: Option<&[u8]>) -> Result<Vec<Candidate>, String> {
    if value.trim_ascii().is_empty() {
        return Err("it is empty".to_owned());
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err("it is too long for a key or a list of keys".to_owned());
    }
    match std::str::from_utf8(value) {
        Ok(text) if !is_key_text(text.trim()) && is_list(text) => {
            if password.is_some() {
                let why = "it is a list, in which each key has its password behind a colon";
                return Err(why.to_owned());
            }
            if text.split(',').count() > MAX_DECRYPTION_KEYS {
                return Err(format!(
                    "a list has at most {MAX_DECRYPTION_KEYS} keys, as a document has"
                ));
            }
            Ok(text.split(',').map(|item| of_list(item.trim())).collect())
        }
        _ => Ok(vec![Candidate { readings: vec![(item(value, password), None)] }]),
    }
}

/// Whether a text begins like a key that is text.
fn is_key_text(text: &str) -> bool {
    let is_jwk = || serde_json::from_str::<Shape>(text).is_ok_and(|shape| shape.kty.is_some());
    text.starts_with("-----") || text.starts_with('{') && is_jwk()
}

/// Whether a text consists of what a list may hold; whether its items are keys is not looked at,
/// unless what is behind a colon could be anything.
fn is_list(text: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=:".contains(&byte);
    let is_item = |item: &str| {
        let has_clear_password = || {
            let (key, password) = item.split_once(':').unwrap_or_default();
            !password.chars().any(char::is_control) && encodes_key(key)
        };
        !item.is_empty()
            && (is_reference(item) || item.bytes().all(is_base64) || has_clear_password())
    };
    text.split(',').all(|item| is_item(item.trim()))
}

fn is_reference(item: &str) -> bool {
    item.starts_with("kbs") && item.contains("://")
}

/// Whether base64 begins like that of PEM, DER or a JWK; that of no line of YAML does.
fn encodes_key(text: &str) -> bool {
    // Eight letters are six bytes, of which five are looked at.
    let begin = text.get(..8).and_then(|begin| STANDARD.decode(begin).ok());
    let begin = begin.map(Zeroizing::new);
    begin.is_some_and(|begin| matches!(begin[0], 0x30 | b'{') || begin.starts_with(b"-----"))
}

/// An item of a list. What stands behind its colon is base64 or the password itself, and nobody
/// can tell by looking: a password may happen to be base64.
fn of_list(text: &str) -> Candidate {
    let as_it_is = || Zeroizing::new(text.to_owned());
    let (key, password) = match text.split_once(':') {
        Some((key, password)) if !is_reference(text) && !password.is_empty() => (key, password),
        _ => {
            return Candidate { readings: vec![(as_it_is(), None)] };
        }
    };
    let clear = (with_password(key, password.as_bytes()), Some(Written::Clear));
    let readings = match decode_base64(password).is_some() {
        true => vec![(as_it_is(), Some(Written::Base64)), clear],
        false => vec![clear],
    };
    Candidate { readings }
}

/// `key` is base64 already.
fn with_password(key: &str, password: &[u8]) -> Item {
    let mut item = Zeroizing::new(String::with_capacity(key.len() + 1 + encoded_bytes(password)));
    item.push_str(key);
    item.push(':');
    STANDARD.encode_string(password, &mut item);
    item
}

/// The buffers never move, so that no copy of a secret is left behind.
fn item(key: &[u8], password: Option<&[u8]>) -> Item {
    let mut encoded = Zeroizing::new(String::with_capacity(encoded_bytes(key)));
    STANDARD.encode_string(key, &mut encoded);
    match password {
        None => encoded,
        Some(password) => with_password(&encoded, password),
    }
}

fn encoded_bytes(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(3) * 4
}
