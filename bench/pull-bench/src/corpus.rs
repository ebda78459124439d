//! The images: layers that `hack/bench-corpus` built, with manifests, pushed to the registry's
//! storage once.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::measure::checked;
use crate::options::{Format, Options, workspace};
use crate::server::Server;

/// One image in one compression.
#[derive(Clone, Debug, Serialize)]
pub struct Image {
    /// Such as `big`.
    pub name: String,
    /// How its layers are compressed.
    pub format: Format,
    /// Whether its layers are encrypted for [`crate::encryption::key`].
    pub is_encrypted: bool,
    /// The manifest's digest.
    pub digest: String,
    /// Bottom first.
    pub layers: Vec<Layer>,
    #[serde(skip)]
    manifest: Vec<u8>,
    #[serde(skip)]
    config: Vec<u8>,
}

/// One layer.
#[derive(Clone, Debug, Serialize)]
pub struct Layer {
    /// The compressed file.
    #[serde(skip)]
    pub blob: PathBuf,
    /// The plain tar.
    #[serde(skip)]
    pub plain: PathBuf,
    /// The blob's digest.
    pub digest: String,
    /// The blob's bytes.
    pub size: u64,
    /// What the plain tar holds.
    pub facts: Facts,
}

/// What a plain tar holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// The tar's digest.
    pub diff_id: String,
    /// The tar's bytes.
    pub bytes: u64,
    /// Entries of any kind.
    pub entries: u64,
}

impl Image {
    /// Such as `big gz` and `big gz encrypted`.
    pub fn title(&self) -> String {
        let more = if self.is_encrypted { " encrypted" } else { "" };
        format!("{} {}{more}", self.name, self.format.name())
    }

    /// Its tag in the registry.
    pub fn tag(&self) -> String {
        let more = if self.is_encrypted { "-encrypted" } else { "" };
        format!("{}{more}", self.format.name())
    }

    /// The same image with these layers and this manifest in the place of its own.
    pub fn encrypted(&self, manifest: Vec<u8>, layers: Vec<Layer>) -> Self {
        Self { is_encrypted: true, digest: digest(&manifest), layers, manifest, ..self.clone() }
    }

    /// All blobs' bytes.
    pub fn compressed(&self) -> u64 {
        self.layers.iter().map(|layer| layer.size).sum()
    }

    /// All plain tars' bytes.
    pub fn plain(&self) -> u64 {
        self.layers.iter().map(|layer| layer.facts.bytes).sum()
    }

    /// All entries.
    pub fn entries(&self) -> u64 {
        self.layers.iter().map(|layer| layer.facts.entries).sum()
    }
}

/// The directory of the corpus, which outlives builds.
pub fn directory() -> PathBuf {
    workspace().join("target/bench-corpus")
}

/// Describes the images that `options` names.
pub fn open(options: &Options) -> Result<Vec<Image>> {
    let mut images = Vec::new();
    for name in &options.images {
        for format in &options.formats {
            images.push(image(name, *format)?);
        }
    }
    Ok(images)
}

fn image(name: &str, format: Format) -> Result<Image> {
    let directory = directory().join("layers");
    let mut tars: Vec<PathBuf> = fs::read_dir(&directory)
        .context("no corpus: run hack/bench-corpus")?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "tar"))
        .filter(|path| belongs(path, name))
        .collect();
    tars.sort();
    ensure!(!tars.is_empty(), "the corpus has no image {name}");
    let layers = tars.into_iter().map(|plain| layer(plain, format)).collect::<Result<Vec<_>>>()?;
    let config = serde_json::to_vec(&json!({
        "architecture": "amd64", "os": "linux", "config": {"Cmd": ["/bin/sh"]}, "created": "2023-11-14T22:13:20Z",
        "rootfs": {"type": "layers", "diff_ids": layers.iter().map(|layer| &layer.facts.diff_id).collect::<Vec<_>>()},
    }))?;
    let descriptors: Vec<Value> = layers
        .iter()
        .map(|layer| {
            let kind = format!("application/vnd.oci.image.layer.v1.tar+{}", format.media_suffix());
            json!({"mediaType": kind, "digest": layer.digest, "size": layer.size})
        })
        .collect();
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": descriptors,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(&config), "size": config.len()},
    }))?;
    Ok(Image {
        name: name.to_owned(),
        format,
        is_encrypted: false,
        digest: digest(&manifest),
        layers,
        manifest,
        config,
    })
}

