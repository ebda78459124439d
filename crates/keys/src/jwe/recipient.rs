//! The content's key, unwrapped for one recipient (RFC 7518 section 4).

use std::ops::RangeInclusive;

use aes_kw::{KeyInit, KwAes128, KwAes192, KwAes256};
use aws_lc_rs::agreement::{self, UnparsedPublicKey};
use aws_lc_rs::kdf::{SskdfDigestAlgorithmId, get_sskdf_digest_algorithm, sskdf_digest};
use aws_lc_rs::rand;
use zeroize::Zeroizing;

use super::header::Header;
use crate::algorithm::{Curve, KeyAlgorithm, shown};
use crate::json::Object;
use crate::private_key::{Kind, PrivateKey, public_point};

/// How many bytes AES key wrap makes of the keys that contents have, which is 8 more than 16 to 64
/// (RFC 3394 section 2.2.1).
const WRAPPED_BYTES: RangeInclusive<usize> = 24..=72;

/// A recipient, with the wrapped key.
#[derive(Clone)]
pub(super) struct Recipient {
    pub(super) algorithm: &'static KeyAlgorithm,
    encrypted_key: Vec<u8>,
    /// Of a key agreement: what the sender contributes.
    sender: Option<Sender>,
}

/// What a sender contributes to a key agreement (RFC 7518 section 4.6.1).
#[derive(Clone)]
struct Sender {
    curve: &'static Curve,
    /// The public key as SEC1 has it. Whether it is a point of the curve is judged at the
    /// agreement.
    point: Vec<u8>,
    apu: Vec<u8>,
    apv: Vec<u8>,
}

impl Recipient {
    /// Reads a recipient; if what it uses is not supported, says what that is, since others may be
    /// there.
    ///
    /// # Errors
    ///
    /// If it contradicts the specification.
    pub(super) fn read(
        header: &Header<'_>,
        encrypted_key: &[u8],
    ) -> Result<Result<Self, &'static str>, &'static str> {
        let name = header.algorithm()?;
        let Some(algorithm) = KeyAlgorithm::from_name(name) else {
            return Ok(Err(shown(name)));
        };
        if encrypted_key.is_empty() {
            return Err("it has an empty encrypted_key");
        }
        let sender = if algorithm.oaep.is_some() {
            None
        } else {
            match Sender::read(header)? {
                Some(sender) => Some(sender),
                None => return Ok(Err("a key agreement on an unknown curve")),
            }
        };
        Ok(Ok(Self { algorithm, encrypted_key: encrypted_key.to_vec(), sender }))
    }

    pub(super) fn describe(&self) -> String {
        match &self.sender {
            Some(sender) => format!("{} on {}", self.algorithm.name, sender.curve.name),
            None => self.algorithm.name.to_owned(),
        }
    }

    /// Whether the key is one that could have been this recipient's: of the right kind, and such
    /// that what is wrapped has a length that it can have. All of that is public.
    pub(super) fn fits(&self, key: &PrivateKey) -> bool {
        let wrapped_bytes = self.encrypted_key.len();
        let kind_fits = match (&self.sender, &key.kind) {
            (None, Kind::Rsa(key)) => wrapped_bytes == key.key_size_bytes(),
            (Some(sender), Kind::Ec { curve, .. }) => {
                std::ptr::eq(sender.curve, *curve)
                    && WRAPPED_BYTES.contains(&wrapped_bytes)
                    && wrapped_bytes.is_multiple_of(8)
            }
            _ => false,
        };
        kind_fits && key.algorithm.is_none_or(|only| std::ptr::eq(only, self.algorithm))
    }

    /// The content's key, of `length` bytes. If it does not unwrap, a random one takes its place
    /// (RFC 7516 section 11.5), so that the rest runs the same way and an attacker does not learn
    /// which step failed. `None` is for a machine without randomness.
    pub(super) fn unwrap(&self, key: &PrivateKey, length: usize) -> Option<Zeroizing<Vec<u8>>> {
        let mut substitute = Zeroizing::new(vec![0; length]);
        rand::fill(&mut substitute).ok()?;
        match self.unwrapped(key) {
            Some(content_key) if content_key.len() == length => Some(content_key),
            _ => Some(substitute),
        }
    }

    fn unwrapped(&self, key: &PrivateKey) -> Option<Zeroizing<Vec<u8>>> {
        match (&key.kind, &self.sender) {
            (Kind::Rsa(key), None) => {
                let mut room = Zeroizing::new(vec![0; key.min_output_size()]);
                let padding = self.algorithm.oaep?;
                let plain = key.decrypt(padding, &self.encrypted_key, &mut room, None);
                Some(Zeroizing::new(plain.ok()?.to_vec()))
            }
            (Kind::Ec { key, .. }, Some(sender)) => {
                let length = self.algorithm.agreed_bytes;
                let info = concat_info(self.algorithm.name, length, &sender.apu, &sender.apv);
                let peer = UnparsedPublicKey::new(sender.curve.agreement, &sender.point);
                agreement::agree(key, peer, (), |secret| {
                    let agreed = concat_kdf(secret, &info, length).ok_or(())?;
                    unwrap_key(&agreed, &self.encrypted_key).ok_or(())
                })
                .ok()
            }
            _ => None,
        }
    }
}

