//! Signatures as they were found, and what they say for a requirement.

use std::fmt;

use oci_image::digest::Digest;

use crate::base64;
use crate::bundle::Bundle;
use crate::identity::{Identity, ImageName};
use crate::kept::Placed;
use crate::key::PublicKey;
use crate::payload::{MAX_PAYLOAD_BYTES, Payload};
use crate::refusal::{Reason, Shortcoming};
use crate::verifications::Verifications;

/// The longest base64 of a signature: RSA with 8192 bits has 1368 characters.
pub(crate) const MAX_SIGNATURE_CHARS: usize = 4096;

/// A signature that somebody handed over; nothing of it is believed.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signature {
    /// A layer of cosign's tag `sha256-….sig`: simple signing.
    Simple {
        /// The layer's content.
        payload: Vec<u8>,
        /// The layer's annotation `dev.cosignproject.cosign/signature`, in base64.
        signature: String,
    },
    /// A sigstore bundle, in JSON.
    Bundle(Vec<u8>),
}

/// A signature that was read, for one content. What it says is read when a key has verified it.
pub(crate) struct Prepared<'a> {
    digest: &'a Digest,
    /// Or what it is instead.
    content: Result<Content, Shortcoming>,
}

/// What is signed, and by what.
struct Content {
    message: Vec<u8>,
    signature: Vec<u8>,
    /// The bundle that they are of; none where the message is a payload of simple signing.
    bundle: Option<Bundle>,
}

impl Signature {
    /// How many bytes were fetched for it: its payload, or the whole bundle.
    pub fn content_bytes(&self) -> usize {
        match self {
            Self::Simple { payload, .. } => payload.len(),
            Self::Bundle(bundle) => bundle.len(),
        }
    }
}

impl<'a> Prepared<'a> {
    pub(crate) fn read((digest, signature): &'a Placed) -> Self {
        let content = match signature {
            Signature::Simple { payload, signature } => simple(payload, signature),
            Signature::Bundle(bytes) => bundle(bytes),
        };
        Self { digest, content }
    }

    /// What it lacks for being by one of the keys, for its content, under this name; nothing where
    /// it lacks nothing.
    ///
    /// # Errors
    ///
    /// The verifications are used up.
    pub(crate) fn lacks(
        &self,
        keys: &[PublicKey],
        identity: &Identity,
        asked: &ImageName,
        left: &Verifications,
    ) -> Result<Option<Shortcoming>, Reason> {
        let content = match &self.content {
            Ok(content) => content,
            Err(shortcoming) => return Ok(Some(shortcoming.clone())),
        };
        for key in keys {
            left.take()?;
            if content.is_by(key) {
                return Ok(content.lacks(self.digest, identity, asked));
            }
        }
        Ok(Some(Shortcoming::OtherKey))
    }
}

fn simple(payload: &[u8], signature: &str) -> Result<Content, Shortcoming> {
    if payload.len() > MAX_PAYLOAD_BYTES || signature.len() > MAX_SIGNATURE_CHARS {
        return Err(Shortcoming::Unreadable);
    }
    let signature = base64::decode(signature).ok_or(Shortcoming::Unreadable)?;
    Ok(Content { message: payload.to_vec(), signature, bundle: None })
}

fn bundle(bytes: &[u8]) -> Result<Content, Shortcoming> {
    match Bundle::parse(bytes) {
        Some(bundle) => Ok(Content {
            message: bundle.message(),
            signature: bundle.signature.clone(),
            bundle: Some(bundle),
        }),
        None if Bundle::is_by_certificate(bytes) => Err(Shortcoming::ByCertificate),
        None => Err(Shortcoming::Unreadable),
    }
}

impl Content {
    fn is_by(&self, key: &PublicKey) -> bool {
        match self.bundle {
            Some(_) => key.verifies_bundle(&self.message, &self.signature),
            None => key.verifies(&self.message, &self.signature),
        }
    }

    /// What a statement of a trusted key lacks.
    fn lacks(
        &self,
        digest: &Digest,
        identity: &Identity,
        asked: &ImageName,
    ) -> Option<Shortcoming> {
        let (is_for, name) = match &self.bundle {
            Some(bundle) => (bundle.is_for(digest), None),
            None => match Payload::parse(&self.message) {
                Some(payload) => (Some(payload.digest == *digest), Some(payload.reference)),
                None => (None, None),
            },
        };
        match (is_for, name) {
            (None, _) => Some(Shortcoming::NoStatement),
            (Some(false), _) => Some(Shortcoming::OtherDigest),
            (_, None) => (!identity.takes_bundles()).then_some(Shortcoming::NoName),
            (_, Some(name)) => {
                (!identity.holds(asked, &name)).then_some(Shortcoming::OtherIdentity(name))
            }
        }
    }
}

/// No foreign byte.
impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple { payload, .. } => write!(f, "Simple({} bytes)", payload.len()),
            Self::Bundle(bundle) => write!(f, "Bundle({} bytes)", bundle.len()),
        }
    }
}
