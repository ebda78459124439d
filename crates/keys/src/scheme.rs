//! The schemes of wrapping keys that are not read, by their names.

use std::fmt;

use foreign_text::shown;

/// What the names of key providers begin with.
const PROVIDER: &str = "provider.";

/// A scheme of wrapping keys that is not read.
///
/// PKCS#7 is not because its keys are transported with RSA PKCS #1 v1.5, the padding that decades
/// of attacks were about, in ASN.1 in BER, for which the maintained crates have types but no
/// decryption: it would be much code for what JWE does better. Images can be given a JWE key beside
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheme {
    /// OpenPGP.
    Pgp,
    /// CMS enveloped data.
    Pkcs7,
    /// Keys in hardware modules.
    Pkcs11,
    /// Another program, by the name that the image gives it.
    Provider(String),
    /// None that is known, by the name that the image gives it.
    Other(String),
}

impl Scheme {
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "pgp" => Self::Pgp,
            "pkcs7" => Self::Pkcs7,
            "pkcs11" => Self::Pkcs11,
            _ => match name.strip_prefix(PROVIDER) {
                Some(provider) => Self::Provider(provider.to_owned()),
                None => Self::Other(name.to_owned()),
            },
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pgp => f.write_str("OpenPGP"),
            Self::Pkcs7 => f.write_str("PKCS#7"),
            Self::Pkcs11 => f.write_str("PKCS#11"),
            Self::Provider(name) => write!(f, "key provider {}", shown(name).quoted()),
            Self::Other(name) => write!(f, "the unknown scheme {}", shown(name).quoted()),
        }
    }
}
