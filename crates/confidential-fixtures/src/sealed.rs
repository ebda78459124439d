//! Secrets sealed by their owner: `sealed.` and a compact JWS, ES256 on P-256.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use p256::SecretKey;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use serde_json::{Value, json};

use crate::encrypted::seal;
use crate::jwe::{public_jwk, secret_key};
use crate::random;

/// The key that an owner signs with.
#[derive(Clone)]
pub struct SealingKey {
    kid: String,
    key: SecretKey,
}

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SealingKey").field("kid", &self.kid).finish_non_exhaustive()
    }
}

impl SealingKey {
    /// A new key; the resource `kid` has to hold [`SealingKey::public`].
    ///
    /// # Errors
    ///
    /// Where there is no randomness.
    pub fn new(kid: &str) -> Result<Self> {
        Ok(Self { kid: kid.to_owned(), key: secret_key()? })
    }

    /// The public key, a JWK.
    #[must_use]
    pub fn public(&self) -> String {
        public_jwk(&self.key.public_key()).to_string()
    }

    /// A sealed secret that names the resource in which the secret is.
    #[must_use]
    pub fn vault(&self, uri: &str) -> String {
        self.sign(&json!({
            "version": "0.1.0",
            "type": "vault",
            "name": uri,
            "provider": "kbs",
            "provider_settings": {},
            "annotations": {},
        }))
    }

    /// A sealed secret that has the secret in it, encrypted with a key that is encrypted with the
    /// resource `key_id`, both with AES-256-GCM. The data key's IV lies in the annotations, where
    /// Alibaba's key service has it upstream.
    ///
    /// # Errors
    ///
    /// Where there is no randomness.
    pub fn envelope(&self, key_id: &str, key: &[u8; 32], secret: &[u8]) -> Result<String> {
        let data_key: [u8; 32] = random()?;
        let ivs: [[u8; 12]; 2] = [random()?, random()?];
        let encrypted_key = seal(key, &ivs[0], &data_key, b"")?;
        Ok(self.sign(&json!({
            "version": "0.1.0",
            "type": "envelope",
            "key_id": key_id,
            "encrypted_key": STANDARD.encode(encrypted_key),
            "encrypted_data": STANDARD.encode(seal(&data_key, &ivs[1], secret, b"")?),
            "wrap_type": "A256GCM",
            "iv": STANDARD.encode(ivs[1]),
            "provider": "kbs",
            "provider_settings": {},
            "annotations": {"iv": STANDARD.encode(ivs[0])},
        })))
    }

    /// Any payload, sealed.
    #[must_use]
    pub fn sign(&self, payload: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": self.kid});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(payload));
        let signature: Signature = SigningKey::from(&self.key).sign(signed.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature.to_bytes());
        format!("sealed.{signed}.{signature}")
    }
}
