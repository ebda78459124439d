//! Public keys, and what they verify.

use std::fmt;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ECDSA_P521_SHA256_ASN1,
    ECDSA_P521_SHA512_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    VerificationAlgorithm,
};
use der::asn1::UintRef;
use der::{Decode, Reader, SliceReader};
use ed25519_dalek::{Digest as _, Sha512};
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef};

use crate::base64;

/// The longest key, in bytes: many times as long as RSA with 8192 bits.
pub const MAX_KEY_BYTES: usize = 64 << 10;

/// RSA below this can be broken; containers/image takes 1024 bits.
const MIN_RSA_BITS: usize = 2048;
/// What the library verifies at most.
const MAX_RSA_BITS: usize = 8192;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
const ED25519_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// A public key: RSA of 2048 to 8192 bits, P-256, P-384, P-521 or Ed25519.
pub struct PublicKey {
    /// The kind in words, such as `P-256`.
    kind: &'static str,
    /// The key for each way that a signature of its kind is verified in; the first is that of
    /// SHA-256, or of Ed25519 as it is.
    ways: Vec<ParsedPublicKey>,
    /// The key for Ed25519 over a hash (Ed25519ph, RFC 8032).
    prehashed: Option<ed25519_dalek::VerifyingKey>,
}

/// Why bytes are no usable key. The words fit behind "the key".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnusableKey {
    /// Longer than [`MAX_KEY_BYTES`].
    #[error("has more than {MAX_KEY_BYTES} bytes")]
    TooLong,
    /// There is no PEM block, or it is damaged.
    #[error("is no PEM; give the file that `cosign public-key` or `openssl pkey -pubout` writes")]
    NotPem,
    /// The first PEM block is something else.
    #[error("is no public key by its PEM label; give a block that begins with BEGIN PUBLIC KEY")]
    Label,
    /// The block is no key.
    #[error("is damaged: its PEM block holds no public key")]
    Damaged,
    /// Another algorithm or curve.
    #[error("is of a kind that is not supported; use RSA, P-256, P-384, P-521 or Ed25519")]
    Kind,
    /// RSA that is too short, or too long.
    #[error("is RSA with fewer than {MIN_RSA_BITS} or more than {MAX_RSA_BITS} bits")]
    RsaSize,
}

impl PublicKey {
    /// Reads the first PEM block of a text; what is around it does not count.
    ///
    /// # Errors
    ///
    /// [`UnusableKey`].
    pub fn parse(text: &[u8]) -> Result<Self, UnusableKey> {
        if text.len() > MAX_KEY_BYTES {
            return Err(UnusableKey::TooLong);
        }
        let (label, body) = pem(text).ok_or(UnusableKey::NotPem)?;
        let read = match label {
            "PUBLIC KEY" => Self::from_spki,
            "RSA PUBLIC KEY" => Self::from_rsa,
            _ => return Err(UnusableKey::Label),
        };
        read(&base64::decode(&body).ok_or(UnusableKey::NotPem)?)
    }

    fn from_spki(der: &[u8]) -> Result<Self, UnusableKey> {
        let info = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| UnusableKey::Damaged)?;
        let bytes = info.subject_public_key.as_bytes();
        let bytes = bytes.ok_or(UnusableKey::Damaged)?;
        let curve = info.algorithm.parameters_oid();
        match info.algorithm.oid {
            RSA => Self::from_rsa(bytes),
            ED25519_OID => {
                let prehashed = ed25519_dalek::VerifyingKey::try_from(bytes);
                let prehashed = Some(prehashed.map_err(|_| UnusableKey::Damaged)?);
                Ok(Self { prehashed, ..Self::new("Ed25519", &[&ED25519], bytes)? })
            }
            EC if curve == Ok(P256) => Self::new("P-256", &[&ECDSA_P256_SHA256_ASN1], bytes),
            EC if curve == Ok(P384) => {
                Self::new("P-384", &[&ECDSA_P384_SHA256_ASN1, &ECDSA_P384_SHA384_ASN1], bytes)
            }
            EC if curve == Ok(P521) => {
                Self::new("P-521", &[&ECDSA_P521_SHA256_ASN1, &ECDSA_P521_SHA512_ASN1], bytes)
            }
            _ => Err(UnusableKey::Kind),
        }
    }

    /// An RSAPublicKey of RFC 8017.
    fn from_rsa(der: &[u8]) -> Result<Self, UnusableKey> {
        let bits = modulus_bits(der).ok_or(UnusableKey::Damaged)?;
        if !(MIN_RSA_BITS..=MAX_RSA_BITS).contains(&bits) {
            return Err(UnusableKey::RsaSize);
        }
        Self::new("RSA", &[&RSA_PKCS1_2048_8192_SHA256], der)
    }

    fn new(
        kind: &'static str,
        ways: &[&'static dyn VerificationAlgorithm],
        bytes: &[u8],
    ) -> Result<Self, UnusableKey> {
        let ways = ways.iter().map(|way| ParsedPublicKey::new(*way, bytes));
        let ways: Result<_, _> = ways.collect();
        let ways = ways.map_err(|_| UnusableKey::Damaged)?;
        Ok(Self { kind, ways, prehashed: None })
    }

    /// Whether the key made a signature as it stands beside a simple-signing payload: SHA-256 with
    /// every kind of key but Ed25519, which has its own hash.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let way = self.ways.first();
        way.is_some_and(|key| key.verify_sig(message, signature).is_ok())
    }

    /// Whether the key made a signature as it stands in a bundle: the hash goes by the key, but
    /// cosign 3.1 itself takes SHA-256 with every curve and Ed25519 without a hash, so these count
    /// too.
    pub fn verifies_bundle(&self, message: &[u8], signature: &[u8]) -> bool {
        let mut ways = self.ways.iter();
        ways.any(|key| key.verify_sig(message, signature).is_ok())
            || self.verifies_prehashed(message, signature)
    }

    fn verifies_prehashed(&self, message: &[u8], signature: &[u8]) -> bool {
        let (Some(key), Ok(signature)) =
            (&self.prehashed, ed25519_dalek::Signature::try_from(signature))
        else {
            return false;
        };
        let hash = Sha512::new().chain_update(message);
        key.verify_prehashed_strict(hash, None, &signature).is_ok()
    }
}

