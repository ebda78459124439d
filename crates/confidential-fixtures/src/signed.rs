//! Images signed as cosign 2 signs them, by `openssl`: simple signing under the tag `sha256-….sig`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::encrypted::Key;

/// One signature of an image, or what is passed off as one.
#[derive(Clone, Debug)]
pub struct SimpleSignature {
    /// What is signed.
    pub payload: Vec<u8>,
    /// The signature over it, in base64.
    pub signature: String,
}

impl SimpleSignature {
    /// Signs that `digest` is the image `reference`, as `cosign sign --key` does.
    ///
    /// # Errors
    ///
    /// `openssl`'s own.
    pub fn new(key: &Key, digest: &str, reference: &str) -> Result<Self> {
        let payload = json!({
            "critical": {
                "identity": {"docker-reference": reference},
                "image": {"docker-manifest-digest": digest},
                "type": "cosign container image signature",
            },
            "optional": null,
        });
        let payload = payload.to_string().into_bytes();
        let signature = STANDARD.encode(key.sign(&payload)?);
        Ok(Self { payload, signature })
    }
}

/// The tag under which the signatures of a digest are.
#[must_use]
pub fn signature_tag(digest: &str) -> String {
    format!("{}.sig", digest.replace(':', "-"))
}

/// The manifest of signatures, and the blobs that it names.
#[must_use]
pub fn signature_manifest(signatures: &[SimpleSignature]) -> (Value, Vec<Vec<u8>>) {
    let mut blobs = vec![b"{}".to_vec()];
    let layer = |one: &SimpleSignature| {
        json!({
            "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
            "digest": digest_of(&one.payload),
            "size": one.payload.len(),
            "annotations": {"dev.cosignproject.cosign/signature": one.signature},
        })
    };
    let layers: Vec<_> = signatures.iter().map(layer).collect();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": digest_of(b"{}"),
            "size": 2,
        },
        "layers": layers,
    });
    blobs.extend(signatures.iter().map(|one| one.payload.clone()));
    (manifest, blobs)
}

/// Writes signatures as an OCI layout, to be pushed under their [tag](signature_tag).
///
/// # Errors
///
/// Those of the file system.
pub fn signature_layout(directory: &Path, signatures: &[SimpleSignature]) -> Result<PathBuf> {
    let folder = directory.join("blobs/sha256");
    fs::create_dir_all(&folder)?;
    let (manifest, mut blobs) = signature_manifest(signatures);
    let manifest = manifest.to_string().into_bytes();
    let index = json!({"schemaVersion": 2, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": digest_of(&manifest),
        "size": manifest.len(),
    }]});
    blobs.push(manifest);
    for blob in blobs {
        let digest = digest_of(&blob);
        let hex = digest.strip_prefix("sha256:").context("a digest")?;
        fs::write(folder.join(hex), blob)?;
    }
    fs::write(directory.join("index.json"), index.to_string())?;
    let layout = r#"{"imageLayoutVersion":"1.0.0"}"#;
    fs::write(directory.join("oci-layout"), layout)?;
    Ok(directory.to_owned())
}

/// The digest of bytes, `sha256:...`.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes);
    let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}
