//! Where the evidence of each platform of Kata's has the digest of initdata.
//!
//! Spec: `docs/format.md`, "Initdata". Kata's host fills all of these fields in one way; the guest
//! of this project reads those of SEV-SNP and TDX.

use crate::digest::Field;

/// A field of the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name in messages.
    pub name: &'static str,
    /// Its length in bytes.
    pub bytes: usize,
}

/// AMD SEV-SNP.
pub const SNP: Place = Place { name: "SNP HOSTDATA", bytes: 32 };

/// Intel TDX.
pub const TDX: Place = Place { name: "TDX MRCONFIGID", bytes: 48 };

/// Arm CCA.
pub const CCA: Place = Place { name: "CCA personalization value", bytes: 64 };

/// IBM Secure Execution.
pub const SE: Place = Place { name: "SE user data", bytes: 256 };

/// All of them.
pub const ALL: [Place; 4] = [SNP, TDX, CCA, SE];

impl Place {
    /// The field as a host fills it: `digest` cut at its end, or zero bytes behind it.
    #[must_use]
    pub fn filled(self, digest: &[u8]) -> Field {
        let mut bytes = digest.to_vec();
        bytes.resize(self.bytes, 0);
        Field { name: self.name, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Algorithm;

    /// The lengths are those of `adjust_digest` in Kata's `kata-types`.
    #[test]
    fn each_platform_has_a_digest_cut_or_padded() {
        use Algorithm::{Sha256, Sha384, Sha512};
        for (place, algorithm, taken, zeros) in [
            (SNP, Sha256, 32, 0),
            (SNP, Sha384, 32, 0),
            (SNP, Sha512, 32, 0),
            (TDX, Sha256, 32, 16),
            (TDX, Sha384, 48, 0),
            (TDX, Sha512, 48, 0),
            (CCA, Sha256, 32, 32),
            (CCA, Sha384, 48, 16),
            (CCA, Sha512, 64, 0),
            (SE, Sha256, 32, 224),
            (SE, Sha384, 48, 208),
            (SE, Sha512, 64, 192),
        ] {
            let digest = algorithm.digest(b"document");
            let expected = [&digest[..taken], &vec![0; zeros]].concat();
            let field = place.filled(&digest);
            assert_eq!(field.bytes, expected, "{algorithm} in {}", place.name);
            assert_eq!(field.name, place.name);
        }
    }

    #[test]
    fn no_two_platforms_share_a_name_or_a_length() {
        for (number, place) in ALL.iter().enumerate() {
            for other in &ALL[..number] {
                assert!(place.name != other.name && place.bytes != other.bytes);
            }
        }
    }
}
