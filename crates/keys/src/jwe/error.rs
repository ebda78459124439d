//! Why a message is not opened.

use super::limits::{MAX_RECIPIENTS, MAX_TEXT_BYTES};

/// Why a message is not opened. The words fit after "failed to open the JWE: " and repeat nothing
/// of the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JweError {
    /// Longer than [`MAX_TEXT_BYTES`].
    #[error("it has more than {MAX_TEXT_BYTES} bytes")]
    TooLong,
    /// It is not of any form of RFC 7516, or two readers could read it differently.
    #[error("it {0}")]
    Malformed(&'static str),
    /// More than [`MAX_RECIPIENTS`].
    #[error("it has more than {MAX_RECIPIENTS} recipients")]
    TooManyRecipients,
    /// It has extensions that must be understood (`crit`).
    #[error("it has critical extensions (crit), and none is supported; encrypt without them")]
    Critical,
    /// It is compressed: what a length tells of compressed secrets, and how large they become, is
    /// more than this is worth.
    #[error("it is compressed (zip), which is not supported; encrypt without compression")]
    Compressed,
    /// The content is encrypted in a way that is not supported.
    #[error(
        "its content is encrypted with {0}, which is not supported; use A256GCM, which is what \
        skopeo uses, or another of A128GCM, A192GCM, \
         A128CBC-HS256, A192CBC-HS384 and A256CBC-HS512"
    )]
    ContentEncryption(&'static str),
    /// No recipient's algorithm is supported.
    #[error(
        "its key is wrapped with {0}, which is not supported; use RSA-OAEP, RSA-OAEP-256, or \
        ECDH-ES+A256KW, +A192KW or +A128KW on P-256, \
         P-384 or P-521"
    )]
    KeyAlgorithm(String),
    /// No key opens it, or it was changed. The two cannot be told apart.
    #[error(
        "none of the keys opens it, or it was changed: it is encrypted for {wanted}, and the keys \
        are {had}; give the private key of one of \
         its recipients"
    )]
    NoKey {
        /// What its recipients use, such as `RSA-OAEP` or `ECDH-ES+A256KW on P-384`.
        wanted: String,
        /// How many keys there were of which kinds, such as `2 of RSA, 1 of P-256`.
        had: String,
    },
    /// The caller stopped the work before all keys were tried.
    #[error(
        "not all keys were tried on all of its recipients, because that would have been too much \
        work"
    )]
    Stopped,
}
