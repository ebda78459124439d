//! A value of a secret: which of the forms it has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use puller_config::MAX_DECRYPTION_KEYS;
use serde::Deserialize;
use serde::de::IgnoredAny;
use zeroize::Zeroizing;

use super::MAX_VALUE_BYTES;

/// A key as the document has it: `base64(key)`, with its password behind a colon, or a reference.
pub(super) type Item = Zeroizing<String>;

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
pub(super) fn items(value: &[u8], password: Option<&[u8]>) -> Result<Vec<Item>, String> {
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
            let items = text.split(',').map(str::trim);
            Ok(items.map(|item| Zeroizing::new(item.to_owned())).collect())
        }
        _ => Ok(vec![item(value, password)]),
    }
}

/// Whether a text begins like a key that is text.
fn is_key_text(text: &str) -> bool {
    let is_jwk = || serde_json::from_str::<Shape>(text).is_ok_and(|shape| shape.kty.is_some());
    text.starts_with("-----") || text.starts_with('{') && is_jwk()
}

/// Whether a text consists of what a list may hold; whether its items are keys is not looked at.
fn is_list(text: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=:".contains(&byte);
    let is_item = |item: &str| {
        let is_reference =
            item.starts_with("sealed.") || item.starts_with("kbs") && item.contains("://");
        !item.is_empty() && (is_reference || item.bytes().all(is_base64))
    };
    text.split(',').all(|item| is_item(item.trim()))
}

/// The buffers never move, so that no copy of a secret is left behind.
fn item(key: &[u8], password: Option<&[u8]>) -> Item {
    let length = |bytes: &[u8]| bytes.len().div_ceil(3) * 4;
    let mut item = Zeroizing::new(String::with_capacity(
        length(key) + 1 + password.map_or(0, length),
    ));
    STANDARD.encode_string(key, &mut item);
    if let Some(password) = password {
        item.push(':');
        STANDARD.encode_string(password, &mut item);
    }
    item
}
