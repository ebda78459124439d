//! A key wrapped with a key of a key broker: what CoCo's key provider writes into
//! `org.opencontainers.image.enc.keys.provider.attestation-agent`.
//!
//! Version 1 is `kid`, `wrapped_data`, `iv` and `wrap_type`. Version 2 adds `version`, and `provider` with what it needs: services
//! of clouds that unwrap by themselves. Only the key broker is read here.
//!
//! `A256GCM` is authenticated, with the tag behind the wrapped data. `A256CTR` is not: whoever can change the image can flip bits
//! of the wrapped options, in the key for example. That makes a layer nobody can read, and no more: the result must still be
//! options, the ciphertext has an HMAC with that key, and the plain layer has its digest in the pinned image configuration.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::cipher::{AES_256, DecryptingKey, DecryptionContext, UnboundCipherKey};
use aws_lc_rs::error::Unspecified;
use zeroize::Zeroizing;

use crate::json::{InvalidJson, Object};
use crate::options::{KEY_BYTES, MAX_OPTIONS_BYTES, NONCE_BYTES};
use crate::quote::quote;

/// The most bytes of a packet as JSON. Real ones have 400. Raising it breaks nothing.
pub const MAX_PACKET_BYTES: usize = 64 << 10;

/// The most bytes of a key's name. It becomes a part of a URL. Raising it breaks nothing.
pub const MAX_KID_BYTES: usize = 1024;

/// The version that all packets have, also those that do not say it.
const VERSION: &str = "0.1.0";

/// The only provider whose keys can be had, also of packets that name none.
const PROVIDER: &str = "kbs";

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
        "its provider is {0}, and keys come from {PROVIDER:?} only; encrypt the image for a key of the key broker"
    )]
    Provider(String),
    /// Wrapped in another way.
    #[error("it is wrapped with {0} instead of \"A256GCM\" or \"A256CTR\"")]
    WrapType(String),
    /// No name that could be part of a URL.
    #[error(
        "the name of its key, \"kid\", is empty, longer than {MAX_KID_BYTES} bytes, or has other characters than a URI"
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
    #[error(
        "the key of that name has {0} bytes instead of {KEY_BYTES}; it has to be the bytes themselves, not base64 of them"
    )]
    KeyBytes(usize),
    /// Not wrapped with this key, or changed since.
    #[error("the key of that name does not open it")]
    Key,
}

/// A packet whose every part has a form that can be used.
#[derive(Clone)]
pub struct Packet {
    kid: String,
    wrapped: Vec<u8>,
    wrap: Wrap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrap {
    Gcm([u8; NONCE_LEN]),
    Ctr([u8; NONCE_BYTES]),
}

impl Packet {
    /// Reads the JSON inside of the annotation.
    ///
    /// # Errors
    ///
    /// [`InvalidPacket`].
    pub fn parse(text: &[u8]) -> Result<Self, InvalidPacket> {
        let packet = Object::parse(text, MAX_PACKET_BYTES)?;
        if let Some(version) = packet.text("version")?
            && version != VERSION
        {
            return Err(InvalidPacket::Version(quote(version)));
        }
        if let Some(provider) = packet.text("provider")?
            && provider != PROVIDER
        {
            return Err(InvalidPacket::Provider(quote(provider)));
        }
        let kid = packet.required("kid")?;
        let is_uri = kid.bytes().all(|byte| byte.is_ascii_graphic());
        if kid.is_empty() || kid.len() > MAX_KID_BYTES || !is_uri {
            return Err(InvalidPacket::Kid);
        }
        let (wrap, overhead) = match packet.required("wrap_type")? {
            "A256GCM" => (Wrap::Gcm(*packet.array("iv")?), TAG_BYTES),
            "A256CTR" => (Wrap::Ctr(*packet.array("iv")?), 0),
            other => return Err(InvalidPacket::WrapType(quote(other))),
        };
        let wrapped = packet.bytes("wrapped_data")?.to_vec();
        if wrapped.len() > MAX_OPTIONS_BYTES + overhead {
            return Err(InvalidPacket::WrappedBytes(wrapped.len()));
        }
        Ok(Self {
            kid: kid.to_owned(),
            wrapped,
            wrap,
        })
    }

    /// The name of the key that it is wrapped with: visible ASCII, otherwise as the image has it.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Whether a wrong key is told from the right one.
    pub(crate) fn is_authenticated(&self) -> bool {
        matches!(self.wrap, Wrap::Gcm(_))
    }

    fn wrap_type(&self) -> &'static str {
        match self.wrap {
            Wrap::Gcm(_) => "A256GCM",
            Wrap::Ctr(_) => "A256CTR",
        }
    }

    /// What is wrapped: options, if the key is the right one.
    ///
    /// # Errors
    ///
    /// [`Unopened`]. With `A256CTR` a wrong key is none: what comes out is noise then.
    pub fn open(&self, key: &[u8]) -> Result<Zeroizing<Vec<u8>>, Unopened> {
        if key.len() != KEY_BYTES {
            return Err(Unopened::KeyBytes(key.len()));
        }
        let mut bytes = Zeroizing::new(self.wrapped.clone());
        let plain_bytes = match self.wrap {
            Wrap::Gcm(iv) => open_gcm(key, iv, &mut bytes),
            Wrap::Ctr(iv) => open_ctr(key, iv, &mut bytes),
        };
        bytes.truncate(plain_bytes.map_err(|_| Unopened::Key)?);
        Ok(bytes)
    }
}

fn open_gcm(key: &[u8], iv: [u8; NONCE_LEN], bytes: &mut [u8]) -> Result<usize, Unspecified> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key)?);
    let nonce = Nonce::assume_unique_for_key(iv);
    Ok(key.open_in_place(nonce, Aad::empty(), bytes)?.len())
}

fn open_ctr(key: &[u8], iv: [u8; NONCE_BYTES], bytes: &mut [u8]) -> Result<usize, Unspecified> {
    let key = DecryptingKey::ctr(UnboundCipherKey::new(&AES_256, key)?)?;
    Ok(key
        .decrypt(bytes, DecryptionContext::Iv128(iv.into()))?
        .len())
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet")
            .field("kid", &self.kid)
            .field("wrap_type", &self.wrap_type())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
