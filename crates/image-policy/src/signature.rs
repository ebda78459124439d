//! Signatures as they were found, and what they say for a requirement.

use std::fmt;

use oci_image::digest::Digest;

use crate::base64;
use crate::bundle::Bundle;
use crate::identity::{Asked, Identity};
use crate::key::PublicKey;
use crate::payload::{MAX_PAYLOAD_BYTES, Payload};

/// The longest base64 of a signature: RSA with 8192 bits has 1368 characters.
pub(crate) const MAX_SIGNATURE_CHARS: usize = 4096;

/// A signature that somebody handed over; nothing of it is believed.
#[derive(Clone)]
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
    /// As asked for, but a bundle, where a moment is asked for: the key signs none in it.
    UndatedBundle,
    /// As asked for, but without a moment, where one is asked for.
    Undated,
    /// As asked for, but of this moment, in seconds since 1970, which is too early; the latest is
    /// the nearest.
    Older(i64),
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
    /// The earliest moment, in seconds since 1970.
    pub(crate) not_before: Option<i64>,
}

impl Signature {
    /// Compares with what a requirement asks for.
    pub(crate) fn compare(&self, wanted: &Wanted<'_>, digest: &Digest) -> Match {
        match self {
            Self::Simple { payload, signature } => simple(payload, signature, wanted, digest),
            Self::Bundle(bundle) => by_bundle(bundle, wanted, digest),
        }
    }
}

fn simple(payload: &[u8], signature: &str, wanted: &Wanted<'_>, digest: &Digest) -> Match {
    if payload.len() > MAX_PAYLOAD_BYTES || signature.len() > MAX_SIGNATURE_CHARS {
        return Match::Unreadable;
    }
    let Some(signature) = base64::decode(signature) else {
        return Match::Unreadable;
    };
    let mut keys = wanted.keys.iter();
    if !keys.any(|key| key.verifies(payload, &signature)) {
        return Match::OtherKey;
    }
    let Some(payload) = Payload::parse(payload) else {
        return Match::NoStatement;
    };
    if payload.digest != *digest {
        return Match::OtherDigest;
    }
    if !wanted.identity.holds(wanted.asked, &payload.reference) {
        return Match::OtherIdentity(payload.reference);
    }
    match (wanted.not_before, payload.timestamp) {
        (Some(_), None) => Match::Undated,
        (Some(earliest), Some(signed)) if signed < earliest => Match::Older(signed),
        _ => Match::Fulfilled,
    }
}

fn by_bundle(bundle: &[u8], wanted: &Wanted<'_>, digest: &Digest) -> Match {
    let Some(bundle) = Bundle::parse(bundle) else {
        return Match::Unreadable;
    };
    let message = bundle.message();
    let mut keys = wanted.keys.iter();
    if !keys.any(|key| key.verifies_bundle(&message, &bundle.signature)) {
        return Match::OtherKey;
    }
    match bundle.is_for(digest) {
        None => Match::NoStatement,
        Some(false) => Match::OtherDigest,
        Some(true) if !wanted.identity.takes_bundles() => Match::NoName,
        Some(true) if wanted.not_before.is_some() => Match::UndatedBundle,
        Some(true) => Match::Fulfilled,
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
