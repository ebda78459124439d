//! Where the evidence of each platform has the digest of initdata.
//!
//! Spec: `docs/format.md`, "Initdata", with the fields of two more platforms, which Kata's host
//! fills in the same way.

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
