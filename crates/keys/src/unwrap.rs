//! Which way led to a layer's key, or why none did.

use std::fmt;

use crate::encryption::PROVIDER_NAME;
use crate::layer_key::LayerKey;
use crate::options::InvalidOptions;
use crate::packet::{InvalidPacket, Unopened};
use crate::scheme::Scheme;

/// The most ways that a message shows.
const MAX_SHOWN: usize = 4;

/// A layer's key, and how it was found.
#[derive(Debug)]
pub struct Unlocked {
    /// The key.
    pub key: LayerKey,
    /// How.
    pub how: How,
}

/// How a layer's key was found: fit for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// With a private key.
    Jwe {
        /// Of key management.
        algorithm: &'static str,
        /// Which of the keys given, counted from 0.
        key: usize,
    },
    /// With a key of the key broker.
    KeyProvider {
        /// The name of the provider in the annotation.
        name: String,
        /// The name of the key.
        kid: String,
    },
    /// By a data hub, which alone has the key.
    Hub,
}

impl fmt::Display for How {
    /// Keys are counted from 1 here.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jwe { algorithm, key } => {
                write!(f, "JWE {algorithm}, decryption key {}", key + 1)
            }
            Self::KeyProvider { name, kid } => write!(f, "key provider {name}, {kid}"),
            Self::Hub => f.write_str("by UnWrapKey of the hub"),
        }
    }
}

/// A way to a layer's key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// A JWE.
    Jwe {
        /// Which entry of the annotation, counted from 1.
        entry: usize,
    },
    /// A packet of CoCo's key provider.
    KeyProvider {
        /// Which entry of the annotation, counted from 1.
        entry: usize,
        /// The name of the key broker's key, where the packet can be read.
        kid: Option<String>,
    },
    /// Something that is not read here.
    Unread(Scheme),
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jwe { entry } => write!(f, "JWE {entry}"),
            Self::KeyProvider { entry, kid } => {
                write!(f, "key provider {PROVIDER_NAME} {entry}")?;
                match kid {
                    Some(kid) => write!(f, ", {kid}"),
                    None => Ok(()),
                }
            }
            Self::Unread(scheme) => write!(f, "{scheme}"),
        }
    }
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
    refused: Vec<(Way, Refused)>,
}

impl UnwrapError {
    pub(crate) fn new(refused: Vec<(Way, Refused)>) -> Self {
        Self { refused }
    }

    /// Every way, with the reason.
    pub fn refused(&self) -> &[(Way, Refused)] {
        &self.refused
    }
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
