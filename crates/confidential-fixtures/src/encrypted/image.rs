//! An image encrypted by `skopeo`, and the proof that it is.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Key, PUBLIC_OPTIONS};
use vm_harness::Scratch;
use vm_harness::layout::hex;
use vm_harness::process::run_checked;

/// How compressed layers begin; what is encrypted looks so once in millions of times.
const MAGICS: [&[u8]; 2] = [&[0x1f, 0x8b, 8], &[0x28, 0xb5, 0x2f, 0xfd]];

/// What all annotations with a wrapped key begin with.
const KEYS: &str = "org.opencontainers.image.enc.keys.";

/// Which layers are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Every one.
    All,
    /// The uppermost.
    Last,
}

/// An OCI layout with an image in it, some of it encrypted.
#[derive(Clone, Debug)]
pub struct Encrypted {
    /// Its directory.
    pub path: PathBuf,
    /// The manifest's digest, `sha256:...`.
    pub manifest: String,
}

/// Encrypts the image in the layout `plain` for all of `keys` with `skopeo`, to a layout called
/// `name`, and proves that it is.
///
/// # Errors
///
/// `skopeo`'s own; where a layer is not encrypted, or one that should not be.
pub fn encrypt(
    scratch: &Scratch,
    name: &str,
    plain: &Path,
    keys: &[&Key],
    which: Which,
) -> Result<Encrypted> {
    let path = scratch.path().join(name);
    let mut arguments = ["copy", "--quiet", "--insecure-policy"].map(str::to_owned).to_vec();
    for key in keys {
        arguments.push("--encryption-key".to_owned());
        arguments.push(format!("jwe:{}", key.public().display()));
    }
    if which == Which::Last {
        arguments.extend(["--encrypt-layer", "-1"].map(str::to_owned));
    }
    arguments.push(format!("oci:{}", plain.display()));
    arguments.push(format!("oci:{}", path.display()));
    run_checked(scratch, "skopeo", arguments)?;
    let encrypted = Encrypted::open(path)?;
    encrypted.prove(plain, which)?;
    Ok(encrypted)
}

impl Encrypted {
    /// The image that the index of a layout names.
    ///
    /// # Errors
    ///
    /// Where there is not exactly one.
    pub fn open(path: PathBuf) -> Result<Self> {
        let manifest = manifest_digest(&path)?;
        Ok(Self { path, manifest })
    }

    /// The layers' descriptors, lowest first.
    ///
    /// # Errors
    ///
    /// Where the layout is none.
    pub fn layers(&self) -> Result<Vec<Value>> {
        layers(&self.path)
    }

    /// The bytes of a layer as they travel.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn layer(&self, place: usize) -> Result<Vec<u8>> {
        let layers = self.layers()?;
        let layer = layers.get(place).context("no such layer")?;
        read(&self.path, layer)
    }

    /// Proves of each layer that it is encrypted, or that it is the plain one where `which` leaves
    /// it out: by its media type, its annotations and its bytes.
    ///
    /// # Errors
    ///
    /// Where one is not.
    pub fn prove(&self, plain: &Path, which: Which) -> Result<()> {
        let plain_layers = layers(plain)?;
        let layers = self.layers()?;
        ensure!(
            layers.len() == plain_layers.len() && !layers.is_empty(),
            "another number of layers"
        );
        let last = layers.len() - 1;
        for (place, (layer, before)) in layers.iter().zip(&plain_layers).enumerate() {
            if which == Which::Last && place != last {
                ensure!(layer["digest"] == before["digest"], "layer {place} was not to be touched");
                continue;
            }
            prove_layer(layer, before, &self.path, plain)
                .with_context(|| format!("layer {place} is not encrypted"))?;
        }
        Ok(())
    }
}

fn prove_layer(layer: &Value, before: &Value, path: &Path, plain: &Path) -> Result<()> {
    let media_type = text(layer, "mediaType")?;
    let plain_type = text(before, "mediaType")?;
    ensure!(*media_type == format!("{plain_type}+encrypted"), "its media type is {media_type}");
    ensure!(
        layer["annotations"]
            .as_object()
            .is_some_and(|all| all.keys().any(|key| key.starts_with(KEYS))),
        "no annotation has its key"
    );
    let options = text(&layer["annotations"], PUBLIC_OPTIONS)?;
    let options: Value = serde_json::from_slice(&STANDARD.decode(options)?)?;
    ensure!(
        options["cipher"] == "AES_256_CTR_HMAC_SHA256",
        "its public options name another cipher"
    );
    let (bytes, clear) = (read(path, layer)?, read(plain, before)?);
    ensure!(bytes.len() == clear.len() && bytes != clear, "its bytes are the plain layer's");
    ensure!(
        !MAGICS.iter().any(|magic| bytes.starts_with(magic)),
        "its bytes begin as a compressed stream does"
    );
    // Not even somewhere inside: no run of the plain bytes shows.
    let sample = &clear[clear.len() / 2..(clear.len() / 2 + 16).min(clear.len())];
    ensure!(!bytes.windows(sample.len()).any(|window| window == sample), "plain bytes show in it");
    Ok(())
}

fn manifest_digest(layout: &Path) -> Result<String> {
    let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json"))?)?;
    let manifests = index["manifests"].as_array().context("no manifests")?;
    let [manifest] = &manifests[..] else {
        anyhow::bail!("not one manifest");
    };
    Ok(text(manifest, "digest")?.to_owned())
}

/// The manifest of a layout's one image.
pub(super) fn manifest(layout: &Path) -> Result<Value> {
    let digest = manifest_digest(layout)?;
    Ok(serde_json::from_slice(&fs::read(blob(layout, &digest))?)?)
}

fn layers(layout: &Path) -> Result<Vec<Value>> {
    let manifest = manifest(layout)?;
    Ok(manifest["layers"].as_array().context("no layers")?.clone())
}

/// The file of a blob.
pub(super) fn blob(layout: &Path, digest: &str) -> PathBuf {
    let hex = digest.trim_start_matches("sha256:");
    layout.join("blobs/sha256").join(hex)
}

/// A blob, its digest checked.
pub(super) fn read(layout: &Path, descriptor: &Value) -> Result<Vec<u8>> {
    let digest = text(descriptor, "digest")?;
    let bytes = fs::read(blob(layout, digest))?;
    ensure!(
        *digest == format!("sha256:{}", hex(&Sha256::digest(&bytes))),
        "the blob {digest} has another digest"
    );
    Ok(bytes)
}

/// A member that is text.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name].as_str().with_context(|| format!("no \"{name}\""))
}
