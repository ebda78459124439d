//! The algorithms of RFC 7518 that are supported, and the names of those that are not.

use aws_lc_rs::agreement;
use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepAlgorithm};

/// A curve of RFC 7518 section 6.2.1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    pub(crate) const ALL: [Self; 3] = [Self::P256, Self::P384, Self::P521];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::P521 => "P-521",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.name() == name)
    }

    /// How many bytes a coordinate has, and a private key.
    pub(crate) fn field_bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    pub(crate) fn agreement(self) -> &'static agreement::Algorithm {
        match self {
            Self::P256 => &agreement::ECDH_P256,
            Self::P384 => &agreement::ECDH_P384,
            Self::P521 => &agreement::ECDH_P521,
        }
    }
}

/// How the content's key is wrapped: the header member `alg`, RFC 7518 section 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyAlgorithm {
    RsaOaep,
    RsaOaep256,
    EcdhEsA128Kw,
    EcdhEsA192Kw,
    EcdhEsA256Kw,
}

impl KeyAlgorithm {
    const ALL: [Self; 5] = [
        Self::RsaOaep,
        Self::RsaOaep256,
        Self::EcdhEsA128Kw,
        Self::EcdhEsA192Kw,
        Self::EcdhEsA256Kw,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RsaOaep => "RSA-OAEP",
            Self::RsaOaep256 => "RSA-OAEP-256",
            Self::EcdhEsA128Kw => "ECDH-ES+A128KW",
            Self::EcdhEsA192Kw => "ECDH-ES+A192KW",
            Self::EcdhEsA256Kw => "ECDH-ES+A256KW",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|algorithm| algorithm.name() == name)
    }

    /// The padding, if this is RSA.
    pub(crate) fn oaep(self) -> Option<&'static OaepAlgorithm> {
        match self {
            Self::RsaOaep => Some(&OAEP_SHA1_MGF1SHA1),
            Self::RsaOaep256 => Some(&OAEP_SHA256_MGF1SHA256),
            _ => None,
        }
    }

    /// How many bytes the agreed key has that wraps the content's key; 0 for RSA.
    pub(crate) fn agreed_bytes(self) -> usize {
        match self {
            Self::RsaOaep | Self::RsaOaep256 => 0,
            Self::EcdhEsA128Kw => 16,
            Self::EcdhEsA192Kw => 24,
            Self::EcdhEsA256Kw => 32,
        }
    }
}

/// How the content is encrypted: the header member `enc`, RFC 7518 section 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentEncryption {
    A128Gcm,
    A192Gcm,
    A256Gcm,
    A128CbcHs256,
    A192CbcHs384,
    A256CbcHs512,
}

impl ContentEncryption {
    const ALL: [Self; 6] = [
        Self::A128Gcm,
        Self::A192Gcm,
        Self::A256Gcm,
        Self::A128CbcHs256,
        Self::A192CbcHs384,
        Self::A256CbcHs512,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::A128Gcm => "A128GCM",
            Self::A192Gcm => "A192GCM",
            Self::A256Gcm => "A256GCM",
            Self::A128CbcHs256 => "A128CBC-HS256",
            Self::A192CbcHs384 => "A192CBC-HS384",
            Self::A256CbcHs512 => "A256CBC-HS512",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|encryption| encryption.name() == name)
    }

    pub(crate) fn key_bytes(self) -> usize {
        match self {
            Self::A128Gcm => 16,
            Self::A192Gcm => 24,
            Self::A256Gcm | Self::A128CbcHs256 => 32,
            Self::A192CbcHs384 => 48,
            Self::A256CbcHs512 => 64,
        }
    }

    pub(crate) fn iv_bytes(self) -> usize {
        match self {
            Self::A128Gcm | Self::A192Gcm | Self::A256Gcm => 12,
            _ => 16,
        }
    }

    pub(crate) fn tag_bytes(self) -> usize {
        match self {
            Self::A128Gcm | Self::A192Gcm | Self::A256Gcm | Self::A128CbcHs256 => 16,
            Self::A192CbcHs384 => 24,
            Self::A256CbcHs512 => 32,
        }
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
    if let Some(algorithm) = KeyAlgorithm::from_name(name) {
        return algorithm.name();
    }
    if let Some(encryption) = ContentEncryption::from_name(name) {
        return encryption.name();
    }
    let mut known = UNSUPPORTED.split(' ').chain(["ES256"]);
    known.find(|known| *known == name).unwrap_or("an unknown algorithm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_foreign_ones_are_not_repeated() {
        for algorithm in KeyAlgorithm::ALL {
            assert_eq!(KeyAlgorithm::from_name(algorithm.name()), Some(algorithm));
            assert_eq!(shown(algorithm.name()), algorithm.name());
        }
        for encryption in ContentEncryption::ALL {
            assert_eq!(ContentEncryption::from_name(encryption.name()), Some(encryption));
        }
        for name in UNSUPPORTED.split(' ') {
            assert_eq!(KeyAlgorithm::from_name(name), None);
            assert_eq!(ContentEncryption::from_name(name), None);
            assert_eq!(shown(name), name);
        }
        assert_eq!(UNSUPPORTED.split(' ').count(), 33);
        for name in ["rsa-oaep", "RSA-OAEP ", "", "hunter2"] {
            assert_eq!(shown(name), "an unknown algorithm", "{name}");
            assert_eq!(KeyAlgorithm::from_name(name), None);
        }
    }
}
