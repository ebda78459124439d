//! Verified manifests and indexes, read into what a pull needs (OCI image specification, "Image
//! Manifest", "Image Index").

use foreign_text::shown;
use serde::Deserialize;

pub use crate::descriptor::Descriptor;
use crate::descriptor::is_artifact;
pub use crate::invalid::InvalidDocument;
use crate::json::{self, Names};
use crate::media_type::{
    CONFIG_TYPES, ENCRYPTED, INDEX_TYPES, LAYER_TYPES, MANIFEST_TYPES, SCHEMA_1_TYPES, describe,
    may_be_encrypted,
};

/// The largest manifest or index; the distribution specification asks registries to take 4 MiB and
/// no more.
pub const MAX_MANIFEST_BYTES: usize = 4 << 20;

/// The largest image configuration. It has a few KiB; a long history makes it tens.
pub const MAX_CONFIG_BYTES: usize = 4 << 20;

/// How many layers an image may have: as many as Linux stacks in one overlay file system
/// (`OVL_MAX_STACK`). Docker builds up to 127.
pub const MAX_LAYERS: usize = 500;

/// The largest compressed layer. Larger than any guest's memory and most disks; what fits is
/// decided by the free space.
pub const MAX_LAYER_BYTES: u64 = 1 << 40;

/// How many images an index may offer. The largest in use have some dozen.
pub const MAX_INDEX_ENTRIES: usize = 1024;

const NAMES: Names = Names {
    known: &[
        "schemaVersion",
        "mediaType",
        "artifactType",
        "config",
        "layers",
        "manifests",
        "fsLayers",
        "digest",
        "size",
        "platform",
        "os",
        "architecture",
        "variant",
        "os.features",
        "annotations",
    ],
    nested: &["config", "layers", "manifests", "platform"],
};

/// What a digest of an image may stand for.
#[derive(Debug)]
pub enum Manifest {
    /// A list of images for several platforms.
    Index(Vec<Descriptor>),
    /// One image.
    Image {
        /// Its configuration.
        config: Descriptor,
        /// Its layers, lowest first.
        layers: Vec<Descriptor>,
    },
}

/// All shapes at once, so that a document that has several is seen for what it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawManifest {
    schema_version: u32,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    artifact_type: Option<String>,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    fs_layers: Option<serde::de::IgnoredAny>,
}

impl Manifest {
    /// Reads a manifest or index.
    ///
    /// # Errors
    ///
    /// [`InvalidDocument`]: no manifest, one of a kind that holds no image, one that is two kinds
    /// at once, one beyond a limit.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidDocument> {
        check_length(text, MAX_MANIFEST_BYTES)?;
        let raw: RawManifest = json::read(text, &NAMES).map_err(InvalidDocument::Unreadable)?;
        check_schema(&raw)?;
        let media_type = raw.media_type.as_deref().unwrap_or_default();
        let is_a = |types: &[&str]| media_type.is_empty() || types.contains(&media_type);
        if let Some(artifact) = raw.artifact_type.as_deref()
            && is_artifact(Some(artifact))
        {
            return Err(InvalidDocument::Artifact(describe(artifact)));
        }
        match (raw.manifests, raw.config, raw.layers) {
            (Some(_), None, None) if !is_a(&INDEX_TYPES) => {
                Err(contradiction("an index", media_type))
            }
            (Some(manifests), None, None) => index(manifests),
            (None, Some(_), Some(_)) if !is_a(&MANIFEST_TYPES) => {
                Err(contradiction("a manifest", media_type))
            }
            (None, Some(config), Some(layers)) => image(config, layers),
            (Some(_), ..) => {
                Err(InvalidDocument::Kind("is an index and a manifest at once".to_owned()))
            }
            _ if media_type.is_empty() => {
                Err(InvalidDocument::Kind("is neither a manifest nor an index".to_owned()))
            }
            _ => Err(InvalidDocument::Kind(format!(
                "is no image but of type {}, or lacks its parts",
                shown(media_type).quoted()
            ))),
        }
    }
}

pub(crate) fn check_length(text: &[u8], limit: usize) -> Result<(), InvalidDocument> {
    if text.len() <= limit {
        return Ok(());
    }
    let length = text.len();
    Err(InvalidDocument::Content(format!("has {length} bytes, more than {limit}")))
}

fn check_schema(raw: &RawManifest) -> Result<(), InvalidDocument> {
    let media_type = raw.media_type.as_deref().unwrap_or_default();
    if raw.schema_version == 2 && raw.fs_layers.is_none() && !SCHEMA_1_TYPES.contains(&media_type) {
        return Ok(());
    }
    if raw.schema_version > 2 {
        return Err(InvalidDocument::Kind(format!(
            "has schema version {}, and only 2 is known",
            raw.schema_version
        )));
    }
    Err(InvalidDocument::Kind(
        "has schema version 1, which cannot be verified as a whole; push the image again with a \
        current tool"
            .to_owned(),
    ))
}

fn contradiction(kind: &str, media_type: &str) -> InvalidDocument {
    InvalidDocument::Kind(format!(
        "has the parts of {kind}, but is said to be of type {}: is no image",
        shown(media_type).quoted()
    ))
}

fn index(manifests: Vec<Descriptor>) -> Result<Manifest, InvalidDocument> {
    let count = manifests.len();
    if count > MAX_INDEX_ENTRIES {
        return Err(InvalidDocument::Content(format!(
            "lists {count} images, more than {MAX_INDEX_ENTRIES}"
        )));
    }
    Ok(Manifest::Index(manifests))
}

fn image(config: Descriptor, layers: Vec<Descriptor>) -> Result<Manifest, InvalidDocument> {
    if !CONFIG_TYPES.contains(&config.media_type.as_str()) {
        return Err(InvalidDocument::Artifact(describe(&config.media_type)));
    }
    if config.size > MAX_CONFIG_BYTES as u64 {
        return Err(InvalidDocument::Content(format!(
            "has a configuration of {} bytes, more than {MAX_CONFIG_BYTES}",
            config.size
        )));
    }
    let count = layers.len();
    if count > MAX_LAYERS {
        return Err(InvalidDocument::Content(format!(
            "has {count} layers, more than {MAX_LAYERS}"
        )));
    }
    layers.iter().try_for_each(check_layer)?;
    Ok(Manifest::Image { config, layers })
}

fn check_layer(layer: &Descriptor) -> Result<(), InvalidDocument> {
    let (digest, media_type) = (&layer.digest, layer.media_type.as_str());
    if media_type.starts_with("application/vnd.dev.cosign.")
        || media_type.starts_with("application/vnd.in-toto")
    {
        return Err(InvalidDocument::Artifact(describe(media_type)));
    }
    // An encrypted layer that passes for a plain one: never what its author made.
    if layer.encryption().is_none() && layer.describes_encryption() {
        return Err(InvalidDocument::Layer(format!(
            "has a layer {digest} of the plain type {} with annotations that describe its \
            encryption",
            shown(media_type).quoted()
        )));
    }
    let is_known = match media_type.strip_suffix(ENCRYPTED) {
        Some(plain_type) => may_be_encrypted(plain_type),
        None => LAYER_TYPES.contains(&media_type),
    };
    if !is_known {
        return Err(InvalidDocument::Layer(format!(
            "has a layer {digest} of unknown type {}",
            shown(media_type).quoted()
        )));
    }
    if layer.size > MAX_LAYER_BYTES {
        return Err(InvalidDocument::Content(format!(
            "has a layer {digest} of {} bytes, more than {MAX_LAYER_BYTES}",
            layer.size
        )));
    }
    Ok(())
}
