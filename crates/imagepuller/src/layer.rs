//! One layer: from the stream of a blob to a verified directory. Blocks; runs on a thread of its own.
//!
//! The bytes are hashed as they come, inflated, hashed again and unpacked in one pass without a temporary file. So files
//! are written *before* their digest is known: into a staging directory that nothing uses, and that is removed unless both
//! digests hold in the end.
//!
//! - [`blob`]: the stream, its digest and size.
//! - [`compression`]: gzip, zstd or neither.
//! - [`archive`]: the entries of a tar archive, with [`pax`] records.
//! - [`caller`]: who waits for it, and its end when nobody does.
//! - [`tree`]: directories resolved below the layer's root and never above it.
//! - [`mod@unpack`]: entries made into files, with whiteouts in overlayfs's form.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use crate::digest::{Digest, Hasher, Mismatch};

pub mod archive;
mod archive_error;
pub mod blob;
pub mod caller;
pub mod compression;
pub mod pax;
pub mod tree;
pub mod unpack;

#[cfg(test)]
pub(crate) mod tests;

pub use archive_error::ArchiveError;
pub use caller::Caller;
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
    /// Nobody waits for it any more.
    #[error("the pull was given up")]
    GivenUp,
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

/// How large a layer may become.
#[derive(Clone, Copy, Debug)]
struct Limits {
    plain_bytes: u64,
    entries: u64,
}

const LIMITS: Limits = Limits {
    plain_bytes: MAX_PLAIN_BYTES,
    entries: archive::MAX_ENTRIES,
};

/// Unpacks a blob below `root` and checks both digests.
///
/// # Errors
///
/// A blob that is not the one asked for is reported as that, whatever its bytes broke on the way; but not where the store
/// is full or the caller is gone, for then the rest of it is not waited for. After an error the directory holds anything
/// and must be removed.
pub fn unpack(
    source: impl Read,
    expected: &blob::Expected,
    diff_id: &Digest,
    root: OwnedFd,
    caller: &Caller,
) -> Result<Unpacked, LayerError> {
    unpack_within(&LIMITS, source, expected, diff_id, root, caller)
}

fn unpack_within(
    limits: &Limits,
    source: impl Read,
    expected: &blob::Expected,
    diff_id: &Digest,
    root: OwnedFd,
    caller: &Caller,
) -> Result<Unpacked, LayerError> {
    let mut blob = blob::Blob::new(source, expected);
    let unpacked = unpack_plain(limits, &mut blob, diff_id, root, caller);
    if caller.is_gone() {
        return Err(LayerError::GivenUp);
    }
    if unpacked.as_ref().is_err_and(LayerError::is_no_space) {
        return unpacked;
    }
    blob.finish().map_err(LayerError::Blob)?;
    unpacked
}

/// What was unpacked.
#[derive(Debug)]
pub struct Unpacked {
    /// Entries of the archive.
    pub entries: u64,
    /// Bytes of the archive.
    pub plain_bytes: u64,
    /// Directories that are there only because something lies in them; the empty path is the root.
    pub implied: BTreeSet<Vec<u8>>,
}

fn unpack_plain(
    limits: &Limits,
    blob: &mut impl Read,
    diff_id: &Digest,
    root: OwnedFd,
    caller: &Caller,
) -> Result<Unpacked, LayerError> {
    let stream = compression::decode(blob).map_err(LayerError::Compression)?;
    let mut plain = Plain {
        stream,
        hasher: diff_id.hasher(),
        bytes: 0,
        max_bytes: limits.plain_bytes,
        failure: None,
        caller,
    };
    let unpacked = unpack::unpack(&mut plain, root, limits.entries, caller).and_then(|contents| {
        // What follows the end of the archive belongs to the digest.
        io::copy(&mut plain, &mut io::sink()).map_err(ArchiveError::read)?;
        Ok(contents)
    });
    if let Some(failure) = plain.failure.take() {
        return Err(LayerError::Compression(failure));
    }
    let contents = unpacked?;
    let plain_bytes = plain.bytes;
    diff_id
        .check(plain.hasher.finish(), plain_bytes)
        .map_err(LayerError::DiffId)?;
    Ok(Unpacked {
        entries: contents.entries,
        plain_bytes,
        implied: contents.implied,
    })
}

/// The plain bytes on their way to the archive reader.
struct Plain<'a, R> {
    stream: R,
    hasher: Hasher,
    bytes: u64,
    max_bytes: u64,
    /// The first failure of the decoder, kept apart from failures of the archive.
    failure: Option<io::Error>,
    caller: &'a Caller,
}

impl<R: Read> Read for Plain<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A few bytes of a blob may become gigabytes here, so this is where the work is ended.
        if self.caller.is_gone() {
            return Err(caller::gone());
        }
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
        if self.bytes > self.max_bytes {
            let limit =
                io::Error::other(format!("more than {} bytes come out of it", self.max_bytes));
            self.failure.get_or_insert(limit);
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(read)
    }
}
