//! A manifest changed by somebody who has no key: the registry, or the host in between.
//!
//! References are pinned by digest, so a changed manifest is another image. These changes show what
//! a puller makes of an image whose author is the attacker, and what it believes about bytes that
//! have the right digest.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::PUBLIC_OPTIONS;
use super::image::{Encrypted, blob, manifest, read, text};
use vm_harness::Scratch;
use vm_harness::layout::hex;

/// A copy of an image, open for changes.
#[derive(Debug)]
pub struct Surgery {
    path: PathBuf,
    manifest: Value,
}

impl Surgery {
    /// Copies the image to a layout called `name`.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn begin(scratch: &Scratch, name: &str, image: &Encrypted) -> Result<Self> {
        let path = scratch.path().join(name);
        fs::create_dir_all(path.join("blobs/sha256"))?;
        for file in ["oci-layout", "index.json"] {
            fs::copy(image.path.join(file), path.join(file))?;
        }
        for entry in fs::read_dir(image.path.join("blobs/sha256"))? {
            let entry = entry?;
            let to = path.join("blobs/sha256").join(entry.file_name());
            fs::copy(entry.path(), to)?;
        }
        let manifest = manifest(&path)?;
        Ok(Self { path, manifest })
    }

    /// A layer's descriptor, lowest is 0.
    ///
    /// # Panics
    ///
    /// Where there is no such layer.
    pub fn layer(&mut self, place: usize) -> &mut Value {
        &mut self.manifest["layers"][place]
    }

    /// Puts other bytes in a layer's place, digest and size as they then are.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn replace(&mut self, place: usize, bytes: &[u8]) -> Result<()> {
        let digest = format!("sha256:{}", hex(&Sha256::digest(bytes)));
        fs::write(blob(&self.path, &digest), bytes)?;
        let layer = self.layer(place);
        layer["digest"] = json!(digest);
        layer["size"] = json!(bytes.len());
        Ok(())
    }

    /// Flips a bit in the middle of a layer, with the digests that are then right.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn flip(&mut self, place: usize) -> Result<()> {
        let mut bytes = read(&self.path, &self.manifest["layers"][place])?;
        let middle = bytes.len() / 2;
        *bytes.get_mut(middle).context("the layer is empty")? ^= 1;
        self.replace(place, &bytes)
    }

    /// Changes what is public of a layer's encryption.
    ///
    /// # Errors
    ///
    /// Where it is not encrypted.
    pub fn public_options(&mut self, place: usize, change: impl FnOnce(&mut Value)) -> Result<()> {
        let annotations = &mut self.layer(place)["annotations"];
        let old = STANDARD.decode(text(annotations, PUBLIC_OPTIONS)?)?;
        let mut options: Value = serde_json::from_slice(&old)?;
        change(&mut options);
        annotations[PUBLIC_OPTIONS] = json!(STANDARD.encode(options.to_string()));
        Ok(())
    }

    /// Puts a nonce into the public options, where some readers look first.
    ///
    /// # Errors
    ///
    /// Where the layer is not encrypted.
    pub fn public_nonce(&mut self, place: usize) -> Result<()> {
        self.public_options(place, |options| {
            options["cipheroptions"]["nonce"] = json!(STANDARD.encode([7; 16]));
        })
    }

    /// Swaps two layers, annotations and all.
    ///
    /// # Errors
    ///
    /// Where there are no layers.
    pub fn swap(&mut self, one: usize, other: usize) -> Result<()> {
        let layers = self.manifest["layers"].as_array_mut();
        layers.context("no layers")?.swap(one, other);
        Ok(())
    }

    /// Says that a layer is not encrypted.
    ///
    /// # Errors
    ///
    /// Where it does not say that it is.
    pub fn strip(&mut self, place: usize) -> Result<()> {
        let layer = self.layer(place);
        let media_type = text(layer, "mediaType")?;
        let plain = media_type.strip_suffix("+encrypted");
        let plain = plain.context("a layer that is not encrypted")?.to_owned();
        layer["mediaType"] = json!(plain);
        Ok(())
    }

    /// Takes an annotation away.
    ///
    /// # Errors
    ///
    /// Where it is not there.
    pub fn remove_annotation(&mut self, place: usize, name: &str) -> Result<()> {
        let annotations = self.layer(place)["annotations"].as_object_mut();
        annotations
            .and_then(|all| all.remove(name))
            .with_context(|| format!("no annotation {name}"))?;
        Ok(())
    }

    /// Takes all annotations away.
    ///
    /// # Errors
    ///
    /// Where there are none.
    pub fn remove_annotations(&mut self, place: usize) -> Result<()> {
        let layer = self.layer(place).as_object_mut();
        layer.and_then(|layer| layer.remove("annotations")).context("no annotations")?;
        Ok(())
    }

    /// Writes the manifest, and an index that names it alone.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn finish(self) -> Result<Encrypted> {
        let bytes = self.manifest.to_string();
        let digest = format!("sha256:{}", hex(&Sha256::digest(&bytes)));
        fs::write(blob(&self.path, &digest), &bytes)?;
        let descriptor = json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": digest,
            "size": bytes.len(),
        });
        let index = json!({"schemaVersion": 2, "manifests": [descriptor]});
        fs::write(self.path.join("index.json"), index.to_string())?;
        Encrypted::open(self.path)
    }
}
