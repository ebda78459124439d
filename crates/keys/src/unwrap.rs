//! Which way led to a layer's key, or why none did.

use std::fmt;

use crate::layer_key::LayerKey;
use crate::options::InvalidOptions;
use crate::packet::{InvalidPacket, Unopened};

/// The most ways that a message shows.
const MAX_SHOWN: usize = 4;

/// A layer's key, and how it was found.
#[derive(Debug)]
pub struct Unlocked {
    /// The key.
    pub key: LayerKey,
    /// How: fit for logs.
    pub how: String,
    /// Which of the private keys did it, counted from 0.
    pub by: Option<usize>,
}

/// Why a way did not lead to the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// There is none to try.
    #[error("there is no decryption key to try")]
    NoKeys,
    /// It cannot be read.
    #[error("{0}")]
    Jwe(String),
    /// It can be read, and no key opens it: what its recipients use. The keys that were tried are
    /// not listed, because some may be a key broker's.
    #[error(
        "no private key opens it, or it was changed: it is encrypted for {0}; give the private key \
        of one of its recipients"
    )]
    NoKeyOpens(String),
    /// The [`Effort`](crate::Effort) was spent before every key was tried.
    #[error("not every key was tried on it")]
    Stopped,
    /// It cannot be read.
    #[error(transparent)]
    Packet(InvalidPacket),
    /// The key that it names is not there.
    #[error("the key of that name could not be had")]
    NotFetched,
    /// The key that it names does not open it.
    #[error(transparent)]
    Unopened(Unopened),
    /// What was wrapped with the right key cannot be used.
    #[error("what was wrapped are no usable options: {0}")]
    Options(InvalidOptions),
    /// Not supported.
    #[error(
        "this is not supported; encrypt the image for a JWE key or for a key of the key broker as \
        well"
    )]
    Unread,
}

/// No way led to the layer's key. Shown are the ways alone: who has the layer says that none did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwrapError {
    /// Every way, with the reason.
    pub refused: Vec<(String, Refused)>,
}

impl fmt::Display for UnwrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Said first, because the ways that were stopped may be among those that are not shown.
        if self.refused.iter().any(|(_, why)| *why == Refused::Stopped) {
            f.write_str("there are more keys and recipients than are tried; ")?;
        }
        for (at, (way, why)) in self.refused.iter().take(MAX_SHOWN).enumerate() {
            let before = if at == 0 { "" } else { "; " };
            write!(f, "{before}{way}: {why}")?;
        }
        match self.refused.len().saturating_sub(MAX_SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for UnwrapError {}
