//! An image of several layers, made from real files, as an OCI layout.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::GzBuilder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::program::workspace;

/// An OCI image layout on disk.
#[derive(Debug)]
pub struct Layout {
    /// Its directory.
    pub path: PathBuf,
    /// The manifest's digest, `sha256:...`.
    pub manifest: String,
    /// The layers' digests, bottom first.
    pub layers: Vec<String>,
    /// The regular files of the merged tree: path, then mode and SHA-256 in hexadecimal.
    pub files: BTreeMap<String, (u32, String)>,
}

/// How a layer is compressed.
#[derive(Clone, Copy, Debug)]
pub enum Compression {
    /// As most images are.
    Gzip,
    /// Smaller, and faster to read.
    Zstd,
}

/// Makes the image that the demonstration and the tests pull.
///
/// Four layers: licences and a static shell (gzip), the C library with a symbolic and a hard link
/// (zstd), this project's own sources (gzip), and edits on top (gzip): a file replaced, one removed
/// by a whiteout, a set-uid program.
///
/// # Errors
///
/// Those of the file system.
pub fn sample(directory: &Path) -> Result<Layout> {
    let layers = [
        (base()?, Compression::Gzip),
        (libraries()?, Compression::Zstd),
        (sources()?, Compression::Gzip),
        (edits()?, Compression::Gzip),
    ];
    let mut files = BTreeMap::new();
    let mut archives = Vec::new();
    for (layer, compression) in layers {
        archives.push((layer.apply_and_finish(&mut files)?, compression));
    }
    Ok(Layout { files, ..of_archives(directory, archives)? })
}

/// Makes an image of tar archives, bottom first. The list of its files stays empty.
///
/// # Errors
///
/// Those of the file system.
pub fn of_archives(directory: &Path, archives: Vec<(Vec<u8>, Compression)>) -> Result<Layout> {
    let blobs = directory.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let mut layers = Vec::new();
    for (plain, compression) in archives {
        let diff_id = digest(&plain);
        let (bytes, kind) = match compression {
            Compression::Gzip => (gzip(&plain)?, "tar+gzip"),
            Compression::Zstd => (zstd::encode_all(plain.as_slice(), 3)?, "tar+zstd"),
        };
        let media_type = format!("application/vnd.oci.image.layer.v1.{kind}");
        layers.push((store(&blobs, &media_type, &bytes)?, diff_id));
    }
    of_layers(directory, layers)
}

/// Makes an image of layers whose blobs are there: descriptor and diff ID of each, bottom first.
/// The list of its files stays empty.
///
/// # Errors
///
/// Those of the file system.
pub fn of_layers(directory: &Path, layers: Vec<(Value, String)>) -> Result<Layout> {
    let blobs = directory.join("blobs/sha256");
    let (descriptors, diff_ids): (Vec<_>, Vec<_>) = layers.into_iter().unzip();
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "created": "2026-01-01T00:00:00Z",
        "config": {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    let config =
        store(&blobs, "application/vnd.oci.image.config.v1+json", config.to_string().as_bytes())?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": descriptors,
    });
    let manifest = store(
        &blobs,
        "application/vnd.oci.image.manifest.v1+json",
        manifest.to_string().as_bytes(),
    )?;
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(directory.join("index.json"), index.to_string())?;
    fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(Layout {
        path: directory.to_owned(),
        manifest: text(&manifest["digest"]),
        layers: descriptors.iter().map(|d| text(&d["digest"])).collect(),
        files: BTreeMap::new(),
    })
}

fn base() -> Result<Layer> {
    let mut layer = Layer::new();
    for folder in ["bin", "etc", "usr", "usr/share", "usr/share/common-licenses"] {
        layer.directory(folder)?;
    }
    layer.copy("bin/busybox", Path::new("/bin/busybox"), 0o755)?;
    layer.symlink("bin/sh", "busybox")?;
    for name in ["Apache-2.0", "GPL-3", "MPL-2.0", "BSD"] {
        let source = Path::new("/usr/share/common-licenses").join(name);
        layer.copy(&format!("usr/share/common-licenses/{name}"), &source, 0o644)?;
    }
    layer.file("etc/motd", b"from the lowest layer\n", 0o644)?;
    layer.file("etc/removed", b"a later layer removes this\n", 0o600)?;
    Ok(layer)
}

