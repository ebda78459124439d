//! A key wrapped with a key of a key broker: what CoCo's key provider writes into
//! `org.opencontainers.image.enc.keys.provider.attestation-agent`.
//!
//! Version 1 is `kid`, `wrapped_data`, `iv` and `wrap_type`. Version 2 adds `version`, and
//! `provider` with what it needs: services of clouds that unwrap by themselves. Only the key broker
//! is read here; packets for others go to a data hub as they are.
//!
//! `A256GCM` is authenticated, with the tag behind the wrapped data. `A256CTR`, which CoCo's key
//! provider also knows, is refused, because the same keys are used for both, and GCM encrypts in
//! counter mode. An attacker who can change the image could relabel a packet that was wrapped with
//! GCM as one in counter mode: `IV || 00000002` as the counter, and the tag cut off. It would open
//! to the same options, and then to options with a bit changed here or there; and the different
//! errors of a pull (not JSON, a wrong length, a wrong HMAC) would reveal one bit after another,
//! until the layer's key is known.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use foreign_text::shown;
use zeroize::Zeroizing;

use crate::members::{self, InvalidJson};
use crate::options::{KEY_BYTES, MAX_OPTIONS_BYTES};

/// The most bytes of a packet as JSON. Real ones have 400. Raising it breaks nothing.
pub const MAX_PACKET_BYTES: usize = 64 << 10;

/// The most bytes of a key's name. It becomes a part of a URL. Raising it breaks nothing.
pub const MAX_KID_BYTES: usize = 1024;

/// The version that all packets have, also those that do not say it.
const VERSION: &str = "0.1.0";

/// The only provider whose keys can be had, also of packets that name none.
const PROVIDER: &str = "kbs";

/// The only way of wrapping that is read.
const WRAP_TYPE: &str = "A256GCM";

/// Bytes of an AES-GCM tag.
const TAG_BYTES: usize = 16;

/// Why a packet cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPacket {
    /// Not the JSON that is needed.
    #[error(transparent)]
    Json(#[from] InvalidJson),
    /// Of another version.
    #[error("its version is {0} instead of {VERSION:?}, the only one that is known")]
    Version(String),
    /// For another service than a key broker.
    #[error(
        "its provider is {0}, whose packets only the CDH opens, with \"unwrap\" in [resources] of \
        the measured document; or encrypt the image for a key of the key broker"
    )]
    Provider(String),
    /// Wrapped in another way.
    #[error("it is wrapped with {0} instead of \"A256GCM\"; wrap the key with \"A256GCM\"")]
    WrapType(String),
    /// Wrapped in a way that gives the layer's key away to anyone who can change the image.
    #[error(
        "it is wrapped with \"A256CTR\", which is refused because it can be changed without \
        anybody noticing; wrap the key with \"A256GCM\""
    )]
    NotAuthenticated,
    /// No name that could be part of a URL.
    #[error(
        "the name of its key, \"kid\", is empty, longer than {MAX_KID_BYTES} bytes, or has other \
        characters than a URI"
    )]
    Kid,
    /// More than options can be.
    #[error("{0} bytes are wrapped, and options have {MAX_OPTIONS_BYTES} at most")]
    WrappedBytes(usize),
}

/// Why a packet does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unopened {
    /// The key is not one of AES-256.
    ///
    /// The error does not give the real length: the image chooses which of the broker's resources
    /// is looked at.
    #[error(
        "what has that name is no key of {KEY_BYTES} bytes; it has to be the bytes themselves, not \
        base64 of them"
    )]
    KeyBytes,
    /// Not wrapped with this key, or changed since.
    #[error("the key of that name does not open it")]
    Key,
}

/// A packet whose every part has a form that can be used.
#[derive(Clone)]
pub struct Packet {
    kid: String,
    wrapped: Vec<u8>,
    iv: [u8; NONCE_LEN],
}

impl Packet {
    /// Reads the JSON inside of the annotation.
    ///
    /// # Errors
    ///
    /// [`InvalidPacket`].
    pub fn parse(text: &[u8]) -> Result<Self, InvalidPacket> {
        let packet = members::object(text, MAX_PACKET_BYTES)?;
        if let Some(version) = members::text(&packet, "version")?
            && version != VERSION
        {
            return Err(InvalidPacket::Version(shown(version).quoted().to_string()));
        }
        // Before all that another program could be asked to open.
        let wrap_type = members::text(&packet, "wrap_type")?;
        if wrap_type == Some("A256CTR") {
            return Err(InvalidPacket::NotAuthenticated);
        }
        if let Some(provider) = members::text(&packet, "provider")?
            && provider != PROVIDER
        {
            return Err(InvalidPacket::Provider(shown(provider).quoted().to_string()));
        }
        let kid = members::required(&packet, "kid")?;
        let is_uri = kid.bytes().all(|byte| byte.is_ascii_graphic());
        if kid.is_empty() || kid.len() > MAX_KID_BYTES || !is_uri {
            return Err(InvalidPacket::Kid);
        }
        match members::required(&packet, "wrap_type")? {
            WRAP_TYPE => {}
            other => return Err(InvalidPacket::WrapType(shown(other).quoted().to_string())),
        }
        let iv = *members::array(&packet, "iv")?;
        let wrapped = members::bytes(&packet, "wrapped_data")?.to_vec();
        if wrapped.len() > MAX_OPTIONS_BYTES + TAG_BYTES {
            return Err(InvalidPacket::WrappedBytes(wrapped.len()));
        }
        Ok(Self { kid: kid.to_owned(), wrapped, iv })
    }

    /// The name of the key that it is wrapped with: visible ASCII, otherwise as the image has it.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// What is wrapped: options, if the key is the right one.
    ///
    /// # Errors
    ///
    /// [`Unopened`].
    pub fn open(&self, key: &[u8]) -> Result<Zeroizing<Vec<u8>>, Unopened> {
        if key.len() != KEY_BYTES {
            return Err(Unopened::KeyBytes);
        }
        let mut bytes = Zeroizing::new(self.wrapped.clone());
        let plain_bytes = open_gcm(key, self.iv, &mut bytes);
        bytes.truncate(plain_bytes.map_err(|_| Unopened::Key)?);
        Ok(bytes)
    }
}

fn open_gcm(key: &[u8], iv: [u8; NONCE_LEN], bytes: &mut [u8]) -> Result<usize, Unspecified> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key)?);
    let nonce = Nonce::assume_unique_for_key(iv);
    Ok(key.open_in_place(nonce, Aad::empty(), bytes)?.len())
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet").field("kid", &self.kid).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
