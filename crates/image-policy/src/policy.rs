//! What a policy says.

use std::collections::BTreeMap;
use std::fmt;

use crate::grammar;
use crate::identity::Identity;
use crate::json_node::InvalidPolicy;
use crate::remark::Remark;

/// The longest policy, in bytes; it has room for some thousand scopes with keys in the text.
pub const MAX_POLICY_BYTES: usize = 1 << 20;

/// The most values of its JSON; bounds the memory that reading takes to some megabytes.
pub const MAX_POLICY_VALUES: usize = 1 << 16;

/// The most keys of a policy, and so of an image: each of its signatures may have to be held
/// against each. Real policies have some tens; verifying takes a tenth of a millisecond.
pub const MAX_POLICY_KEYS: usize = 256;

/// Which images may run.
#[derive(Clone, Debug)]
pub struct Policy {
    pub(crate) default: Vec<Requirement>,
    /// The scopes of `docker` by their one spelling.
    pub(crate) scopes: BTreeMap<String, Entry>,
    pub(crate) remarks: Vec<Remark>,
}

/// The requirements of one scope.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// As the policy writes it, for messages.
    pub(crate) written: String,
    pub(crate) requirements: Vec<Requirement>,
}

/// What one element of a scope's list asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Requirement {
    /// `insecureAcceptAnything`: nothing.
    Accept,
    /// `reject`: what no image has.
    Reject,
    /// `sigstoreSigned` by a key.
    Signed(Signed),
    /// A valid requirement that is not verified here, so that no image fulfils it.
    Unsupported(Unsupported),
}

/// A signature by one of some keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The keys, of which one must have signed.
    pub keys: Vec<KeyPlace>,
    /// What the signature must name.
    pub identity: Identity,
    /// Whether the policy leaves the identity to the default.
    pub is_default_identity: bool,
}

/// Where a key is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyPlace {
    /// A path or a URI.
    Path(String),
    /// In the policy itself.
    Inline(Vec<u8>),
}

/// What is not verified here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// `signedBy`: OpenPGP.
    SignedBy,
    /// `signedBaseLayer`, which containers/image does not verify either.
    SignedBaseLayer,
    /// `fulcio`: a certificate for an account of an identity provider.
    Fulcio,
    /// `pki`: a certificate of an authority.
    Pki,
    /// `rekorPublicKey…`: an entry in a transparency log.
    Rekor,
}

impl Unsupported {
    /// The key of the policy that asks for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::SignedBy => "signedBy",
            Self::SignedBaseLayer => "signedBaseLayer",
            Self::Fulcio => "fulcio",
            Self::Pki => "pki",
            Self::Rekor => "rekorPublicKey",
        }
    }

    /// Why no image fulfils it, for behind the name.
    pub fn reason(self) -> &'static str {
        match self {
            Self::SignedBy => {
                "asks for an OpenPGP signature, which is not verified here; sign with cosign or \
                skopeo and a key, and use sigstoreSigned"
            }
            Self::SignedBaseLayer => "is verified by no program; use sigstoreSigned",
            Self::Fulcio => {
                "asks for a certificate of Fulcio, which is not verified here; sign with a key, \
                and use keyPath or keyData"
            }
            Self::Pki => {
                "asks for a certificate, which is not verified here; sign with a key, and use \
                keyPath or keyData"
            }
            Self::Rekor => {
                "asks for an entry in a transparency log, which is not verified here; leave it \
                out, and trust the key alone"
            }
        }
    }
}

impl Requirement {
    /// The keys of which one must have signed.
    pub(crate) fn keys(&self) -> &[KeyPlace] {
        match self {
            Self::Signed(signed) => &signed.keys,
            _ => &[],
        }
    }
}

impl Policy {
    /// Reads a policy, and all of it: what is unknown or odd anywhere refuses the whole text.
    ///
    /// # Errors
    ///
    /// [`InvalidPolicy`], with the place; never with a value of the text.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidPolicy> {
        grammar::read(text, Identity::default())
    }

    /// Reads the policy of an owner's `cdh.toml`, where a missing `signedIdentity` means
    /// `matchRepository`. (image-rs compares nothing then, so that a signature of any other image
    /// would do.)
    ///
    /// # Errors
    ///
    /// As those of [`Policy::parse`].
    pub fn parse_of_cdh(text: &[u8]) -> Result<Self, InvalidPolicy> {
        grammar::read(text, Identity::Repository)
    }

    /// What is legal and probably not meant, in the order of the text.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// How many scopes there are for images of registries.
    pub fn scope_count(&self) -> usize {
        self.scopes.len()
    }
}

impl fmt::Debug for KeyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPlace({self})")
    }
}

/// The path, or words for a key in the policy; never the key.
impl fmt::Display for KeyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => foreign_text::shown(path).up_to(200).fmt(f),
            Self::Inline(_) => f.write_str("a key in the policy"),
        }
    }
}