fn libraries() -> Result<Layer> {
    let mut layer = Layer::new();
    layer.directory("lib")?;
    let libc = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    layer.copy("lib/libc-2.36.so", libc, 0o755)?;
    layer.symlink("lib/libc.so.6", "libc-2.36.so")?;
    layer.hard_link("lib/libc-hard.so", "lib/libc-2.36.so")?;
    Ok(layer)
}

fn sources() -> Result<Layer> {
    let mut layer = Layer::new();
    layer.directory("src")?;
    let mut folders = vec![PathBuf::from("crates/config-image/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(workspace().join(&folder))? {
            let entry = entry?;
            let relative = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(relative);
            } else {
                let name = format!("src/{}", entry.file_name().to_string_lossy());
                layer.copy(&name, &entry.path(), 0o640)?;
            }
        }
    }
    Ok(layer)
}

fn edits() -> Result<Layer> {
    let mut layer = Layer::new();
    layer.directory("etc")?;
    layer.file("etc/motd", b"pulled inside the guest\n", 0o644)?;
    layer.file("etc/.wh.removed", b"", 0o600)?;
    layer.file("bin/set-uid", b"#!/bin/sh\nid\n", 0o4755)?;
    Ok(layer)
}

/// A layer being written, as a plain tar with fixed owner and time.
struct Layer {
    tar: tar::Builder<Vec<u8>>,
    /// Regular files and whiteouts, with mode and SHA-256.
    files: Vec<(String, (u32, String))>,
}

impl Layer {
    fn new() -> Self {
        Self { tar: tar::Builder::new(Vec::new()), files: Vec::new() }
    }

    fn header(kind: tar::EntryType, mode: u32, size: usize) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_767_225_600);
        header.set_size(size as u64);
        header
    }

    fn directory(&mut self, name: &str) -> Result<()> {
        let mut header = Self::header(tar::EntryType::Directory, 0o755, 0);
        Ok(self.tar.append_data(&mut header, format!("{name}/"), io::empty())?)
    }

    fn file(&mut self, name: &str, content: &[u8], mode: u32) -> Result<()> {
        let mut header = Self::header(tar::EntryType::Regular, mode, content.len());
        self.files.push((name.to_owned(), (mode, hex(&Sha256::digest(content)))));
        Ok(self.tar.append_data(&mut header, name, content)?)
    }

    fn copy(&mut self, name: &str, source: &Path, mode: u32) -> Result<()> {
        let content =
            fs::read(source).with_context(|| format!("failed to read {}", source.display()))?;
        self.file(name, &content, mode)
    }

    fn symlink(&mut self, name: &str, target: &str) -> Result<()> {
        let mut header = Self::header(tar::EntryType::Symlink, 0o777, 0);
        Ok(self.tar.append_link(&mut header, name, target)?)
    }

    fn hard_link(&mut self, name: &str, target: &str) -> Result<()> {
        let mut header = Self::header(tar::EntryType::Link, 0o755, 0);
        if let Some((_, same)) = self.files.iter().find(|(file, _)| file == target).cloned() {
            self.files.push((name.to_owned(), same));
        }
        Ok(self.tar.append_link(&mut header, name, target)?)
    }

    /// Ends the archive, and changes `files` as this layer does.
    fn apply_and_finish(self, files: &mut BTreeMap<String, (u32, String)>) -> Result<Vec<u8>> {
        for (name, file) in self.files {
            match name.rsplit_once("/.wh.") {
                Some((folder, removed)) => files.remove(&format!("{folder}/{removed}")),
                None => files.insert(name, file),
            };
        }
        Ok(self.tar.into_inner()?)
    }
}

fn gzip(plain: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), flate2::Compression::default());
    encoder.write_all(plain)?;
    Ok(encoder.finish()?)
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// Bytes as lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a blob and returns its descriptor.
fn store(blobs: &Path, media_type: &str, bytes: &[u8]) -> Result<Value> {
    let digest = digest(bytes);
    fs::write(blobs.join(digest.trim_start_matches("sha256:")), bytes)?;
    Ok(json!({"mediaType": media_type, "digest": digest, "size": bytes.len()}))
}
