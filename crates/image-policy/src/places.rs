//! Where a registry keeps the signatures of a digest, and what it lists there.
//!
//! - The tag `sha256-HEX.sig` (cosign, skopeo): a manifest whose layers are signatures. Its digest
//!   is nobody's promise; what counts is what a key signed.
//! - The referrers of the digest (OCI distribution specification, "Listing Referrers"): an index
//!   of manifests, from the registry's API or, where it has none, under the tag `sha256-HEX`. Who
//!   fetches such a manifest, or a layer, holds it to its digest.
//!
//! Not here: what a signature is worth; see [`crate::signature`]. Sizes that descriptors give are
//! not looked at, as skopeo does: the digest says what content is.

use std::collections::HashSet;

use foreign_text::json::{self, Duplicates, JsonError, Limits, MAX_DEPTH, Object, Value};
use foreign_text::shown;
use oci_image::digest::Digest;
use oci_image::manifest::MAX_MANIFEST_BYTES;

use crate::Signature;
use crate::signature::MAX_SIGNATURE_CHARS;

/// How many signatures of one place are looked at, as many as containers/image reads from a
/// look-aside store. Real images have a handful; where a builder signs the same image anew each
/// night, they become hundreds.
pub const MAX_SIGNATURES: usize = 128;

/// The longest payload or bundle that is fetched. Payloads have some hundred bytes, bundles with
/// entries of a log some ten thousand.
pub const MAX_CONTENT_BYTES: usize = 1 << 20;

/// How many bytes of signatures of one place are kept.
pub const MAX_PLACE_BYTES: usize = 2 << 20;

/// The most values of a manifest or index: it is 60 bytes of memory each.
const MAX_VALUES: usize = 100_000;

/// The longest tag (OCI distribution specification, "Pulling manifests").
const MAX_TAG_CHARS: usize = 128;

/// How much of a digest's value the fallback tag has, as the specification says.
const MAX_VALUE_CHARS: usize = 64;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// Every version of sigstore's bundle: `….bundle.v0.3+json`, `….bundle+json;version=0.3`. Which of
/// them is read, the bundle itself says.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";

/// What the types of artifacts begin with that may be signatures. Fallback indexes call bundles
/// empty, and a registry calls what has no type by that of its configuration.
const MAYBE: [&str; 4] = [
    "application/vnd.dev.sigstore.",
    "application/vnd.dev.cosign.",
    "application/vnd.oci.empty.",
    "application/vnd.oci.image.config.",
];

/// Why a document does not list signatures. The words fit after "which".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidList {
    /// It is no JSON, not within the limits, or JSON that other programs may read differently. The
    /// place is not told, which may be the end of what came.
    #[error("cannot be read: {}", .0.rule)]
    Json(#[from] JsonError),
    /// It is another kind of document.
    #[error("is no {wanted} but {found}")]
    Kind {
        /// Words for what was asked for.
        wanted: &'static str,
        /// What it says that it is, in the safe way of foreign text.
        found: String,
    },
}

/// What is to be looked at of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// In the order of the list.
    pub kept: Vec<T>,
    /// How many more there are.
    pub left_out: usize,
}

/// A layer that may be a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// What the payload or bundle is held to.
    pub digest: Digest,
    /// The base64 beside a payload; none for a bundle.
    signature: Option<String>,
}

impl Layer {
    /// The signature with its content, which has the layer's digest.
    #[must_use]
    pub fn with(self, content: Vec<u8>) -> Signature {
        match self.signature {
            Some(signature) => Signature::Simple { payload: content, signature },
            None => Signature::Bundle(content),
        }
    }
}

/// The tag under which cosign and skopeo keep signatures; none for a digest that is too long for
/// one.
#[must_use]
pub fn signature_tag(digest: &Digest) -> Option<String> {
    let tag = format!("{}.sig", digest.file_name());
    (tag.len() <= MAX_TAG_CHARS).then_some(tag)
}

/// The tag of the index of referrers where a registry has no API for them (OCI distribution
/// specification, "Referrers Tag Schema").
#[must_use]
pub fn referrers_tag(digest: &Digest) -> String {
    let name = digest.file_name();
    match name.split_once('-') {
        Some((algorithm, value)) => {
            let value: String = value.chars().take(MAX_VALUE_CHARS).collect();
            format!("{algorithm}-{value}")
        }
        None => name,
    }
}