fn belongs(tar: &Path, image: &str) -> bool {
    let stem = tar.file_stem().unwrap_or_default().to_string_lossy();
    stem.split_once('-').is_some_and(|(name, _)| name == image)
}

fn layer(plain: PathBuf, format: Format) -> Result<Layer> {
    let blob = plain.with_extension(format!("tar.{}", format.name()));
    let facts: Facts = remembered(&plain, "facts", || {
        Ok(Facts {
            diff_id: file_digest(&plain)?,
            bytes: fs::metadata(&plain)?.len(),
            entries: entries(&plain)?,
        })
    })?;
    Ok(Layer {
        digest: remembered(&blob, "digest", || file_digest(&blob))?,
        size: fs::metadata(&blob)?.len(),
        blob,
        plain,
        facts,
    })
}

/// What `make` says about `file`, from a note beside it where that is newer.
fn remembered<T: Serialize + for<'a> Deserialize<'a>>(
    file: &Path,
    what: &str,
    make: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let mut note = file.as_os_str().to_owned();
    note.push(format!(".{what}.json"));
    let note = PathBuf::from(note);
    let written = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    if written(&note).is_ok_and(|note| written(file).is_ok_and(|file| file < note)) {
        return Ok(serde_json::from_slice(&fs::read(&note)?)?);
    }
    let value = make().with_context(|| format!("failed to read {}", file.display()))?;
    fs::write(&note, serde_json::to_vec(&value)?)?;
    Ok(value)
}

fn entries(tar: &Path) -> Result<u64> {
    let mut archive = tar::Archive::new(BufReader::new(File::open(tar)?));
    let mut entries = 0;
    for entry in archive.entries_with_seek()? {
        entry?;
        entries += 1;
    }
    Ok(entries)
}

fn file_digest(path: &Path) -> Result<String> {
    let mut hasher = Hashing(Sha256::new());
    io::copy(&mut BufReader::with_capacity(1 << 20, File::open(path)?), &mut hasher)?;
    Ok(named(&hasher.0.finalize()))
}

struct Hashing(Sha256);

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn digest(bytes: &[u8]) -> String {
    named(&Sha256::digest(bytes))
}

fn named(hash: &[u8]) -> String {
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Puts the images into the registry that are not there, and reads every blob once, so that no run
/// finds it on the disk.
pub fn push(images: &[Image], server: &Server, work: &Path) -> Result<()> {
    for image in images {
        let note =
            directory().join("registry").join(format!("pushed-{}", image.digest.replace(':', "-")));
        if !note.exists() {
            eprintln!("{}: into the registry", image.title());
            let layout = work.join("layout");
            write_layout(image, &layout)?;
            let mut skopeo = Command::new("skopeo");
            skopeo
                .args([
                    "copy",
                    "--quiet",
                    "--insecure-policy",
                    "--preserve-digests",
                    "--dest-tls-verify=false",
                ])
                .arg(format!("oci:{}", layout.display()))
                .arg(format!("docker://{}", server.tagged(image)));
            checked(&mut skopeo)?;
            fs::remove_dir_all(&layout)?;
            fs::write(&note, "")?;
        }
        warm(image, server)?;
    }
    Ok(())
}

/// Reads every blob of an image once.
pub fn warm(image: &Image, server: &Server) -> Result<()> {
    for layer in &image.layers {
        for file in [&layer.blob, &layer.plain, &server.blob(&layer.digest)] {
            io::copy(&mut File::open(file)?, &mut io::sink())
                .with_context(|| format!("failed to read {}", file.display()))?;
        }
    }
    Ok(())
}

fn write_layout(image: &Image, layout: &Path) -> Result<()> {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let place = |digest: &str| blobs.join(digest.trim_start_matches("sha256:"));
    for layer in &image.layers {
        std::os::unix::fs::symlink(&layer.blob, place(&layer.digest))?;
    }
    fs::write(place(&digest(&image.config)), &image.config)?;
    fs::write(place(&image.digest), &image.manifest)?;
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let index = json!({"schemaVersion": 2, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": image.digest, "size": image.manifest.len(),
    }]});
    fs::write(layout.join("index.json"), index.to_string())?;
    Ok(())
}
