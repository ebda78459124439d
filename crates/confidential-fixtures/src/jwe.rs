//! A secret closed for the key that a guest has proven: flattened JWE, `ECDH-ES+A256KW` on P-256,
//! `A256GCM`.
//!
//! RFC 7516, sections 5.1 and 7.2.2; RFC 7518, sections 4.6 and 5.3.

use aes_kw::KwAes256;
use aes_kw::cipher::KeyInit as _;
use anyhow::{Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::{PublicKey, SecretKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::encrypted::seal;
use crate::random;

/// The algorithm's name, which also goes into the key derivation.
const ALGORITHM: &str = "ECDH-ES+A256KW";

/// Reads a guest's public key.
///
/// # Errors
///
/// Where it is no such key for this algorithm.
pub(super) fn public_key(jwk: &Value) -> Result<PublicKey> {
    if jwk["kty"] != "EC" || jwk["crv"] != "P-256" || jwk["alg"] != ALGORITHM {
        return Err(anyhow!("the key is none for {ALGORITHM} on P-256"));
    }
    let mut point = vec![4];
    for name in ["x", "y"] {
        let coordinate = URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap_or_default())?;
        if coordinate.len() != 32 {
            return Err(anyhow!("the coordinate \"{name}\" has not 32 bytes"));
        }
        point.extend(coordinate);
    }
    PublicKey::from_sec1_bytes(&point).map_err(|_| anyhow!("the point is not on the curve"))
}

/// Closes `plain` for a key.
///
/// # Errors
///
/// Where there is no randomness.
pub(super) fn close(plain: &[u8], to: &PublicKey) -> Result<Value> {
    let ephemeral = secret_key()?;
    let shared = p256::ecdh::diffie_hellman(ephemeral.to_nonzero_scalar(), to.as_affine());
    let wrapping_key = derive(shared.raw_secret_bytes());
    let content_key: [u8; 32] = random()?;
    let mut wrapped = [0; 40];
    KwAes256::new(&wrapping_key.into())
        .wrap_key(&content_key, &mut wrapped)
        .map_err(|_| anyhow!("failed to wrap the key"))?;
    let header =
        json!({"alg": ALGORITHM, "enc": "A256GCM", "epk": public_jwk(&ephemeral.public_key())});
    let protected = URL_SAFE_NO_PAD.encode(header.to_string());
    let iv: [u8; 12] = random()?;
    let sealed = seal(&content_key, &iv, plain, protected.as_bytes())?;
    let (ciphertext, tag) = sealed.split_at(plain.len());
    Ok(json!({
        "protected": protected,
        "encrypted_key": URL_SAFE_NO_PAD.encode(wrapped),
        "iv": URL_SAFE_NO_PAD.encode(iv),
        "ciphertext": URL_SAFE_NO_PAD.encode(ciphertext),
        "tag": URL_SAFE_NO_PAD.encode(tag),
    }))
}

/// A new private key.
pub(super) fn secret_key() -> Result<SecretKey> {
    // Almost every number of 32 bytes is one.
    SecretKey::from_slice(&random::<32>()?).map_err(|_| anyhow!("no private key"))
}

/// A public key as a JWK without more.
pub(super) fn public_jwk(key: &PublicKey) -> Value {
    let point = key.to_sec1_bytes();
    json!({
        "kty": "EC",
        "crv": "P-256",
        "x": URL_SAFE_NO_PAD.encode(&point[1..33]),
        "y": URL_SAFE_NO_PAD.encode(&point[33..65]),
    })
}

/// The Concat KDF (RFC 7518, section 4.6.2): one round of SHA-256, no party's information.
fn derive(shared: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(1u32.to_be_bytes());
    hash.update(shared);
    hash.update((ALGORITHM.len() as u32).to_be_bytes());
    hash.update(ALGORITHM);
    hash.update([0; 8]);
    hash.update(256u32.to_be_bytes());
    hash.finalize().into()
}
