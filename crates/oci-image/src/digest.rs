//! Digests of content, and the type that keeps bytes apart from their use until they were hashed.

use std::fmt;

use foreign_text::hex;
use sha2::Digest as _;

/// The name of some content: an algorithm and the hash of every byte.
///
/// Invariant: the value is lower-case hexadecimal of the algorithm's length, so the text is safe in
/// a path or a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

/// The algorithms that an image may be pinned with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Algorithm {
    Sha256,
    Sha512,
}

/// Why a text is not a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDigest {
    /// Neither `sha256:` nor `sha512:`.
    #[error("a digest begins with \"sha256:\" or \"sha512:\"")]
    Algorithm,
    /// An algorithm for which other content with the same hash can be made.
    #[error(
        "MD5 and SHA-1 pin no content, because others with the same hash can be made: a digest \
        begins with \"sha256:\" or \"sha512:\""
    )]
    Weak,
    /// Not as many digits as the algorithm has.
    #[error(
        "the digest has {found} hexadecimal digits instead of {expected}; it was cut or has text \
        after it"
    )]
    Length {
        /// How many the algorithm has.
        expected: usize,
        /// How many bytes follow the colon.
        found: usize,
    },
    /// Upper-case letters. The specification forbids them, and two spellings of one digest would be
    /// two names.
    #[error("the hexadecimal digits of a digest are lower-case")]
    Uppercase,
    /// Something else than hexadecimal digits.
    #[error("a digest has nothing but hexadecimal digits after the colon")]
    Character,
}

/// Received content is not what its digest or descriptor says.
///
/// What came is not shown: the message leaves the guest, and the host may have named a server that
/// it cannot ask itself. `Debug` has it, for the guest's log at its lowest level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// Another content came.
    #[error("expected {expected}, but something else came")]
    Digest {
        /// The digest asked for.
        expected: Digest,
        /// The digest of what came.
        received: Digest,
        /// How much came.
        received_bytes: u64,
    },
    /// The descriptor names another size.
    #[error("expected {expected} bytes for {digest}, but another number came")]
    Size {
        /// The digest asked for.
        digest: Digest,
        /// The size in the descriptor.
        expected: u64,
        /// How much came.
        received: u64,
    },
}

impl Digest {
    /// Reads `sha256:` or `sha512:` and the hash.
    ///
    /// # Errors
    ///
    /// [`InvalidDigest`] names the rule that the text breaks.
    pub fn parse(text: &str) -> Result<Self, InvalidDigest> {
        let (algorithm, hex) = text.split_once(':').ok_or(InvalidDigest::Algorithm)?;
        let algorithm = match algorithm {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            "md5" | "sha1" => return Err(InvalidDigest::Weak),
            _ => return Err(InvalidDigest::Algorithm),
        };
        if hex.len() != algorithm.digits() {
            return Err(InvalidDigest::Length { expected: algorithm.digits(), found: hex.len() });
        }
        if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(InvalidDigest::Character);
        }
        if hex.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(InvalidDigest::Uppercase);
        }
        Ok(Self { algorithm, hex: hex.to_owned() })
    }

    /// A hasher for the algorithm of this digest.
    pub fn hasher(&self) -> Hasher {
        match self.algorithm {
            Algorithm::Sha256 => Hasher::Sha256(sha2::Sha256::new()),
            Algorithm::Sha512 => Hasher::Sha512(Box::new(sha2::Sha512::new())),
        }
    }

    /// The name of a file or directory that holds the content: the text with a hyphen for the
    /// colon.
    pub fn file_name(&self) -> String {
        format!("{}-{}", self.algorithm.name(), self.hex)
    }

    /// Compares with what was received.
    ///
    /// # Errors
    ///
    /// [`Mismatch::Digest`].
    pub fn check(&self, received: Digest, received_bytes: u64) -> Result<(), Mismatch> {
        if *self == received {
            return Ok(());
        }
        Err(Mismatch::Digest { expected: self.clone(), received, received_bytes })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// How many hexadecimal digits a hash has.
    fn digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// A hash in progress.
#[derive(Clone)]
pub enum Hasher {
    /// SHA-256.
    Sha256(sha2::Sha256),
    /// SHA-512; boxed because its state is twice as large.
    Sha512(Box<sha2::Sha512>),
}

impl Hasher {
    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(state) => state.update(bytes),
            Self::Sha512(state) => state.update(bytes),
        }
    }

    /// The digest of everything taken in.
    pub fn finish(self) -> Digest {
        match self {
            Self::Sha256(state) => {
                Digest { algorithm: Algorithm::Sha256, hex: hex::encode(&state.finalize()) }
            }
            Self::Sha512(state) => {
                Digest { algorithm: Algorithm::Sha512, hex: hex::encode(&state.finalize()) }
            }
        }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}