impl Sender {
    /// `None` if the curve is not one of ours.
    fn read(header: &Header<'_>) -> Result<Option<Self>, &'static str> {
        let key: &Object<'_> = header.ephemeral()?;
        let text = |name: &str| key.last(name).and_then(|value| value.text());
        let Some(curve) = text("crv").and_then(Curve::from_name) else {
            return Ok(None);
        };
        let point = public_point(curve, key).filter(|_| text("kty") == Some("EC"));
        Ok(Some(Self {
            curve,
            point: point.ok_or("it has a sender's key (epk) that is no EC key on its curve")?,
            apu: header.party("apu")?,
            apv: header.party("apv")?,
        }))
    }
}

/// OtherInfo of RFC 7518 section 4.6.2, for a key of `length` bytes.
fn concat_info(algorithm: &str, length: usize, apu: &[u8], apv: &[u8]) -> Vec<u8> {
    let mut info = Vec::new();
    for part in [algorithm.as_bytes(), apu, apv] {
        // No part is longer than the text it came from.
        info.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        info.extend_from_slice(part);
    }
    let bits = u32::try_from(8 * length).unwrap_or(u32::MAX);
    info.extend_from_slice(&bits.to_be_bytes());
    info
}

/// The Concat KDF with SHA-256, which is the one-step KDF of NIST SP 800-56C.
fn concat_kdf(secret: &[u8], info: &[u8], length: usize) -> Option<Zeroizing<Vec<u8>>> {
    let mut key = Zeroizing::new(vec![0; length]);
    let sha256 = get_sskdf_digest_algorithm(SskdfDigestAlgorithmId::Sha256)?;
    sskdf_digest(sha256, secret, info, &mut key).ok()?;
    Some(key)
}

/// AES key unwrap, RFC 3394; the length of `key` chooses the cipher.
fn unwrap_key(key: &[u8], wrapped: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut room = Zeroizing::new(vec![0; wrapped.len().checked_sub(8)?]);
    let plain = match key.len() {
        16 => KwAes128::new_from_slice(key).ok()?.unwrap_key(wrapped, &mut room),
        24 => KwAes192::new_from_slice(key).ok()?.unwrap_key(wrapped, &mut room),
        _ => KwAes256::new_from_slice(key).ok()?.unwrap_key(wrapped, &mut room),
    };
    plain.ok()?;
    Some(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7518 appendix C: what the parties agree on, and what becomes of it for A128GCM and 128
    /// bits.
    #[test]
    fn concat_kdf_derives_what_the_rfc_derives() {
        let secret = [
            158, 86, 217, 29, 129, 113, 53, 211, 114, 131, 66, 131, 191, 132, 38, 156, 251, 49,
            110, 163, 218, 128, 106, 72, 246, 218, 167, 121, 140, 254, 144, 196,
        ];
        let info = concat_info("A128GCM", 16, b"Alice", b"Bob");
        let want_info = [
            0, 0, 0, 7, 65, 49, 50, 56, 71, 67, 77, 0, 0, 0, 5, 65, 108, 105, 99, 101, 0, 0, 0, 3,
            66, 111, 98, 0, 0, 0, 128,
        ];
        assert_eq!(info, want_info);
        let want = [86, 170, 141, 234, 248, 35, 109, 32, 92, 34, 40, 205, 113, 167, 16, 26];
        assert_eq!(concat_kdf(&secret, &info, 16).unwrap().as_slice(), want);
    }

    /// RFC 3394 sections 4.1, 4.2 and 4.3: 128 bits of key data under keys of each length.
    #[test]
    fn keys_unwrap_as_the_rfc_wraps_them() {
        let data: Vec<u8> = (0..16).map(|nibble| nibble * 0x11).collect();
        for (length, wrapped) in [
            (16, 0x1FA68B0A8112B447_AEF34BD8FB5A7B82_u128),
            (24, 0x96778B25AE6CA435_F92B5B97C050AED2),
            (32, 0x64E8C3F9CE0F5BA2_63E9777905818A2A),
        ] {
            let last: u64 = match length {
                16 => 0x9D3E862371D2CFE5,
                24 => 0x468AB8A17AD84E5D,
                _ => 0x93C8191E7D6E8AE7,
            };
            let mut text = wrapped.to_be_bytes().to_vec();
            text.extend_from_slice(&last.to_be_bytes());
            let key: Vec<u8> = (0..length).collect();
            assert_eq!(unwrap_key(&key, &text).unwrap().as_slice(), data);
            text[20] ^= 1;
            assert!(unwrap_key(&key, &text).is_none());
        }
        for length in [0, 7, 8, 9, 15, 17] {
            let content_key = unwrap_key(&[0; 16], &vec![0; length]);
            assert!(content_key.is_none(), "{length} bytes");
        }
    }
}