/// The signatures of a manifest, found by the types of its layers. Of more than [`MAX_SIGNATURES`]
/// the first and the last are kept: who signs again appends.
///
/// Layers of other types and layers without a signature are no signatures; what the manifest says
/// of itself besides (configuration, subject, type of artifact) does not count.
///
/// # Errors
///
/// [`InvalidList`]: it is no OCI manifest.
pub fn signatures(manifest: &[u8]) -> Result<Listed<Layer>, InvalidList> {
    let root = read(manifest)?;
    let layers = list(&root, MANIFEST, "layers", "OCI manifest")?;
    let mut layers: Vec<_> = layers.iter().filter_map(layer).collect();
    let mut seen = HashSet::new();
    layers.retain(|layer| seen.insert((layer.digest.clone(), layer.signature.clone())));
    Ok(ends(layers))
}

/// The manifests that refer to a digest, each of which [`signatures`] may read. Nothing is left out
/// for its type, because types are wrong in the field; but of more than [`MAX_SIGNATURES`] those
/// that are said to be something else are left out first.
///
/// # Errors
///
/// [`InvalidList`]: it is no OCI index.
pub fn referrers(index: &[u8]) -> Result<Listed<Digest>, InvalidList> {
    let root = read(index)?;
    let entries = list(&root, INDEX, "manifests", "OCI index")?;
    let mut seen = HashSet::new();
    let (mut maybe, mut others) = (Vec::new(), Vec::new());
    for entry in entries.iter().filter_map(Value::object) {
        let Some(digest) = digest(entry).filter(|digest| seen.insert(digest.clone())) else {
            continue;
        };
        match may_be_signature(entry) {
            true => maybe.push(digest),
            false => others.push(digest),
        }
    }
    let mut listed = ends(maybe);
    let room = MAX_SIGNATURES.saturating_sub(listed.kept.len());
    listed.left_out += others.len().saturating_sub(room);
    others.truncate(room);
    listed.kept.append(&mut others);
    Ok(listed)
}

fn read(text: &[u8]) -> Result<Object<'_>, JsonError> {
    let limits = Limits { bytes: MAX_MANIFEST_BYTES, values: MAX_VALUES, depth: MAX_DEPTH };
    json::read_object(text, limits, Duplicates::Refused)
}

/// The list of a document that is of this type, or does not say of which.
fn list<'v, 't>(
    root: &'v Object<'t>,
    media_type: &str,
    name: &str,
    wanted: &'static str,
) -> Result<&'v [Value<'t>], InvalidList> {
    let kind = |found: String| InvalidList::Kind { wanted, found };
    if let Some(found) = root.last("mediaType") {
        let found = found.text().unwrap_or_default();
        if found != media_type {
            return Err(kind(shown(found).quoted().to_string()));
        }
    }
    let values = root.last(name).and_then(Value::array);
    values.ok_or_else(|| kind(format!("a document without {name}")))
}

fn layer(layer: &Value<'_>) -> Option<Layer> {
    let layer = layer.object()?;
    let media_type = layer.last("mediaType")?.text()?;
    let signature = match media_type {
        SIMPLE_SIGNING => {
            let annotations = layer.last("annotations")?.object()?;
            let signature = annotations.last(SIGNATURE)?.text()?;
            if signature.len() > MAX_SIGNATURE_CHARS {
                return None;
            }
            Some(signature.to_owned())
        }
        bundle if bundle.starts_with(BUNDLE) => None,
        _ => return None,
    };
    Some(Layer { digest: digest(layer)?, signature })
}

fn digest(descriptor: &Object<'_>) -> Option<Digest> {
    Digest::parse(descriptor.last("digest")?.text()?).ok()
}

fn may_be_signature(entry: &Object<'_>) -> bool {
    let artifact = entry.last("artifactType").and_then(Value::text);
    artifact.is_none_or(|artifact| {
        let mut beginnings = MAYBE.iter();
        artifact.is_empty() || beginnings.any(|beginning| artifact.starts_with(beginning))
    })
}

/// The first and the last, [`MAX_SIGNATURES`] together.
fn ends<T>(mut list: Vec<T>) -> Listed<T> {
    let left_out = list.len().saturating_sub(MAX_SIGNATURES);
    if left_out > 0 {
        let first = MAX_SIGNATURES / 2;
        list.drain(first..first + left_out);
    }
    Listed { kept: list, left_out }
}

#[cfg(test)]
mod tests;
