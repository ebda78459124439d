//! Secrets that have not come: what the set's sandboxes get meanwhile, and how it is told.
//!
//! A set names its document in the wrapper's settings from the first moment on, so that each
//! sandbox has a disk that an update can fill. Before the secret comes, the document says nothing,
//! or for a [required](crate::Set::required) set why each pull fails.

use registry_config::{Document, NodeError};
use zeroize::Zeroizing;

use crate::Set;

/// What a set that is not required has before its first secret comes.
const NOTHING_YET: &str = "# No secret has come yet.\n";

/// The settings' key for sandboxes that start while the document's file is not there.
pub(crate) const MISSING_DOCUMENT: &str = "missing-document";

/// What they are told where no secret is required: the file is there in any case, once the
/// installer has run.
const NOT_INSTALLED: &str = "the registry configuration of this node has not been installed yet";

/// What they are told whose namespace has no document, where others have one.
const NOT_FOR_NAMESPACE: &str = "this node has no registry configuration for the namespace of \
    this pod, or has not got it yet";

/// What sandboxes are told where a secret is there and no document can be made of it.
const UNUSABLE: &str = "the registry configuration of this node cannot be used; the log of its \
    installer says why";

/// The document of a set that has none.
pub(crate) fn nothing_yet() -> Zeroizing<Vec<u8>> {
    Zeroizing::new(NOTHING_YET.into())
}

/// The document of a required set whose secrets `missing` have not come.
pub(crate) fn refusal(missing: &[String]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(NodeError::new(&sentence(missing)).to_document().into_bytes())
}

/// The document of a set one of whose secrets cannot be used, where there was none before.
pub(crate) fn unusable() -> Zeroizing<Vec<u8>> {
    Zeroizing::new(NodeError::new(UNUSABLE).to_document().into_bytes())
}

/// Whether a document only takes the place of one.
pub(crate) fn is_stand_in(document: &[u8]) -> bool {
    let is_reason = || {
        let parsed = Document::parse(document);
        parsed.is_ok_and(|checked| checked.document.node_error.is_some())
    };
    document == NOTHING_YET.as_bytes() || is_reason()
}

/// What sandboxes of the set are told while there is not even a document: after a restart of the
/// node that keeps documents in memory.
pub(crate) fn before_the_first_pass(set: &Set) -> String {
    if !set.has_own_document() {
        return NOT_FOR_NAMESPACE.into();
    }
    let source = set.source();
    if source.required {
        let names: Vec<String> = source.needed().map(|path| source.name_of(path)).collect();
        sentence(&names)
    } else {
        NOT_INSTALLED.into()
    }
}

/// That the document of the set `name` is made without the secrets `missing`, which it does not
/// require.
pub(crate) fn without(missing: &[String], name: &str) -> String {
    format!(
        "{} (absent, empty, or without the key); until then the set {name} has no credentials from \
        there",
        sentence(missing)
    )
}

/// That the secrets have not come.
pub(crate) fn sentence(names: &[String]) -> String {
    match names {
        [one] => format!("the secret {one} has not arrived on this node"),
        names => format!("the secrets {} have not arrived on this node", names.join(", ")),
    }
}
