//! Digests in hexadecimal.

use std::fmt::Write;

use sha2::Digest;

/// The digest of `bytes` by the algorithm `D`, in lower-case hexadecimal.
pub fn hex<D: Digest>(bytes: &[u8]) -> String {
    D::digest(bytes)
        .iter()
        .fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        // FIPS 180-4, the one-block example "abc".
        assert_eq!(
            hex::<sha2::Sha256>(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(hex::<sha2::Sha384>(b"").len(), 96);
    }
}
