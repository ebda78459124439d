//! RFC 7520 section 5.4, and what is made of it.

use keys::{Effort, Jwe, PrivateKey};
use serde_json::{Map, Value, json};

use crate::support::{decode, encode};

pub const RFC: &str = include_str!("../data/rfc7520-5.4.json");

/// RFC 7520 section 5.4, flattened, and its key.
pub fn vector() -> (Map<String, Value>, PrivateKey) {
    let vector: Value = serde_json::from_str(RFC).unwrap();
    let key = PrivateKey::read(vector["key"].to_string().as_bytes(), None).unwrap();
    (vector["message"].as_object().unwrap().clone(), key)
}

pub fn parse(message: &Map<String, Value>) -> Result<Jwe, String> {
    Jwe::parse(Value::Object(message.clone()).to_string().as_bytes())
}

pub fn compact(message: &Map<String, Value>) -> String {
    ["protected", "encrypted_key", "iv", "ciphertext", "tag"]
        .map(|name| message[name].as_str().unwrap())
        .join(".")
}

/// The message for several recipients, as go-jose writes it: with the first one's key outside as
/// well.
pub fn general(message: &Map<String, Value>) -> Map<String, Value> {
    let mut general = message.clone();
    general.insert("recipients".to_owned(), json!([{"encrypted_key": message["encrypted_key"]}]));
    general
}

pub fn with_header(message: &mut Map<String, Value>, change: impl FnOnce(&mut Map<String, Value>)) {
    let header = decode(message["protected"].as_str().unwrap());
    let mut header: Value = serde_json::from_slice(&header).unwrap();
    change(header.as_object_mut().unwrap());
    message.insert("protected".to_owned(), encode(header.to_string()).into());
}

pub fn set(message: &mut Map<String, Value>, name: &str, value: Value) {
    message.insert(name.to_owned(), value);
}

/// More than any test here takes.
pub fn plenty() -> Effort {
    Effort::new(1000)
}
