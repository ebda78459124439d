//! What is said about the cipher of a layer in public.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreign_text::shown;

use crate::members::{self, InvalidJson};

/// The most bytes of either options as JSON. Real ones have 110 and 177. Raising it breaks nothing.
pub const MAX_OPTIONS_BYTES: usize = 16 << 10;

/// The one cipher: AES-256 in counter mode, and HMAC-SHA256 over the ciphertext with the same key.
pub const CIPHER: &str = "AES_256_CTR_HMAC_SHA256";

/// Bytes of the key.
pub(crate) const KEY_BYTES: usize = 32;

/// Bytes of the first counter block.
pub(crate) const NONCE_BYTES: usize = 16;

/// Bytes of an HMAC-SHA256.
pub(crate) const HMAC_BYTES: usize = 32;

/// Why options cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidOptions {
    /// Not the JSON that is needed.
    #[error(transparent)]
    Json(#[from] InvalidJson),
    /// Another cipher.
    #[error("the cipher is {0} instead of {CIPHER:?}, the only one that is known")]
    Cipher(String),
    /// Options of the cipher where anyone can change them: a nonce there would be taken by others
    /// instead of the wrapped one, and nothing would tell that the layer became another.
    #[error(
        "options of the cipher are in public, where anyone could change them; encrypt the image \
        anew"
    )]
    PublicCipherOptions,
}

/// The public options: an annotation that anyone can read.
///
/// Invariant: they name the one cipher, and choose nothing about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicOptions {
    pub(crate) hmac: [u8; HMAC_BYTES],
}

impl PublicOptions {
    /// Reads the JSON inside of the annotation `pubopts`.
    ///
    /// # Errors
    ///
    /// [`InvalidOptions`].
    pub fn parse(text: &[u8]) -> Result<Self, InvalidOptions> {
        let options = members::object(text, MAX_OPTIONS_BYTES)?;
        let cipher = members::required(&options, "cipher")?;
        if cipher != CIPHER {
            return Err(InvalidOptions::Cipher(shown(cipher).quoted().to_string()));
        }
        if let Some(public) = members::inner(&options, "cipheroptions")?
            && !public.is_empty()
        {
            return Err(InvalidOptions::PublicCipherOptions);
        }
        let hmac = *members::array(&options, "hmac")?;
        Ok(Self { hmac })
    }

    /// Reads the annotation `pubopts` itself.
    pub(crate) fn parse_annotation(base64: &str) -> Result<Self, InvalidOptions> {
        let text = STANDARD.decode(base64);
        Self::parse(&text.map_err(|_| InvalidJson::Base64("pubopts"))?)
    }
}

#[cfg(test)]
mod tests;
