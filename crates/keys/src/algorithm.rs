//! The algorithms of RFC 7518 that are supported, and the names of those that are not.

use aws_lc_rs::aead::{self, AES_128_GCM, AES_192_GCM, AES_256_GCM};
use aws_lc_rs::agreement::{self, ECDH_P256, ECDH_P384, ECDH_P521};
use aws_lc_rs::cipher::{self, AES_128, AES_192, AES_256};
use aws_lc_rs::hmac::{self, HMAC_SHA256, HMAC_SHA384, HMAC_SHA512};
use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepAlgorithm};
use der::asn1::ObjectIdentifier;

/// A curve of RFC 7518 section 6.2.1.1.
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    pub(crate) oid: ObjectIdentifier,
    /// How many bytes a coordinate has, and a private key.
    pub(crate) field_bytes: usize,
    pub(crate) agreement: &'static agreement::Algorithm,
}

pub(crate) static CURVES: [Curve; 3] = [
    curve("P-256", "1.2.840.10045.3.1.7", 32, &ECDH_P256),
    curve("P-384", "1.3.132.0.34", 48, &ECDH_P384),
    curve("P-521", "1.3.132.0.35", 66, &ECDH_P521),
];

const fn curve(
    name: &'static str,
    oid: &str,
    field_bytes: usize,
    agreement: &'static agreement::Algorithm,
) -> Curve {
    Curve { name, oid: ObjectIdentifier::new_unwrap(oid), field_bytes, agreement }
}

impl Curve {
    pub(crate) fn from_name(name: &str) -> Option<&'static Self> {
        CURVES.iter().find(|curve| curve.name == name)
    }
}

/// How the content's key is wrapped: the header member `alg`, RFC 7518 section 4.
pub(crate) struct KeyAlgorithm {
    pub(crate) name: &'static str,
    /// The padding, if this is RSA.
    pub(crate) oaep: Option<&'static OaepAlgorithm>,
    /// How many bytes the agreed key has that wraps the content's key; 0 for RSA.
    pub(crate) agreed_bytes: usize,
}

static KEY_ALGORITHMS: [KeyAlgorithm; 5] = [
    KeyAlgorithm { name: "RSA-OAEP", oaep: Some(&OAEP_SHA1_MGF1SHA1), agreed_bytes: 0 },
    KeyAlgorithm { name: "RSA-OAEP-256", oaep: Some(&OAEP_SHA256_MGF1SHA256), agreed_bytes: 0 },
    KeyAlgorithm { name: "ECDH-ES+A128KW", oaep: None, agreed_bytes: 16 },
    KeyAlgorithm { name: "ECDH-ES+A192KW", oaep: None, agreed_bytes: 24 },
    KeyAlgorithm { name: "ECDH-ES+A256KW", oaep: None, agreed_bytes: 32 },
];

impl KeyAlgorithm {
    pub(crate) fn from_name(name: &str) -> Option<&'static Self> {
        KEY_ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
    }
}

/// How the content is encrypted: the header member `enc`, RFC 7518 section 5.
pub(crate) struct ContentEncryption {
    pub(crate) name: &'static str,
    pub(crate) key_bytes: usize,
    pub(crate) iv_bytes: usize,
    pub(crate) tag_bytes: usize,
    pub(crate) cipher: ContentCipher,
}

pub(crate) enum ContentCipher {
    Gcm(&'static aead::Algorithm),
    /// The first half of the key is the HMAC's.
    CbcHmac(&'static cipher::Algorithm, hmac::Algorithm),
}

static CONTENT_ENCRYPTIONS: [ContentEncryption; 6] = [
    gcm("A128GCM", 16, &AES_128_GCM),
    gcm("A192GCM", 24, &AES_192_GCM),
    gcm("A256GCM", 32, &AES_256_GCM),
    cbc_hmac("A128CBC-HS256", 16, &AES_128, HMAC_SHA256),
    cbc_hmac("A192CBC-HS384", 24, &AES_192, HMAC_SHA384),
    cbc_hmac("A256CBC-HS512", 32, &AES_256, HMAC_SHA512),
];

const fn gcm(
    name: &'static str,
    key_bytes: usize,
    cipher: &'static aead::Algorithm,
) -> ContentEncryption {
    let cipher = ContentCipher::Gcm(cipher);
    ContentEncryption { name, key_bytes, iv_bytes: 12, tag_bytes: 16, cipher }
}

/// The tag is as long as the cipher's key, and the key has as much again for the HMAC.
const fn cbc_hmac(
    name: &'static str,
    tag_bytes: usize,
    cipher: &'static cipher::Algorithm,
    mac: hmac::Algorithm,
) -> ContentEncryption {
    let cipher = ContentCipher::CbcHmac(cipher, mac);
    ContentEncryption { name, key_bytes: 2 * tag_bytes, iv_bytes: 16, tag_bytes, cipher }
}

impl ContentEncryption {
    pub(crate) fn from_name(name: &str) -> Option<&'static Self> {
        CONTENT_ENCRYPTIONS.iter().find(|encryption| encryption.name == name)
    }
}

/// Names that the JOSE registry and its neighbours have for what is not supported here. Only these
/// are repeated in errors.
const UNSUPPORTED: &str = "\
    dir RSA1_5 RSA-OAEP-384 RSA-OAEP-512 ECDH-ES ECDH-1PU A128KW A192KW A256KW A128GCMKW \
    A192GCMKW A256GCMKW PBES2-HS256+A128KW PBES2-HS384+A192KW PBES2-HS512+A256KW C20PKW \
    XC20PKW C20P XC20P none HS256 HS384 HS512 RS256 RS384 RS512 ES384 ES512 ES256K PS256 \
    PS384 PS512 EdDSA";

/// A foreign name for a message: the name if it is a known one, and else words that repeat nothing.
pub(crate) fn shown(name: &str) -> &'static str {
    let ours = KEY_ALGORITHMS.iter().map(|algorithm| algorithm.name);
    let ours = ours.chain(CONTENT_ENCRYPTIONS.iter().map(|encryption| encryption.name));
    let mut known = ours.chain(UNSUPPORTED.split(' ')).chain(["ES256"]);
    known.find(|known| *known == name).unwrap_or("an unknown algorithm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_and_foreign_ones_are_not_repeated() {
        for name in ["RSA-OAEP", "ECDH-ES+A256KW", "A256GCM", "ES256"] {
            assert_eq!(shown(name), name);
        }
        for name in UNSUPPORTED.split(' ') {
            assert!(KeyAlgorithm::from_name(name).is_none());
            assert!(ContentEncryption::from_name(name).is_none());
            assert_eq!(shown(name), name);
        }
        assert_eq!(UNSUPPORTED.split(' ').count(), 33);
        for name in ["rsa-oaep", "RSA-OAEP ", "", "hunter2"] {
            assert_eq!(shown(name), "an unknown algorithm", "{name}");
            assert!(KeyAlgorithm::from_name(name).is_none());
        }
    }
}
