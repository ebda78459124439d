//! Why an image may not run, in one sentence.

use std::fmt;

use foreign_text::shown;
use oci_image::digest::Digest;

use crate::policy::{Signed, Unsupported};
use crate::verifications::MAX_VERIFICATIONS;

/// How much of a foreign name is shown, in characters.
const MAX_NAME_CHARS: usize = 200;

/// How many keys are named before "and … more".
const MAX_KEYS: usize = 3;

/// An image that the policy does not let run: image, scope, requirement, what was found, what to do
/// about it. No key and no payload is shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// The image, in its one spelling.
    pub image: String,
    /// The scope in words, such as `scope "registry.corp/team"`.
    pub scope: String,
    /// What it asks for and what there is.
    pub reason: Box<Reason>,
    /// How many of a source's signatures were looked at and left out, where another might help.
    pub(crate) seen: Option<(usize, usize)>,
}

impl Refusal {
    /// Whether other signatures could change it.
    #[must_use]
    pub fn may_be_helped(&self) -> bool {
        matches!(*self.reason, Reason::Signature(..))
    }

    /// Whether a signature is what it lacks, and the source that was asked has none at all,
    /// whatever others had.
    #[must_use]
    pub fn is_without_any(&self) -> bool {
        self.seen == Some((0, 0))
    }

    /// The same, of a source of which so many signatures were looked at and so many more left out.
    #[must_use]
    pub fn with_left_out(self, looked_at: usize, left_out: usize) -> Self {
        let seen = self.may_be_helped().then_some((looked_at, left_out));
        Self { seen, ..self }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { image, scope, reason, seen } = self;
        write!(f, "the image policy refuses {image}: {scope} {reason}")?;
        match *seen {
            None | Some((_, 0)) => Ok(()),
            Some((looked_at, left_out)) => {
                let of = looked_at.saturating_add(left_out);
                write!(f, "; only {looked_at} of {of} signatures were looked at")
            }
        }
    }
}

/// What a requirement asks for, and what there is instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// `reject`.
    Rejected,
    /// It cannot be verified here.
    Unsupported(Unsupported),
    /// A key could not be read; the key's place and why.
    Key(String, String),
    /// No signature that is good enough; the requirement in words, and what was found.
    Signature(String, Shortcoming),
    /// Content that the measured document refuses by its digest.
    Listed(Digest),
    /// Who asks brings signatures of other content than the image's digest names.
    OtherContent,
    /// More signatures would have to be held against keys than a pull does.
    TooManyVerifications,
}

/// What a signature lacks for a requirement, from far off to almost fulfilling it; of several the
/// best is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Shortcoming {
    /// There is none.
    None,
    /// None is in a form that is known.
    Unreadable,
    /// A bundle by a certificate, valid or not, and none by a key.
    ByCertificate,
    /// None is by one of the keys.
    OtherKey,
    /// By the key, but no signature of an image.
    NoStatement,
    /// For other content.
    OtherDigest,
    /// A bundle, which names no image.
    NoName,
    /// For another name.
    OtherIdentity(String),
}

/// A requirement in words: who must have signed, and what the signature must name.
pub(crate) fn in_words(signed: &Signed) -> String {
    let keys: Vec<_> = signed.keys.iter().take(MAX_KEYS).map(ToString::to_string).collect();
    let more = match signed.keys.len().saturating_sub(MAX_KEYS) {
        0 => String::new(),
        more => format!(" or {more} more"),
    };
    let by_default = if signed.is_default_identity { ", the default" } else { "" };
    let (keys, identity) = (keys.join(" or "), &signed.identity);
    format!("a signature (sigstoreSigned) by {keys}{more} with {identity}{by_default}")
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected => f.write_str("rejects it; run another image, or change the policy"),
            Self::Unsupported(what) => {
                write!(f, "has a requirement {}, which {}", what.name(), what.reason())
            }
            Self::Key(place, why) => {
                write!(f, "cannot be judged, because its key {place} {why}")
            }
            Self::Signature(requirement, found) => write!(f, "asks for {requirement}, but {found}"),
            Self::Listed(digest) => {
                write!(f, "lists {digest}; run other content, or take the digest out of the list")
            }
            Self::OtherContent => f.write_str(
                "cannot be judged, because the signatures are not of the digest in its name; this \
                is an error of the program",
            ),
            Self::TooManyVerifications => write!(
                f,
                "cannot be judged by {MAX_VERIFICATIONS} verifications of a signature by a key, \
                the most of one pull; remove signatures that are not needed from the registry, or \
                name fewer keys in the policy"
            ),
        }
    }
}

impl fmt::Display for Shortcoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::None => "no signature was found; sign the image (`cosign sign --key`)",
            Self::Unreadable => {
                "no signature that was found is in a known form; sign the image again (`cosign \
                sign --key`)"
            }
            Self::ByCertificate => {
                "what was found is signed with a certificate, which is not verified here; sign \
                with a key (`cosign sign --key`)"
            }
            Self::OtherKey => {
                "no signature that was found is by that key; sign the image with it, or name the \
                signer's key in the policy"
            }
            Self::NoStatement => {
                "what that key signed there is no valid statement about an image; sign the image \
                again (`cosign sign --key`)"
            }
            Self::OtherDigest => {
                "that key's signature is for other content; sign this image, or run the one that \
                was signed"
            }
            Self::NoName => {
                "that key's signature is a bundle, which names no image; sign with `cosign sign \
                --new-bundle-format=false`, or write digestOnly and accept that any image of this \
                key may stand in its place"
            }
            Self::OtherIdentity(name) => {
                let name = shown(name).up_to(MAX_NAME_CHARS).quoted();
                return write!(
                    f,
                    "that key's signature is for {name}; sign the image under its own name, or \
                    write the signedIdentity that is meant (matchRepository for what `cosign \
                    sign` writes)"
                );
            }
        };
        f.write_str(words)
    }
}
