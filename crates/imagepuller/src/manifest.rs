//! Verified manifests, indexes and image configurations, read into what a pull needs.

use serde::Deserialize;

use crate::digest::Digest;
use crate::platform::Platform;

/// How many layers an image may have. Docker builds up to 127; the options of one overlay mount must fit a page.
pub const MAX_LAYERS: usize = 128;

/// How many images an index may offer.
const MAX_INDEX_ENTRIES: usize = 1024;

const INDEX_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

const MANIFEST_TYPES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

const CONFIG_TYPES: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];

/// The layers that are tar archives, compressed or not. Which of the two is told by their first bytes.
const LAYER_TYPES: [&str; 9] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
];

/// A reference from one document to another, or to a blob.
#[derive(Clone, Debug, Deserialize)]
pub struct Descriptor {
    /// What it is said to be; empty where the document leaves it out.
    #[serde(rename = "mediaType", default)]
    media_type: String,
    /// The digest of the content.
    pub digest: Digest,
    /// The size of the content.
    pub size: u64,
    #[serde(default)]
    platform: Option<Platform>,
}

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

/// Both shapes at once, so that a document that has both is seen for what it is.
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
}

#[derive(Deserialize)]
struct RawConfig {
    #[serde(flatten)]
    platform: Platform,
    rootfs: RawRootfs,
}

#[derive(Deserialize)]
struct RawRootfs {
    #[serde(rename = "type")]
    kind: String,
    diff_ids: Vec<Digest>,
}

impl Manifest {
    /// Reads a manifest or index.
    ///
    /// # Errors
    ///
    /// Words that fit after its digest: no manifest, one of a kind that holds no image, one that is two kinds at once.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let raw: RawManifest =
            serde_json::from_slice(text).map_err(|error| format!("cannot be read: {error}"))?;
        if raw.schema_version != 2 {
            return Err(format!(
                "has schema version {}, which cannot be verified as a whole; push the image again with a current tool",
                raw.schema_version
            ));
        }
        let media_type = raw.media_type.as_deref();
        let is_a = |types: &[&str]| media_type.is_none_or(|media_type| types.contains(&media_type));
        match (raw.manifests, raw.config, raw.layers) {
            (Some(manifests), None, None) if is_a(&INDEX_TYPES) => {
                if manifests.len() > MAX_INDEX_ENTRIES {
                    return Err(format!(
                        "lists {} images, more than {MAX_INDEX_ENTRIES}",
                        manifests.len()
                    ));
                }
                Ok(Self::Index(manifests))
            }
            (None, Some(config), Some(layers)) if is_a(&MANIFEST_TYPES) => {
                if let Some(artifact) = raw.artifact_type {
                    return Err(format!("is an artifact of type {artifact:?} and no image"));
                }
                check_image(&config, &layers)?;
                Ok(Self::Image { config, layers })
            }
            (Some(_), ..) if raw.media_type.is_none() => {
                Err("is an index and a manifest at once".to_owned())
            }
            _ => Err(format!(
                "is no image but of type {:?}",
                media_type.unwrap_or("unknown")
            )),
        }
    }
}

fn check_image(config: &Descriptor, layers: &[Descriptor]) -> Result<(), String> {
    if !CONFIG_TYPES.contains(&config.media_type.as_str()) {
        return Err(format!(
            "is an artifact of type {:?} and no image",
            config.media_type
        ));
    }
    if layers.is_empty() || layers.len() > MAX_LAYERS {
        return Err(format!(
            "has {} layers, and an image has 1 to {MAX_LAYERS}",
            layers.len()
        ));
    }
    match layers
        .iter()
        .find(|layer| !LAYER_TYPES.contains(&layer.media_type.as_str()))
    {
        Some(layer) if layer.media_type.ends_with("+encrypted") => Err(format!(
            "has an encrypted layer {}, which this version does not decrypt",
            layer.digest
        )),
        Some(layer) => Err(format!(
            "has a layer {} of unknown type {:?}",
            layer.digest, layer.media_type
        )),
        None => Ok(()),
    }
}

/// The entry of an index for a platform.
///
/// # Errors
///
/// Words that fit after its digest, with the platforms that it has.
pub fn choose<'a>(index: &'a [Descriptor], guest: &Platform) -> Result<&'a Descriptor, String> {
    let chosen = guest.choose(index.iter().map(|entry| entry.platform.as_ref()));
    let chosen = chosen.and_then(|at| index.get(at));
    chosen.ok_or_else(|| {
        let offered: Vec<_> = index
            .iter()
            .filter_map(|entry| entry.platform.as_ref())
            .map(Platform::to_string)
            .collect();
        format!("has no image for {guest}, only for: {}", offered.join(", "))
    })
}

