//! A secret that is sealed and encrypted: `key_id` is the URI of a key of 32 bytes, the key
//! encryption key. It opens `encrypted_key`, with the IV of 12 bytes in `annotations.iv`, to a data
//! key of 32 bytes. That one opens `encrypted_data`, with `iv`, to the secret. Both are AES-256-GCM
//! without additional data and with the tag of 16 bytes at the end; all bytes are standard base64.
//!
//! The guest components define envelopes only for providers that decrypt themselves. For provider
//! `kbs` this layout follows theirs, down to the place of the second IV.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreign_text::json::{Object, Value};
use puller_config::ResourceUri;
use zeroize::Zeroizing;

use super::payload::uri;
use crate::error::SealedError;

/// The keys of AES-256.
const KEY_BYTES: usize = 32;

/// The IVs of GCM as it is used here.
const IV_BYTES: usize = 12;

/// An encrypted secret.
#[derive(Debug)]
pub struct Envelope {
    /// Where the key encryption key is.
    pub key: ResourceUri,
    encrypted_key: Vec<u8>,
    key_iv: [u8; IV_BYTES],
    encrypted_data: Vec<u8>,
    iv: [u8; IV_BYTES],
}

impl Envelope {
    /// Reads the members of an envelope.
    ///
    /// # Errors
    ///
    /// Which rule they break.
    pub fn read(members: &Object<'_>) -> Result<Self, SealedError> {
        if members.last("wrap_type").and_then(Value::text) != Some("A256GCM") {
            return Err(SealedError::Payload("has another \"wrap_type\" than \"A256GCM\""));
        }
        let annotations = members.last("annotations").and_then(Value::object);
        Ok(Self {
            key: uri("key_id", members)?,
            encrypted_key: bytes(members, "encrypted_key")
                .ok_or(SealedError::Payload("lacks \"encrypted_key\" in base64"))?,
            key_iv: annotations.and_then(iv).ok_or(SealedError::Payload(
                "lacks \"annotations.iv\", the 12 bytes in base64 with which \"encrypted_key\" was \
                encrypted",
            ))?,
            encrypted_data: bytes(members, "encrypted_data")
                .ok_or(SealedError::Payload("lacks \"encrypted_data\" in base64"))?,
            iv: iv(members).ok_or(SealedError::Payload(
                "lacks \"iv\", the 12 bytes in base64 with which \"encrypted_data\" was encrypted",
            ))?,
        })
    }

    /// Opens the data key with the key encryption key, and the secret with the data key.
    ///
    /// # Errors
    ///
    /// [`SealedError::KeyLength`], or [`SealedError::Decrypt`] for what was changed or belongs to
    /// another key.
    pub fn open(&self, key: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealedError> {
        if key.len() != KEY_BYTES {
            let uri = self.key.clone();
            return Err(SealedError::KeyLength { uri });
        }
        let decrypt = |member| SealedError::Decrypt { member };
        let data_key = gcm(key, self.key_iv, &self.encrypted_key);
        let data_key = data_key.ok_or(decrypt("encrypted_key"))?;
        gcm(&data_key, self.iv, &self.encrypted_data).ok_or(decrypt("encrypted_data"))
    }
}

/// Opens AES-256-GCM; `None` for every reason alike.
fn gcm(key: &[u8], iv: [u8; IV_BYTES], encrypted: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?);
    let mut bytes = Zeroizing::new(encrypted.to_vec());
    let nonce = Nonce::assume_unique_for_key(iv);
    let length = key.open_in_place(nonce, Aad::empty(), &mut bytes).ok()?.len();
    bytes.truncate(length);
    Some(bytes)
}

fn bytes(members: &Object<'_>, name: &str) -> Option<Vec<u8>> {
    STANDARD.decode(members.last(name)?.text()?).ok()
}

fn iv(members: &Object<'_>) -> Option<[u8; IV_BYTES]> {
    bytes(members, "iv")?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed::payload::Payload;
    use serde_json::{Value, json};

    fn seal(key: &[u8; 32], iv: [u8; 12], plain: &[u8]) -> String {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).unwrap());
        let mut bytes = plain.to_vec();
        let nonce = Nonce::assume_unique_for_key(iv);
        key.seal_in_place_append_tag(nonce, Aad::empty(), &mut bytes).unwrap();
        STANDARD.encode(bytes)
    }

    fn envelope() -> Value {
        json!({
            "version": "0.1.0",
            "type": "envelope",
            "provider": "kbs",
            "key_id": "kbs:///a/key/c",
            "wrap_type": "A256GCM",
            "encrypted_key": seal(&[1; 32], [2; 12], &[3; 32]),
            "annotations": {"iv": STANDARD.encode([2; 12])},
            "encrypted_data": seal(&[3; 32], [4; 12], b"secret"),
            "iv": STANDARD.encode([4; 12]),
            "provider_settings": {},
        })
    }

    fn open(payload: &Value, key: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        match Payload::parse(payload.to_string().as_bytes()).unwrap() {
            Payload::Envelope(envelope) => {
                assert_eq!(envelope.key.to_string(), "kbs:///a/key/c");
                envelope.open(key).map_err(|error| error.to_string())
            }
            Payload::Vault(_) => panic!("{payload}"),
        }
    }

    #[test]
    fn envelopes_are_opened_by_their_key_alone() {
        assert_eq!(open(&envelope(), &[1; 32]).unwrap().as_slice(), b"secret");
        for (key, expected) in [
            (&[9_u8; 32] as &[u8], "\"encrypted_key\" of its payload was not encrypted with"),
            (&[1; 31], "no key of 32 bytes"),
            (&[1; 33], "no key of 32 bytes"),
            (&[], "no key of 32 bytes"),
        ] {
            let error = open(&envelope(), key).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn every_changed_bit_of_an_envelope_is_refused() {
        for member in ["encrypted_key", "encrypted_data", "iv", "annotations"] {
            let pick = |payload: &Value| match member {
                "annotations" => payload[member]["iv"].as_str().unwrap().to_owned(),
                _ => payload[member].as_str().unwrap().to_owned(),
            };
            let bytes = STANDARD.decode(pick(&envelope())).unwrap();
            for bit in 0..bytes.len() * 8 {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let mut payload = envelope();
                let changed = json!(STANDARD.encode(bytes));
                match member {
                    "annotations" => payload[member]["iv"] = changed,
                    _ => payload[member] = changed,
                }
                let error = open(&payload, &[1; 32]).unwrap_err();
                assert!(error.contains("was not encrypted with"), "{member} {bit}: {error}");
            }
        }
        let mut short = envelope();
        short["encrypted_data"] = json!(STANDARD.encode([0; 15]));
        assert!(open(&short, &[1; 32]).is_err());
        // A data key of another length.
        let mut short = envelope();
        short["encrypted_key"] = json!(seal(&[1; 32], [2; 12], &[3; 16]));
        assert!(open(&short, &[1; 32]).is_err());
    }
}
