//! What a registry is asked for.

use crate::range::Part;

/// Every kind of manifest that can be pulled, so that registries do not convert it to what they
/// take for older clients.
const MANIFEST_TYPES: &str = "application/vnd.oci.image.manifest.v1+json, \
application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
application/vnd.docker.distribution.manifest.list.v2+json";

/// What referrers are listed in.
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";

/// What is asked for in a repository.
#[derive(Clone, Copy, Debug)]
pub struct ContentRequest<'a> {
    /// `manifests`, `blobs` or `referrers`; nothing for a greeting.
    pub kind: &'static str,
    /// A digest or a tag.
    pub name: &'a str,
    /// Media types, or nothing.
    pub accept: Option<&'static str>,
    /// Only these bytes; then an answer may also be a part, or that there is no such part.
    pub part: Option<Part>,
    /// Asked for beside the image: where somebody was let in already, a refusal is about this alone
    /// and no reason to go on as another account.
    pub is_aside: bool,
}

impl<'a> ContentRequest<'a> {
    /// Asks for what is under a tag or has a digest.
    pub fn manifest(name: &'a str) -> Self {
        Self { kind: "manifests", name, accept: Some(MANIFEST_TYPES), part: None, is_aside: false }
    }

    /// Asks for the index of what refers to a digest.
    pub fn referrers(digest: &'a str) -> Self {
        Self {
            kind: "referrers",
            name: digest,
            accept: Some(INDEX_TYPE),
            part: None,
            is_aside: false,
        }
    }

    /// Asks for a blob, or for some of it.
    pub fn blob(name: &'a str, part: Option<Part>) -> Self {
        Self { kind: "blobs", name, accept: None, part, is_aside: false }
    }

    /// The same, beside the image.
    pub fn aside(self) -> Self {
        Self { is_aside: true, ..self }
    }

    /// Asks for nothing but to be let in.
    pub fn greeting() -> Self {
        Self { kind: "", name: "", accept: None, part: None, is_aside: false }
    }

    /// Whether it asks for nothing but to be let in.
    pub fn is_greeting(&self) -> bool {
        self.kind.is_empty()
    }

    /// Whether it is what a pull begins with. Who was let in there is the account of the pull.
    pub fn is_first(&self) -> bool {
        matches!(self.kind, "manifests" | "referrers") || self.is_greeting()
    }
}