/// The digests of the plain layers, lowest first, as the configuration of an image has them.
///
/// # Errors
///
/// Words that fit after its digest.
pub fn diff_ids(config: &[u8], guest: &Platform, layers: usize) -> Result<Vec<Digest>, String> {
    let raw: RawConfig =
        serde_json::from_slice(config).map_err(|error| format!("cannot be read: {error}"))?;
    if !guest.accepts(&raw.platform) {
        return Err(format!(
            "says that the image is for {}, and this guest is {guest}",
            raw.platform
        ));
    }
    if raw.rootfs.kind != "layers" {
        return Err(format!(
            "has a root file system of type {:?} instead of layers",
            raw.rootfs.kind
        ));
    }
    if raw.rootfs.diff_ids.len() != layers {
        return Err(format!(
            "names {} layers, and the manifest {layers}",
            raw.rootfs.diff_ids.len()
        ));
    }
    Ok(raw.rootfs.diff_ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn descriptor(media_type: &str) -> String {
        format!(r#"{{"mediaType":"{media_type}","digest":"{DIGEST}","size":7}}"#)
    }

    fn image(media_type: &str, config: &str, layer: &str) -> String {
        let (config, layer) = (descriptor(config), descriptor(layer));
        format!(r#"{{"schemaVersion":2,{media_type}"config":{config},"layers":[{layer}]}}"#)
    }

    #[test]
    fn images_and_indexes_are_told_apart() {
        let oci = image("", CONFIG_TYPES[0], LAYER_TYPES[1]);
        let docker = image(
            &format!(r#""mediaType":"{}","#, MANIFEST_TYPES[1]),
            CONFIG_TYPES[1],
            LAYER_TYPES[6],
        );
        for text in [oci, docker] {
            assert!(
                matches!(Manifest::parse(text.as_bytes()).unwrap(), Manifest::Image { layers, .. } if layers[0].size == 7)
            );
        }
        let index = format!(
            r#"{{"schemaVersion":2,"manifests":[{}]}}"#,
            descriptor(MANIFEST_TYPES[0])
        );
        assert!(matches!(
            Manifest::parse(index.as_bytes()).unwrap(),
            Manifest::Index(_)
        ));
    }

    #[test]
    fn what_holds_no_image_is_refused_by_name() {
        let config = CONFIG_TYPES[0];
        let ambiguous = image(r#""manifests":[],"#, config, LAYER_TYPES[1]);
        let index_type = format!(r#""mediaType":"{}","#, INDEX_TYPES[0]);
        for (text, expected) in [
            (
                r#"{"schemaVersion":1,"name":"a","fsLayers":[]}"#.to_owned(),
                "schema version 1",
            ),
            ("[]".to_owned(), "cannot be read"),
            ("".to_owned(), "cannot be read"),
            (ambiguous, "at once"),
            (image(&index_type, config, LAYER_TYPES[1]), "is no image"),
            (
                image(r#""artifactType":"example/x","#, config, LAYER_TYPES[1]),
                "artifact of type \"example/x\"",
            ),
            (
                image("", "application/vnd.oci.empty.v1+json", LAYER_TYPES[1]),
                "artifact",
            ),
            (
                image(
                    "",
                    config,
                    "application/vnd.oci.image.layer.v1.tar+gzip+encrypted",
                ),
                "encrypted layer",
            ),
            (image("", config, "application/x-unknown"), "unknown type"),
            (
                image("", config, LAYER_TYPES[1]).replace(DIGEST, "sha256:../../etc"),
                "cannot be read",
            ),
            (
                image("", config, LAYER_TYPES[1]).replace("\"size\":7", "\"size\":-7"),
                "cannot be read",
            ),
            (
                image("\"schemaVersion\":2,", config, LAYER_TYPES[1]),
                "duplicate field",
            ),
            (
                format!(
                    r#"{{"schemaVersion":2,"config":{},"layers":[]}}"#,
                    descriptor(config)
                ),
                "0 layers",
            ),
        ] {
            let error = Manifest::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_configuration_must_fit_its_manifest_and_the_guest() {
        let guest = Platform::of_guest();
        let config = |architecture: &str, kind: &str| {
            format!(
                r#"{{"os":"linux","architecture":"{architecture}","rootfs":{{"type":"{kind}","diff_ids":["{DIGEST}"]}}}}"#
            )
        };
        let good = config(&guest.architecture, "layers");
        assert_eq!(diff_ids(good.as_bytes(), &guest, 1).unwrap().len(), 1);
        assert!(
            diff_ids(good.as_bytes(), &guest, 2)
                .unwrap_err()
                .contains("names 1 layers")
        );
        assert!(
            diff_ids(config("mips", "layers").as_bytes(), &guest, 1)
                .unwrap_err()
                .contains("linux/mips")
        );
        assert!(
            diff_ids(config("", "tables").as_bytes(), &guest, 1)
                .unwrap_err()
                .contains("tables")
        );
        assert!(
            diff_ids(b"{}", &guest, 1)
                .unwrap_err()
                .contains("cannot be read")
        );
    }
}
