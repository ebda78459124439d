//! Signatures as they were found, and what they say for a requirement.

use std::cell::OnceCell;
use std::fmt;

use oci_image::digest::Digest;

use crate::base64;
use crate::bundle::Bundle;
use crate::identity::{Asked, Identity};
use crate::key::PublicKey;
use crate::payload::{MAX_PAYLOAD_BYTES, Payload};
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

/// What was found for one digest: that of the manifest, or of the index above it.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The content that the signatures were found beside, hashed by whoever fetched it.
    pub digest: &'a Digest,
    /// The signatures; how many there may be is bounded by whoever fetched them.
    pub signatures: &'a [Signature],
}

/// What one signature is to a requirement, from far off to fulfilling it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    /// Not a signature in one of the known forms.
    Unreadable,
    /// A bundle that a certificate signed, and no key.
    ByCertificate,
    /// By none of the keys.
    OtherKey,
    /// By a key, and what it signed is no signature of an image.
    NoStatement,
    /// By a key, for other content.
    OtherDigest,
    /// A bundle by a key for this content, where a name is asked for.
    NoName,
    /// By a key for this content under another name.
    OtherIdentity(String),
    /// The requirement is fulfilled.
    Fulfilled,
}

/// What a requirement and the conditions beside it ask of a signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// One of these signed.
    pub(crate) keys: &'a [PublicKey],
    /// The name in it.
    pub(crate) identity: &'a Identity,
    /// The image that the name must fit.
    pub(crate) asked: &'a Asked,
}

/// A signature that was read, for one content, whatever requirement asks about it. What it says is
/// read when a key has verified it, and once.
pub(crate) struct Prepared<'a> {
    digest: &'a Digest,
    content: Content,
}

enum Content {
    /// None, and what it is instead.
    Not(Match),
    /// A payload and its signature, with what it says.
    Simple(Vec<u8>, Vec<u8>, OnceCell<Option<Payload>>),
    /// What is signed, the bundle of it, and whether it is for the content.
    Bundle(Vec<u8>, Bundle, OnceCell<Option<bool>>),
}

impl<'a> Found<'a> {
    /// Reads all of them.
    pub(crate) fn prepare(&self) -> impl Iterator<Item = Prepared<'a>> + use<'a> {
        let digest = self.digest;
        let signatures = self.signatures.iter();
        signatures.map(move |one| one.prepare(digest))
    }
}

impl Signature {
    /// How many bytes were fetched for it: its payload, or the whole bundle.
    pub fn content_bytes(&self) -> usize {
        match self {
            Self::Simple { payload, .. } => payload.len(),
            Self::Bundle(bundle) => bundle.len(),
        }
    }

    /// Reads it.
    fn prepare<'a>(&self, digest: &'a Digest) -> Prepared<'a> {
        let content = match self {
            Self::Simple { payload, signature } => simple(payload, signature),
            Self::Bundle(bytes) => match Bundle::parse(bytes) {
                Some(bundle) => Content::Bundle(bundle.message(), bundle, OnceCell::new()),
                None if Bundle::is_by_certificate(bytes) => Content::Not(Match::ByCertificate),
                None => Content::Not(Match::Unreadable),
            },
        };
        Prepared { digest, content }
    }
}

fn simple(payload: &[u8], signature: &str) -> Content {
    if payload.len() > MAX_PAYLOAD_BYTES || signature.len() > MAX_SIGNATURE_CHARS {
        return Content::Not(Match::Unreadable);
    }
    let Some(signature) = base64::decode(signature) else {
        return Content::Not(Match::Unreadable);
    };
    Content::Simple(payload.to_vec(), signature, OnceCell::new())
}

impl Prepared<'_> {
    /// Compares with what a requirement asks for; nothing where the verifications are used up.
    pub(crate) fn compare(&self, wanted: &Wanted<'_>, left: &Verifications) -> Option<Match> {
        let is_by_one = match &self.content {
            Content::Not(what) => return Some(what.clone()),
            Content::Simple(payload, signature, _) => {
                left.is_by_one_of(wanted.keys, |key| key.verifies(payload, signature))
            }
            Content::Bundle(message, bundle, _) => left
                .is_by_one_of(wanted.keys, |key| key.verifies_bundle(message, &bundle.signature)),
        };
        is_by_one.map(|is_by_one| match is_by_one {
            true => self.compare_statement(wanted),
            false => Match::OtherKey,
        })
    }

    /// The same of what one of the keys signed.
    fn compare_statement(&self, wanted: &Wanted<'_>) -> Match {
        match &self.content {
            Content::Not(what) => what.clone(),
            Content::Simple(bytes, _, payload) => {
                match payload.get_or_init(|| Payload::parse(bytes)) {
                    None => Match::NoStatement,
                    Some(payload) => self.compare_payload(payload, wanted),
                }
            }
            Content::Bundle(_, bundle, is_for) => {
                match is_for.get_or_init(|| bundle.is_for(self.digest)) {
                    None => Match::NoStatement,
                    Some(false) => Match::OtherDigest,
                    Some(true) if !wanted.identity.takes_bundles() => Match::NoName,
                    Some(true) => Match::Fulfilled,
                }
            }
        }
    }

    fn compare_payload(&self, payload: &Payload, wanted: &Wanted<'_>) -> Match {
        if payload.digest != *self.digest {
            return Match::OtherDigest;
        }
        if !wanted.identity.holds(wanted.asked, &payload.reference) {
            return Match::OtherIdentity(payload.reference.clone());
        }
        Match::Fulfilled
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
