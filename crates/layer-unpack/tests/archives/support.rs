//! Layers unpacked through the entry that the program uses.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use layer_unpack::archive::{Archive, Entry};
use layer_unpack::blob::Expected;
use layer_unpack::caller::CallerGuard;
use layer_unpack::{ArchiveError, LayerError, Unpacked, unpack};
use oci_image::digest::Digest;
use vm_harness::archive::Tar;

/// The digest of bytes with an algorithm of so many hexadecimal digits.
pub fn digest_with(algorithm: &str, digits: usize, bytes: &[u8]) -> Digest {
    let zero = Digest::parse(&format!("{algorithm}:{}", "0".repeat(digits))).unwrap();
    let mut hasher = zero.hasher();
    hasher.update(bytes);
    hasher.finish()
}

pub fn sha256(bytes: &[u8]) -> Digest {
    digest_with("sha256", 64, bytes)
}

pub fn sha512(bytes: &[u8]) -> Digest {
    digest_with("sha512", 128, bytes)
}

/// Unpacks a blob below `root`.
pub fn unpack_blob(
    blob: &[u8],
    digest: Digest,
    diff_id: &Digest,
    root: &Path,
) -> Result<Unpacked, LayerError> {
    let expected = Expected { digest, size: blob.len() as u64 };
    let (source, waiting) = (Bytes::copy_from_slice(blob), CallerGuard::default());
    let root = fs::File::open(root).unwrap().into();
    unpack([source].into_iter(), &expected, None, diff_id, root, &waiting.watch())
}

/// Where an archive was unpacked.
pub struct Layer {
    _directory: tempfile::TempDir,
    pub root: PathBuf,
}

/// Unpacks an archive that must be right, on a tmpfs.
pub fn unpacked(archive: Tar) -> Layer {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let root = directory.path().join("layer");
    fs::create_dir(&root).unwrap();
    let bytes = archive.bytes();
    unpack_blob(&bytes, sha256(&bytes), &sha256(&bytes), &root).unwrap();
    Layer { _directory: directory, root }
}

/// The first entry of an archive.
pub fn first(archive: Tar) -> Result<Entry, ArchiveError> {
    let bytes = archive.bytes();
    let entry = Archive::new(&bytes[..], 1 << 20).next_entry()?;
    Ok(entry.expect("an entry"))
}
