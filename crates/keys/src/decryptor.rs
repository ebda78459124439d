//! The cipher of layers: AES-256 in counter mode, with an HMAC over all of the ciphertext.
//!
//! The first counter block is the nonce, and the counter is all 128 bits of it, big-endian. The
//! HMAC is SHA-256's, over the ciphertext and nothing else, with the same key.
//!
//! The HMAC covers no nonce, and the digest among the wrapped options binds nothing: it is that of
//! the blob from which a tool made the layer. So the caller has to hold what comes out to the diff
//! ID of the image's configuration.
//!
//! Plain bytes come out before the HMAC is known, or layers would need memory of their size.
//! Whoever takes them must be able to forget everything that it made of them.

use std::fmt;

use aws_lc_rs::cipher::{AES_256, DecryptionContext, StreamingDecryptingKey, UnboundCipherKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};

use crate::options::{HMAC_BYTES, KEY_BYTES, NONCE_BYTES};

/// How much longer the place for plain bytes has to be than the ciphertext: the library wants room
/// for a block that counter mode does not have.
pub const SLACK_BYTES: usize = 15;

/// What is decrypted and hashed at once: small enough to stay in a core's first cache from the
/// first of two passes to the last.
const STEP_BYTES: usize = 16 << 10;

/// The ciphertext is not what was encrypted with this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Forged {
    /// The HMAC does not hold.
    #[error(
        "the HMAC of the encrypted layer does not hold: it was changed after it was encrypted, or \
        belongs to another layer"
    )]
    Hmac,
    /// The library did not do its work.
    #[error("the cryptographic library refused to decrypt")]
    Library,
}

/// A layer on its way from ciphertext to plain bytes.
pub struct Decryptor {
    cipher: StreamingDecryptingKey,
    hmac: Context,
    expected_hmac: [u8; HMAC_BYTES],
}

impl Decryptor {
    pub(crate) fn new(
        key: &[u8; KEY_BYTES],
        nonce: [u8; NONCE_BYTES],
        expected_hmac: [u8; HMAC_BYTES],
    ) -> Result<Self, Forged> {
        let cipher = UnboundCipherKey::new(&AES_256, key).and_then(|key| {
            StreamingDecryptingKey::ctr(key, DecryptionContext::Iv128(nonce.into()))
        });
        Ok(Self {
            cipher: cipher.map_err(library)?,
            hmac: Context::with_key(&Key::new(HMAC_SHA256, key)),
            expected_hmac,
        })
    }

    /// Decrypts as many bytes as there is place for, which is [`SLACK_BYTES`] less than the length
    /// of `plain`, and says how many these were. How the ciphertext is cut makes no difference.
    ///
    /// # Errors
    ///
    /// [`Forged::Library`] only: that something is wrong with the bytes is known at the end.
    pub fn update(&mut self, ciphertext: &[u8], plain: &mut [u8]) -> Result<usize, Forged> {
        let place = plain.len().saturating_sub(SLACK_BYTES);
        let taken = ciphertext.len().min(place);
        let mut at = 0;
        for step in ciphertext[..taken].chunks(STEP_BYTES) {
            self.hmac.update(step);
            let out = &mut plain[at..at + step.len() + SLACK_BYTES];
            let decrypted = self.cipher.update(step, out).map_err(library)?;
            // Counter mode keeps nothing back.
            if decrypted.written().len() != step.len() {
                return Err(Forged::Library);
            }
            at += step.len();
        }
        Ok(taken)
    }

    /// Judges all that was decrypted.
    ///
    /// # Errors
    ///
    /// [`Forged`]. Nothing that came out may be used then.
    pub fn finish(self) -> Result<(), Forged> {
        verify_slices_are_equal(self.hmac.sign().as_ref(), &self.expected_hmac)
            .map_err(|Unspecified| Forged::Hmac)
    }
}

fn library(_: Unspecified) -> Forged {
    Forged::Library
}

impl fmt::Debug for Decryptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decryptor")
    }
}

#[cfg(test)]
mod tests;
