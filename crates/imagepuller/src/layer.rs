//! One layer: from the stream of a blob to a verified directory. Blocks; runs on a thread of its own.
//!
//! The bytes are hashed as they come, inflated, hashed again and unpacked in one pass without a temporary file. So files
//! are written *before* their digest is known: into a staging directory that nothing uses, and that is removed unless both
//! digests hold in the end.
//!
//! - [`blob`]: the stream, its digest and size.
//! - [`compression`]: gzip, zstd or neither.
//! - [`archive`]: the entries of a tar archive, with [`pax`] records.
//! - [`tree`]: directories resolved below the layer's root and never above it.
//! - [`mod@unpack`]: entries made into files, with whiteouts in overlayfs's form.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use crate::digest::{Digest, Hasher, Mismatch};

pub mod archive;
mod archive_error;
pub mod blob;
pub mod compression;
pub mod pax;
pub mod tree;
pub mod unpack;

#[cfg(test)]
pub(crate) mod tests;

pub use archive_error::ArchiveError;
pub use unpack::UnpackError;

/// The most plain bytes of one layer. Larger ones exist nowhere; a bomb ends here or when the store is full.
pub const MAX_PLAIN_BYTES: u64 = 128 << 30;

/// What is wrong with a layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The received bytes are not the blob.
    #[error("the received bytes are not the blob that the manifest names")]
    Blob(#[source] Mismatch),
    /// The blob is right, but it is not the layer that the configuration names.
    #[error("the unpacked bytes are not the layer that the image configuration names")]
    DiffId(#[source] Mismatch),
    /// The compressed stream is broken.
    #[error("the compressed stream is broken")]
    Compression(#[source] io::Error),
    /// The archive breaks a rule.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
}

impl LayerError {
    /// Whether the store ran out of room.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::Unpack(error) if error.is_no_space())
    }
}

/// Unpacks a blob below `root` and checks both digests.
///
/// # Errors
///
/// A blob that is not the one asked for is always reported as that, whatever its bytes broke on the way. After an error the
/// directory holds anything and must be removed.
pub fn unpack(
    source: impl Read,
    expected: &blob::Expected,
    diff_id: &Digest,
    root: OwnedFd,
) -> Result<Unpacked, LayerError> {
    let mut blob = blob::Blob::new(source, expected);
    let unpacked = unpack_plain(&mut blob, diff_id, root);
    blob.finish().map_err(LayerError::Blob)?;
    unpacked
}

/// What was unpacked.
#[derive(Clone, Copy, Debug)]
pub struct Unpacked {
    /// Entries of the archive.
    pub entries: u64,
    /// Bytes of the archive.
    pub plain_bytes: u64,
}

fn unpack_plain(
    blob: &mut impl Read,
    diff_id: &Digest,
    root: OwnedFd,
) -> Result<Unpacked, LayerError> {
    let stream = compression::decode(blob).map_err(LayerError::Compression)?;
    let mut plain = Plain {
        stream,
        hasher: diff_id.hasher(),
        bytes: 0,
        failure: None,
    };
    let unpacked = unpack::unpack(&mut plain, root).and_then(|entries| {
        // What follows the end of the archive belongs to the digest.
        io::copy(&mut plain, &mut io::sink()).map_err(ArchiveError::read)?;
        Ok(entries)
    });
    if let Some(failure) = plain.failure.take() {
        return Err(LayerError::Compression(failure));
    }
    let entries = unpacked?;
    let plain_bytes = plain.bytes;
    diff_id
        .check(plain.hasher.finish(), plain_bytes)
        .map_err(LayerError::DiffId)?;
    Ok(Unpacked {
        entries,
        plain_bytes,
    })
}

/// The plain bytes on their way to the archive reader.
struct Plain<R> {
    stream: R,
    hasher: Hasher,
    bytes: u64,
    /// The first failure of the decoder, kept apart from failures of the archive.
    failure: Option<io::Error>,
}

impl<R: Read> Read for Plain<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.stream.read(buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                let kind = error.kind();
                self.failure.get_or_insert(error);
                return Err(kind.into());
            }
        };
        self.hasher.update(&buffer[..read]);
        self.bytes += read as u64;
        if self.bytes > MAX_PLAIN_BYTES {
            let limit =
                io::Error::other(format!("more than {MAX_PLAIN_BYTES} bytes come out of it"));
            self.failure.get_or_insert(limit);
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(read)
    }
}
