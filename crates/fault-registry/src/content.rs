//! What a registry has: manifests by tag and digest, blobs by digest.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::image::digest_of;

/// How deep indexes are followed.
const MAX_DEPTH: usize = 8;

/// What a request asks for.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Anything at all.
    Any,
    /// `/v2/` itself.
    Ping,
    /// An index.
    Index,
    /// A manifest of one image.
    Manifest,
    /// An image's configuration.
    Config,
    /// A layer by its place in the manifest, the lowest is 0.
    Layer(usize),
    /// Any layer.
    AnyLayer,
    /// The token server.
    Token,
    /// Paths that begin so.
    Path(String),
    /// Nothing that is here.
    Unknown,
}

impl What {
    /// Whether a request for `asked` at `path` is meant.
    pub(super) fn covers(&self, asked: &Self, path: &str) -> bool {
        match self {
            Self::Any => true,
            Self::AnyLayer => matches!(asked, Self::Layer(_)),
            Self::Path(start) => path.starts_with(start.as_str()),
            exactly => exactly == asked,
        }
    }
}

/// One piece of content.
#[derive(Clone, Debug)]
pub(super) struct Blob {
    pub(super) what: What,
    pub(super) media_type: String,
    pub(super) bytes: Arc<Vec<u8>>,
}

/// Manifests and blobs, in memory.
#[derive(Clone, Debug, Default)]
pub struct Content {
    blobs: BTreeMap<String, Blob>,
    tags: BTreeMap<String, String>,
}

impl Content {
    /// Reads an OCI layout. What its index lists is there by digest and as the tags that the list
    /// names; the first also as `latest`.
    ///
    /// # Errors
    ///
    /// Where a file is missing or is no JSON.
    pub fn load(layout: &Path) -> Result<Self> {
        let mut content = Self::default();
        let text = fs::read(layout.join("index.json")).context("failed to read index.json")?;
        let index: Value = serde_json::from_slice(&text).context("failed to read index.json")?;
        for descriptor in list(&index, "manifests") {
            let digest = content.load_tree(layout, descriptor, MAX_DEPTH)?;
            let tag = descriptor["annotations"]["org.opencontainers.image.ref.name"].as_str();
            content.tags.insert(tag.unwrap_or("latest").to_owned(), digest);
        }
        Ok(content)
    }

    /// Reads a manifest or index and all below it.
    fn load_tree(&mut self, layout: &Path, descriptor: &Value, depth: usize) -> Result<String> {
        if depth == 0 {
            bail!("the layout's indexes are nested too deeply");
        }
        let (digest, bytes) = read_blob(layout, descriptor)?;
        let document: Value =
            serde_json::from_slice(&bytes).with_context(|| format!("{digest} is no manifest"))?;
        for child in list(&document, "manifests") {
            self.load_tree(layout, child, depth - 1)?;
        }
        if document.get("config").is_some() {
            self.load_blob(layout, &document["config"], What::Config)?;
        }
        for (place, layer) in list(&document, "layers").iter().enumerate() {
            self.load_blob(layout, layer, What::Layer(place))?;
        }
        self.add_manifest(bytes);
        Ok(digest)
    }

    fn load_blob(&mut self, layout: &Path, descriptor: &Value, what: What) -> Result<()> {
        let (_, bytes) = read_blob(layout, descriptor)?;
        self.add(what, "application/octet-stream", bytes);
        Ok(())
    }

    /// Adds a blob and gives its digest.
    pub fn add(&mut self, what: What, media_type: &str, bytes: Vec<u8>) -> String {
        let digest = digest_of(&bytes);
        let blob = Blob { what, media_type: media_type.to_owned(), bytes: Arc::new(bytes) };
        self.blobs.insert(digest.clone(), blob);
        digest
    }

    /// Adds a manifest or index, also as the tag `latest`, and gives its digest.
    pub fn add_manifest(&mut self, bytes: Vec<u8>) -> String {
        let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let is_index = document.get("manifests").is_some();
        let (what, assumed) = if is_index {
            (What::Index, "application/vnd.oci.image.index.v1+json")
        } else {
            (What::Manifest, "application/vnd.oci.image.manifest.v1+json")
        };
        let media_type = document["mediaType"].as_str().unwrap_or(assumed).to_owned();
        let digest = self.add(what, &media_type, bytes);
        self.tags.insert("latest".to_owned(), digest.clone());
        digest
    }

    /// Adds a tag, or moves it.
    pub fn tag(&mut self, tag: &str, digest: &str) {
        self.tags.insert(tag.to_owned(), digest.to_owned());
    }

    /// The size of what has this digest.
    #[must_use]
    pub fn size(&self, digest: &str) -> Option<usize> {
        self.blobs.get(digest).map(|blob| blob.bytes.len())
    }

    /// What a path names, by digest or tag. The repository does not matter, nor what stands before
    /// `/v2/`.
    pub(super) fn find(&self, path: &str) -> Option<(&str, &Blob)> {
        let name = ["/manifests/", "/blobs/"].iter().find_map(|kind| path.rsplit_once(kind))?.1;
        let digest = self.tags.get(name).map_or(name, String::as_str);
        let (digest, blob) = self.blobs.get_key_value(digest)?;
        Some((digest, blob))
    }
}

fn list<'a>(document: &'a Value, key: &str) -> &'a [Value] {
    document[key].as_array().map_or(&[], Vec::as_slice)
}

fn read_blob(layout: &Path, descriptor: &Value) -> Result<(String, Vec<u8>)> {
    let digest =
        descriptor["digest"].as_str().context("a descriptor of the layout has no digest")?;
    let hex =
        digest.strip_prefix("sha256:").with_context(|| format!("{digest} is no SHA-256 digest"))?;
    let bytes = fs::read(layout.join("blobs/sha256").join(hex))
        .with_context(|| format!("failed to read the blob {digest}"))?;
    Ok((digest.to_owned(), bytes))
}
