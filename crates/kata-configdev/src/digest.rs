//! Digests in hexadecimal.

use foreign_text::hex;
use sha2::{Digest, Sha256};

/// The SHA-256 of `bytes` in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes))
}
