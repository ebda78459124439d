//! Private keys that open JWEs, in the forms that people keep them in.
//!
//! It reads PEM and DER of PKCS#8, PKCS#1 and SEC1, PKCS#8 with a password, and JWK. For any other
//! form the error names the form and says how to convert it.

mod der;
mod jwk;
mod password;
mod pem;

use std::fmt;

use aws_lc_rs::agreement;
use aws_lc_rs::rsa::OaepPrivateDecryptingKey;

use crate::algorithm::{Curve, KeyAlgorithm};

pub(crate) use jwk::public_point;

/// The longest key, in bytes: many times as long as RSA with 8192 bits in any form. Raising it
/// breaks nothing.
pub const MAX_KEY_BYTES: usize = 64 << 10;

/// A private key: RSA of 2048 to 8192 bits, or on P-256, P-384 or P-521. The libraries below zero
/// their copies.
pub struct PrivateKey {
    pub(crate) kind: Kind,
    /// The only algorithm that it is for, if it says so.
    pub(crate) algorithm: Option<&'static KeyAlgorithm>,
}

pub(crate) enum Kind {
    Rsa(OaepPrivateDecryptingKey),
    Ec { curve: &'static Curve, key: agreement::PrivateKey },
}

/// Why bytes are not a usable private key. The words fit after "failed to read the key: " and
/// repeat no byte of the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Longer than [`MAX_KEY_BYTES`].
    #[error("it has more than {MAX_KEY_BYTES} bytes, so it is no single key")]
    TooLong,
    /// It is in no form that is known here.
    #[error("it is neither PEM nor DER nor JWK; give a private key in one of these forms")]
    NotAKey,
    /// It is something else, which has a name, with what to do about it.
    #[error("it is {0}")]
    SomethingElse(&'static str),
    /// It has the outer form of a key and does not keep to it.
    #[error("it begins like {0} but does not go on like that; copy or export it again")]
    Damaged(&'static str),
    /// More than one private key; which one is meant is not clear.
    #[error("it has more than one private key; give them one by one")]
    Several,
    /// A kind of key that opens no JWE that is supported.
    #[error(
        "it is a private key of a kind that is not supported; use RSA of 2048 to 8192 bits, or EC \
        on P-256, P-384 or P-521, named by its OID"
    )]
    Kind,
    /// An RSA key that is too weak or too costly.
    #[error("it is an RSA key that has not between 2048 and 8192 bits; make a new one")]
    RsaLength,
    /// Numbers that are no key, or a public half that belongs to another one.
    #[error("its numbers do not belong together; export it again")]
    Inconsistent,
    /// PEM as OpenSSL encrypted it before PKCS#8, with a key derivation that protects nothing.
    #[error(
        "it is PEM with the old encryption (Proc-Type: 4,ENCRYPTED), which is not supported; \
        convert it with `openssl pkcs8 -topk8 -v2 \
         aes-256-cbc -in OLD -out NEW`"
    )]
    LegacyEncryption,
    /// Encrypted in another way than with PBES2, AES, and PBKDF2 or scrypt.
    #[error(
        "it is encrypted in a way that is not supported; convert it with `openssl pkcs8 -topk8 -v2 \
        aes-256-cbc -v2prf hmacWithSHA256 -in OLD -out \
         NEW`"
    )]
    Encryption,
    /// Trying a password on it would cost so much that it looks like an attack.
    #[error(
        "trying a password on it costs more than is allowed ({0}); convert it with `openssl pkcs8 \
        -topk8 -v2 aes-256-cbc -iter 600000 -in OLD -out \
         NEW`"
    )]
    Cost(&'static str),
    /// Encrypted, and no password came with it.
    #[error("it is encrypted, and there is no password for it; give the password with the key")]
    PasswordMissing,
    /// The password is another one, or the key was changed.
    #[error("its password does not open it, or it is damaged")]
    Password,
    /// A JWK that cannot be used, and why.
    #[error("it is a JWK that {0}")]
    Jwk(&'static str),
    /// A JWK for an algorithm that is not supported.
    #[error(
        "it is a JWK for {0} only; use one for RSA-OAEP, RSA-OAEP-256 or ECDH-ES+A256KW, +A192KW \
        or +A128KW, that fits the kind of key, or without alg"
    )]
    JwkAlgorithm(&'static str),
}

impl PrivateKey {
    /// Reads a key: PEM or DER of PKCS#8 (plain, or encrypted with `password`), PKCS#1 or SEC1, or
    /// a JWK. A password for a key that needs none is ignored. Beside the one private key, PEM may
    /// have other blocks, such as its certificate.
    ///
    /// However hostile the bytes, reading them takes bounded time and memory: a password costs at
    /// most some seconds and 64 MiB.
    ///
    /// # Errors
    ///
    /// If it is no private key, not one that can be used, or not opened by the password.
    pub fn read(bytes: &[u8], password: Option<&[u8]>) -> Result<Self, KeyError> {
        if bytes.len() > MAX_KEY_BYTES {
            return Err(KeyError::TooLong);
        }
        let text = bytes.trim_ascii();
        if let Some(found) = pem::private_key(text)? {
            return Ok(der::read(found.label, &found.der, password)?.into());
        }
        match bytes.first() {
            Some(0x30) => Ok(der::read(der::Label::None, bytes, password)?.into()),
            _ if text.starts_with(b"{") => {
                let (kind, algorithm) = jwk::read(text)?;
                Ok(Self { kind, algorithm })
            }
            first => Err(something_else(first.copied(), text)),
        }
    }

    /// The public half of a key on a curve, uncompressed as SEC1 has it: for tests only.
    #[doc(hidden)]
    pub fn public_point(&self) -> Option<Vec<u8>> {
        match &self.kind {
            Kind::Rsa(_) => None,
            Kind::Ec { key, .. } => key.compute_public_key().ok().map(|key| key.as_ref().to_vec()),
        }
    }

    /// The kind in words for a message, such as `RSA` or `P-256 (ECDH-ES+A256KW only)`.
    pub fn describe(&self) -> String {
        let kind = match &self.kind {
            Kind::Rsa(_) => "RSA",
            Kind::Ec { curve, .. } => curve.name,
        };
        match self.algorithm {
            Some(algorithm) => format!("{kind} ({} only)", algorithm.name),
            None => kind.to_owned(),
        }
    }
}

impl From<Kind> for PrivateKey {
    fn from(kind: Kind) -> Self {
        Self { kind, algorithm: None }
    }
}

/// Never the key.
impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.describe())
    }
}

/// Names what people take for a private key, if it is none of the three forms.
fn something_else(first: Option<u8>, text: &[u8]) -> KeyError {
    const SSH: [&[u8]; 3] = [b"ssh-", b"ecdsa-sha2-", b"sk-"];
    if SSH.iter().any(|prefix| text.starts_with(prefix)) {
        return KeyError::SomethingElse(
            "a public SSH key; give the private key in the form of PKCS#8",
        );
    }
    // The packets that an OpenPGP ring begins with, RFC 9580 section 4.2: a secret key (5) or a
    // public key (6), old or new form.
    if matches!(first, Some(0x94..=0x9b | 0xc5 | 0xc6)) {
        return KeyError::SomethingElse(pem::OPENPGP);
    }
    KeyError::NotAKey
}
