//! Layers of any kind as an OCI image layout.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256, Sha512};

/// A layer: its blob, and the archive that comes out of it.
pub struct Layer {
    pub blob: Vec<u8>,
    pub plain: Vec<u8>,
    pub media_type: &'static str,
}

impl Layer {
    /// An archive as it is.
    pub fn plain(archive: Vec<u8>) -> Self {
        Self {
            blob: archive.clone(),
            plain: archive,
            media_type: "application/vnd.oci.image.layer.v1.tar",
        }
    }

    /// An archive in gzip members, one after another, each of so many bytes.
    pub fn gzip(archive: Vec<u8>, member_bytes: usize) -> Self {
        use std::io::Write as _;
        let member = |bytes: &[u8]| {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        Self {
            blob: archive.chunks(member_bytes).flat_map(member).collect(),
            plain: archive,
            media_type: "application/vnd.oci.image.layer.v1.tar+gzip",
        }
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a layout with one image, `latest`; gives the digest of its manifest. Every other layer
/// has a SHA-512 as its diff ID, if that is wanted.
pub fn write(directory: &Path, layers: &[Layer], with_sha512: bool) -> String {
    fs::create_dir_all(directory.join("blobs/sha256")).unwrap();
    let store = |media_type: &str, bytes: &[u8]| -> Value {
        let digest = sha256(bytes);
        let file = digest.trim_start_matches("sha256:");
        fs::write(directory.join("blobs/sha256").join(file), bytes).unwrap();
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    };
    let diff_id = |(at, layer): (usize, &Layer)| {
        if with_sha512 && at % 2 == 1 {
            format!("sha512:{}", hex(&Sha512::digest(&layer.plain)))
        } else {
            sha256(&layer.plain)
        }
    };
    let diff_ids: Vec<_> = layers.iter().enumerate().map(diff_id).collect();
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    let config = config.to_string();
    let config = store("application/vnd.oci.image.config.v1+json", config.as_bytes());
    let layers: Vec<_> = layers.iter().map(|layer| store(layer.media_type, &layer.blob)).collect();
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers});
    let mut manifest = store(media_type, manifest.to_string().as_bytes());
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": "latest"});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(directory.join("index.json"), index.to_string()).unwrap();
    let version = r#"{"imageLayoutVersion":"1.0.0"}"#;
    fs::write(directory.join("oci-layout"), version).unwrap();
    manifest["digest"].as_str().unwrap().to_owned()
}
