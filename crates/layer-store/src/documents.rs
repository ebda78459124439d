//! The manifest, the indexes before it and the configuration of each image whose layers are here,
//! and the signatures that let it run, so that such an image needs no registry.
//!
//! Nothing here is believed: whoever reads a document holds it to its digest again. A damaged one
//! is one that is missing.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use oci_image::digest::Digest;
use oci_image::manifest::{MAX_CONFIG_BYTES, MAX_MANIFEST_BYTES};

use crate::directory::{entries, make_private};
use crate::error::Error;
use crate::layer::{Layer, ROOT};
use crate::limits::MAX_SIGNATURES_BYTES;
use crate::store::Store;
use crate::waste::{discard, is_missing, throw_away};

/// Where the store has them, a directory for each image.
pub(crate) const IMAGES: &str = "images";

/// The list of an image's layers, one name on each line.
const LAYERS: &str = "layers";

/// The signatures of an image, as who keeps them writes them.
const SIGNATURES: &str = "signatures";

/// The most bytes of a document that are read: more than any that was kept.
const MAX_DOCUMENT_BYTES: u64 = if MAX_MANIFEST_BYTES > MAX_CONFIG_BYTES {
    MAX_MANIFEST_BYTES as u64
} else {
    MAX_CONFIG_BYTES as u64
};

impl Store {
    /// A document of the image that is asked for by the digest `image`, if it was kept; not
    /// verified. Blocks.
    pub fn document(&self, image: &Digest, wanted: &Digest) -> Option<Vec<u8>> {
        self.kept(image, &wanted.file_name(), MAX_DOCUMENT_BYTES)
    }

    /// The signatures of the image that is asked for by the digest `image`, if some were kept; not
    /// verified. Blocks.
    pub fn signatures(&self, image: &Digest) -> Option<Vec<u8>> {
        // What is longer was not kept, and is seen as such.
        self.kept(image, SIGNATURES, MAX_SIGNATURES_BYTES as u64 + 1)
    }

    fn kept(&self, image: &Digest, name: &str, most: u64) -> Option<Vec<u8>> {
        match read(&self.image_path(image).join(name), most) {
            Ok(text) => text,
            Err(error) => {
                tracing::warn!(%image, document = name, %error, "cannot read a kept document");
                None
            }
        }
    }

    /// Keeps signatures beside the documents of an image, in place of those that were kept before;
    /// where no documents are kept, nothing is. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`] and [`Error::Full`]; what was kept before stays then.
    pub fn keep_signatures(&self, image: &Digest, signatures: &[u8]) -> Result<(), Error> {
        let staged = self.unused_staging();
        let written = fs::write(&staged, signatures).map_err(Error::file("write", &staged));
        let kept = written.and_then(|()| {
            // Not while documents are dropped.
            let _alone = self.users.lock();
            let directory = self.image_path(image);
            if is_missing(&directory) {
                discard(&staged);
                return Ok(());
            }
            let target = directory.join(SIGNATURES);
            fs::rename(&staged, &target).map_err(Error::file("keep the signatures in", target))
        });
        kept.map_err(|error| {
            discard(&staged);
            error.or_full(self.root())
        })
    }

    /// Keeps the documents that lead from the digest `image` to its layers, in place of those that
    /// were kept before. They stay as long as any of these layers does. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`] and [`Error::Full`]; then nothing is kept.
    pub fn keep_documents(
        &self,
        image: &Digest,
        documents: &[(Digest, Vec<u8>)],
        layers: &[Layer],
    ) -> Result<(), Error> {
        let staged = self.unused_staging();
        let kept = fill(&staged, documents, layers).and_then(|()| {
            // One at a time, and not while documents are dropped.
            let _alone = self.users.lock();
            let target = self.image_path(image);
            if !is_missing(&target) {
                throw_away(self.root(), &target)?;
            }
            fs::rename(&staged, &target).map_err(Error::file("keep the documents in", &target))
        });
        kept.map_err(|error| {
            discard(&staged);
            error.or_full(self.root())
        })
    }

    /// Drops the documents of images of which no layer is left.
    pub(crate) fn drop_documents(&self) -> Result<(), Error> {
        for image in entries(&self.root().join(IMAGES))? {
            let _alone = self.users.lock();
            let layers = fs::read_to_string(image.join(LAYERS)).unwrap_or_default();
            let is_there = |name: &str| self.root().join("layers").join(name).join(ROOT).is_dir();
            if !layers.lines().any(is_there) && !is_missing(&image) {
                throw_away(self.root(), &image)?;
            }
        }
        Ok(())
    }

    fn image_path(&self, image: &Digest) -> PathBuf {
        self.root().join(IMAGES).join(image.file_name())
    }
}

/// Writes everything of an image to a directory that is not there yet.
fn fill(directory: &Path, documents: &[(Digest, Vec<u8>)], layers: &[Layer]) -> Result<(), Error> {
    make_private(directory)?;
    let write = |name: &str, content: &[u8]| {
        let path = directory.join(name);
        fs::write(&path, content).map_err(Error::file("write", path))
    };
    for (digest, text) in documents {
        write(&digest.file_name(), text)?;
    }
    let names = layers.iter().filter_map(|layer| layer.path().file_name());
    let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
    write(LAYERS, names.join("\n").as_bytes())
}

/// The content of a file, if it is there, up to so many bytes.
fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = Vec::new();
    // What is cut here has another digest.
    file.take(most).read_to_end(&mut text)?;
    Ok(Some(text))
}