/// Bytes as a registry sent them. Nothing but [`Unverified::verify`] gives them out.
pub struct Unverified(Vec<u8>);

impl Unverified {
    /// Wraps what was received.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Gives the bytes out if they are the content that the digest names, of the size its
    /// descriptor gives.
    ///
    /// # Errors
    ///
    /// [`Mismatch`]; the bytes are gone.
    pub fn verify(self, digest: &Digest, size: Option<u64>) -> Result<Vec<u8>, Mismatch> {
        let received = self.0.len() as u64;
        let mut hasher = digest.hasher();
        hasher.update(&self.0);
        digest.check(hasher.finish(), received)?;
        match size {
            Some(expected) if expected != received => {
                Err(Mismatch::Size { digest: digest.clone(), expected, received })
            }
            _ => Ok(self.0),
        }
    }

    /// Names the bytes by what they are (SHA-256) instead of checking that they are what they
    /// should be.
    ///
    /// Only for `imagepuller pull --insecure-no-digest`, which asks a registry what a tag stands
    /// for: this believes whatever came.
    pub fn name_by_content(self) -> (Digest, Vec<u8>) {
        let mut hasher = Hasher::Sha256(sha2::Sha256::new());
        hasher.update(&self.0);
        (hasher.finish(), self.0)
    }
}

impl fmt::Debug for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unverified({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn only_lower_case_digests_of_the_right_length_are_read() {
        let (hex64, hex128) = ("a".repeat(64), "0".repeat(128));
        assert!(Digest::parse(&format!("sha256:{hex64}")).is_ok());
        assert!(Digest::parse(&format!("sha512:{hex128}")).is_ok());
        let length = |expected, found| InvalidDigest::Length { expected, found };
        for (text, why) in [
            (hex64.clone(), InvalidDigest::Algorithm),
            (format!("sha384:{hex64}"), InvalidDigest::Algorithm),
            (format!("SHA256:{hex64}"), InvalidDigest::Algorithm),
            (format!("md5:{}", &hex64[..32]), InvalidDigest::Weak),
            (format!("sha1:{}", &hex64[..40]), InvalidDigest::Weak),
            (format!("sha256:{}", hex64.to_uppercase()), InvalidDigest::Uppercase),
            (format!("sha512:{hex64}"), length(128, 64)),
            (format!("sha256:{hex64}a"), length(64, 65)),
            (format!("sha256:{}", &hex64[1..]), length(64, 63)),
            (format!("sha256:../{}", &hex64[3..]), InvalidDigest::Character),
            (format!("sha256:{}é", &hex64[2..]), InvalidDigest::Character),
            ("sha256:".to_owned(), length(64, 0)),
        ] {
            assert_eq!(Digest::parse(&text), Err(why), "{text}");
        }
    }

    #[test]
    fn bytes_come_out_only_if_digest_and_size_hold() {
        let digest = Digest::parse(ABC).unwrap();
        assert_eq!(Unverified::new(b"abc".to_vec()).verify(&digest, Some(3)).unwrap(), b"abc");
        assert!(matches!(
            Unverified::new(b"abd".to_vec()).verify(&digest, None),
            Err(Mismatch::Digest { .. })
        ));
        assert!(matches!(
            Unverified::new(b"abc".to_vec()).verify(&digest, Some(4)),
            Err(Mismatch::Size { .. })
        ));
    }

    #[test]
    fn bytes_are_named_by_what_they_are() {
        let (digest, bytes) = Unverified::new(b"abc".to_vec()).name_by_content();
        assert_eq!(digest.to_string(), ABC);
        assert_eq!(bytes, b"abc");
    }

    #[test]
    fn both_algorithms_hash() {
        let empty = Digest::parse(&format!("sha512:{}", "0".repeat(128))).unwrap();
        assert!(empty.hasher().finish().to_string().starts_with("sha512:cf83e1357eefb8bd"));
        let mut hasher = Digest::parse(ABC).unwrap().hasher();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish().to_string(), ABC);
    }
}