/// The kind in words, such as `P-256`.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// How many bits the modulus of an RSAPublicKey has.
fn modulus_bits(der: &[u8]) -> Option<usize> {
    let mut reader = SliceReader::new(der).ok()?;
    let modulus = reader.sequence(|reader| {
        let modulus = UintRef::decode(reader)?;
        UintRef::decode(reader)?;
        Ok::<_, der::Error>(modulus)
    });
    let modulus = modulus.ok()?;
    reader.finish().ok()?;
    let bytes = modulus.as_bytes();
    let first = bytes.first()?;
    Some(bytes.len() * 8 - first.leading_zeros() as usize)
}

/// The label and the base64 of the first PEM block (RFC 7468).
fn pem(text: &[u8]) -> Option<(&str, String)> {
    let text = str::from_utf8(text).ok()?;
    let mut lines = text.lines();
    let label = lines.find_map(|line| boundary(line, "BEGIN "))?;
    let mut body = String::new();
    for line in lines {
        match boundary(line, "END ") {
            Some(end) if end == label => return Some((label, body)),
            Some(_) => return None,
            None => body.push_str(line.trim()),
        }
    }
    None
}

/// The label of a line that begins or ends a block.
fn boundary<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    let line = line.trim_end().strip_prefix("-----")?;
    line.strip_suffix("-----")?.strip_prefix(kind)
}

#[cfg(test)]
mod tests {
    use ::base64::Engine;
    use ::base64::engine::general_purpose::STANDARD;

    use super::*;

    macro_rules! recorded {
        ($name:literal) => {
            include_str!(concat!("../tests/data/signatures/keys/", $name))
        };
    }

    fn kind(text: &str) -> Result<String, UnusableKey> {
        PublicKey::parse(text.as_bytes()).map(|key| key.to_string())
    }

    #[test]
    fn keys_are_known_by_what_they_are() {
        for (text, want) in [
            (recorded!("skopeo-s.pub"), Ok("P-256")),
            (recorded!("p384.pub"), Ok("P-384")),
            (recorded!("p521.pub"), Ok("P-521")),
            (recorded!("ed25519.pub"), Ok("Ed25519")),
            (recorded!("rsa2048.pub"), Ok("RSA")),
            (recorded!("rsa4096.pub"), Ok("RSA")),
            (recorded!("rsa1024.pub"), Err(UnusableKey::RsaSize)),
            (recorded!("k256.pub"), Err(UnusableKey::Kind)),
            (recorded!("hand-p256.pem"), Err(UnusableKey::Label)),
            (recorded!("gpg/a.asc"), Err(UnusableKey::Label)),
            ("", Err(UnusableKey::NotPem)),
        ] {
            let found = kind(text);
            assert_eq!(found.as_deref().map_err(|error| *error), want, "{text}");
        }
    }

    #[test]
    fn the_first_block_counts_and_nothing_around_it() {
        let (one, other) = (recorded!("p384.pub"), recorded!("skopeo-s.pub"));
        let lines = one.replace('\n', "\r\n");
        for text in [format!("a key\n{one}{other}"), format!("{one}junk"), lines] {
            assert_eq!(kind(&text).unwrap(), "P-384");
        }
        for text in [
            one.replace("-----END", "-----BEGIN"),
            one.replace("END PUBLIC", "END RSA PUBLIC"),
            one.replacen('M', "!", 1),
            one.lines().take(2).collect(),
        ] {
            assert_eq!(kind(&text), Err(UnusableKey::NotPem), "{text}");
        }
        let cut = "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n";
        assert_eq!(kind(cut), Err(UnusableKey::Damaged));
        assert_eq!(kind(&"x".repeat(MAX_KEY_BYTES + 1)), Err(UnusableKey::TooLong));
    }

    #[test]
    fn rsa_has_a_form_of_its_own_too() {
        let (_, body) = pem(recorded!("rsa2048.pub").as_bytes()).unwrap();
        let der = STANDARD.decode(body).unwrap();
        let info = SubjectPublicKeyInfoRef::from_der(&der).unwrap();
        let key = STANDARD.encode(info.subject_public_key.as_bytes().unwrap());
        let text = format!("-----BEGIN RSA PUBLIC KEY-----\n{key}\n-----END RSA PUBLIC KEY-----\n");
        assert_eq!(kind(&text).unwrap(), "RSA");
    }
}
