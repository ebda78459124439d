//! Small images made in memory, right or wrong.

use std::io::Write as _;

use anyhow::Result;
use flate2::GzBuilder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::content::{Content, What};

/// A layer: the bytes that travel, and what the image says about them.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The media type in the descriptor.
    pub media_type: String,
    /// The compressed bytes.
    pub bytes: Vec<u8>,
    /// The size in the descriptor.
    pub size: u64,
    /// The digest of the plain bytes, as the configuration names it.
    pub diff_id: String,
}

/// An image of such layers.
#[derive(Clone, Debug)]
pub struct Image {
    /// The layers, lowest first.
    pub layers: Vec<Layer>,
    /// The configuration.
    pub config: Value,
    /// The size of the configuration in the descriptor, where it is not the real one.
    pub config_size: Option<u64>,
}

/// The digest of bytes, `sha256:...`.
pub(super) fn digest_of(bytes: &[u8]) -> String {
    let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

impl Layer {
    /// A gzip layer with regular files in the root directory.
    ///
    /// # Errors
    ///
    /// Where a name is none for a tar archive.
    pub fn gzip(files: &[(&str, &[u8])]) -> Result<Self> {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, name, *content)?;
        }
        Self::gzip_of(&tar.into_inner()?)
    }

    /// A gzip layer of these plain bytes, a tar archive or not.
    ///
    /// # Errors
    ///
    /// None that happen in memory.
    pub fn gzip_of(plain: &[u8]) -> Result<Self> {
        let mut encoder = GzBuilder::new().write(Vec::new(), flate2::Compression::default());
        encoder.write_all(plain)?;
        let bytes = encoder.finish()?;
        Ok(Self {
            media_type: "application/vnd.oci.image.layer.v1.tar+gzip".to_owned(),
            size: bytes.len() as u64,
            bytes,
            diff_id: digest_of(plain),
        })
    }
}

impl Image {
    /// An image for `linux/amd64` with these layers.
    #[must_use]
    pub fn new(layers: Vec<Layer>) -> Self {
        let diff_ids: Vec<_> = layers.iter().map(|layer| layer.diff_id.clone()).collect();
        Self {
            layers,
            config: json!({
                "architecture": "amd64",
                "os": "linux",
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": diff_ids},
            }),
            config_size: None,
        }
    }

    /// Puts everything into `content`, and gives the manifest's digest.
    pub fn publish(&self, content: &mut Content) -> String {
        let config = self.config.to_string().into_bytes();
        let size = self.config_size.unwrap_or(config.len() as u64);
        let config_type = "application/vnd.oci.image.config.v1+json";
        let digest = content.add(What::Config, "application/octet-stream", config);
        let config = json!({"mediaType": config_type, "digest": digest, "size": size});
        let mut layers = Vec::new();
        for (place, layer) in self.layers.iter().enumerate() {
            let bytes = layer.bytes.clone();
            let digest = content.add(What::Layer(place), "application/octet-stream", bytes);
            layers
                .push(json!({"mediaType": layer.media_type, "digest": digest, "size": layer.size}));
        }
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config,
            "layers": layers,
        });
        content.add_manifest(manifest.to_string().into_bytes())
    }
}
