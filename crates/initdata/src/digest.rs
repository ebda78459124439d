//! The document's digest and its place in the evidence.
//!
//! Spec: `docs/format.md`, "Initdata"; the digest is over the document's bytes as delivered, after
//! inflating.

use std::fmt;

use sha2::{Digest as _, Sha256, Sha384, Sha512};

/// A hash function that initdata may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256, 32 bytes.
    Sha256,
    /// SHA-384, 48 bytes.
    Sha384,
    /// SHA-512, 64 bytes.
    Sha512,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// The algorithm that a document names: Kata's spelling (`sha256`) or the specification's
    /// (`sha-256`).
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "sha256" | "sha-256" => Some(Self::Sha256),
            "sha384" | "sha-384" => Some(Self::Sha384),
            "sha512" | "sha-512" => Some(Self::Sha512),
            _ => None,
        }
    }

    /// The digest of `bytes`.
    #[must_use]
    pub fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha384 => Sha384::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        })
    }
}

/// The field of the evidence that the host filled at launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, such as "SNP HOSTDATA".
    pub name: &'static str,
    /// Its bytes, the whole field.
    pub bytes: Vec<u8>,
}

impl Field {
    /// Whether the field announces nothing: Kata leaves it zero where a pod has no initdata.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.bytes.iter().all(|byte| *byte == 0)
    }

    /// Whether the field is exactly what `digest` gives: cut at the end where it is longer, zero
    /// bytes at the end where it is shorter. The padding is compared too.
    #[must_use]
    pub fn holds(&self, digest: &[u8]) -> bool {
        let used = digest.len().min(self.bytes.len());
        let (value, padding) = self.bytes.split_at(used);
        used > 0 && value == &digest[..used] && padding.iter().all(|byte| *byte == 0)
    }

    /// The algorithm by which `document` is the announced one.
    ///
    /// All of them are tried, so that no byte of the document has to be interpreted before it is
    /// verified.
    #[must_use]
    pub fn announces(&self, document: &[u8]) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| self.holds(&algorithm.digest(document)))
    }
}

#[cfg(test)]
mod tests {
    use foreign_text::hex;

    use super::*;
    use crate::place;

    #[test]
    fn names_of_both_spellings() {
        for (name, algorithm) in [
            ("sha256", Some(Algorithm::Sha256)),
            ("sha-256", Some(Algorithm::Sha256)),
            ("sha384", Some(Algorithm::Sha384)),
            ("sha-384", Some(Algorithm::Sha384)),
            ("sha512", Some(Algorithm::Sha512)),
            ("sha-512", Some(Algorithm::Sha512)),
            ("SHA256", None),
            ("sha--256", None),
            ("sha1", None),
            ("sha3-256", None),
            ("", None),
        ] {
            assert_eq!(Algorithm::named(name), algorithm, "{name}");
        }
    }

    #[test]
    fn known_digests() {
        // FIPS 180 examples for "abc".
        for (algorithm, start) in [
            (Algorithm::Sha256, "ba7816bf8f01cfea"),
            (Algorithm::Sha384, "cb00753f45a35e8b"),
            (Algorithm::Sha512, "ddaf35a193617aba"),
        ] {
            assert!(hex::encode(&algorithm.digest(b"abc")).starts_with(start));
            assert_eq!(Algorithm::named(&algorithm.to_string()), Some(algorithm));
        }
    }

    /// Each algorithm in each field: what is cut, what is padded, and that one changed bit anywhere
    /// breaks it. The lengths are those of `adjust_digest` in Kata's `kata-types`; the last two
    /// fields are those of Arm CCA and IBM Secure Execution.
    #[test]
    fn the_whole_field_is_compared() {
        use Algorithm::{Sha256, Sha384, Sha512};
        let (snp, tdx) = (place::SNP.bytes, place::TDX.bytes);
        let document = b"document";
        for (length, algorithm, taken, zeros) in [
            (snp, Sha256, 32, 0),
            (snp, Sha384, 32, 0),
            (snp, Sha512, 32, 0),
            (tdx, Sha256, 32, 16),
            (tdx, Sha384, 48, 0),
            (tdx, Sha512, 48, 0),
            (64, Sha256, 32, 32),
            (64, Sha384, 48, 16),
            (64, Sha512, 64, 0),
            (256, Sha256, 32, 224),
            (256, Sha384, 48, 208),
            (256, Sha512, 64, 192),
        ] {
            let bytes = [&algorithm.digest(document)[..taken], &vec![0; zeros]].concat();
            assert_eq!(bytes.len(), length);
            let good = Field { name: "test", bytes };
            assert_eq!(good.announces(document), Some(algorithm));
            assert_eq!(good.announces(b"documenu"), None);
            assert!(!good.is_zero());
            for position in 0..length {
                let mut bad = good.clone();
                bad.bytes[position] ^= 1;
                assert_eq!(bad.announces(document), None, "{algorithm}, {length}, {position}");
            }
        }
    }

    #[test]
    fn a_zero_or_empty_field_announces_no_document() {
        for size in [place::SNP.bytes, place::TDX.bytes, 64, 256, 0] {
            let field = Field { name: "test", bytes: vec![0; size] };
            assert!(field.is_zero());
            assert_eq!(field.announces(b""), None);
            assert!(!field.holds(&[]));
        }
    }
}
