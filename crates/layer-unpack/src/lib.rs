//! One layer: from the stream of a blob to a verified directory. Blocks; runs on threads of its
//! own.
//!
//! The bytes are hashed as they come, decrypted where they have to be, inflated, hashed again and
//! unpacked in one pass without a temporary file. So files are written *before* it is known whether
//! they are right: into a staging directory that nothing uses, and that is removed unless
//! everything holds in the end, which is the digests of the blob and of the plain bytes, and of an
//! encrypted layer its HMAC and the digest of what was encrypted.
//!
//! - `pipeline`: the threads, and what goes from one to the next.
//! - [`blob`]: the stream, its digest and size.
//! - [`chunks`], `pool`: pieces of a stream, shared instead of copied, in buffers that are used
//!   again.
//! - `decryption`: ciphertext made plain, on its way to the decoder.
//! - [`compression`]: gzip, zstd or neither.
//! - [`archive`]: the entries of a tar archive, with [`pax`] records.
//! - [`caller`]: who waits for it, and its end when nobody does.
//! - [`tree`]: directories resolved below the layer's root and never above it.
//! - [`directory`]: open directories; [`removal`]: trees removed, however deep.
//! - [`mod@unpack`]: entries made into files, with whiteouts in overlayfs's form; `creation`:
//!   regular files.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use oci_image::digest::{Digest, Mismatch};
use ocicrypt::{Forged, LayerKey};

pub mod archive;
mod archive_error;
pub mod attributes;
pub mod blob;
pub mod caller;
pub mod chunks;
pub mod compression;
mod confinement;
mod creation;
mod decryption;
pub mod directory;
mod number;
pub mod pax;
mod pipeline;
mod pool;
pub mod removal;
pub mod sparse;
pub mod tree;
pub mod unpack;
mod unpack_error;

#[cfg(test)]
mod tests;

pub use archive_error::ArchiveError;
pub use caller::Caller;
pub use unpack_error::UnpackError;

/// The most plain bytes of one layer. Larger ones exist nowhere; a bomb ends here or when the store
/// is full.
pub const MAX_PLAIN_BYTES: u64 = 128 << 30;

/// What is wrong with a layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The received bytes are not the blob.
    #[error("the received bytes are not the blob that the manifest names")]
    Blob(#[source] Mismatch),
    /// The blob is right, but it is not what was encrypted with the layer's key.
    #[error("the encrypted layer is not to be trusted")]
    Decryption(#[source] Forged),
    /// The blob is right, but it is not the layer that the configuration names.
    #[error("the unpacked bytes are not the layer that the image configuration names")]
    DiffId(#[source] Mismatch),
    /// The compressed stream is broken.
    #[error("the compressed stream is broken")]
    Compression(#[source] io::Error),
    /// Nobody waits for it any more.
    #[error("the pull was given up")]
    GivenUp,
    /// This machine has no thread for it.
    #[error("no thread can be started to unpack the layer")]
    Thread(#[source] io::Error),
    /// The archive breaks a rule.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
}

impl LayerError {
    /// Whether the store ran out of room for the blob that was asked for.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::Unpack(error) if error.is_no_space())
    }

    /// Whether the reason is this machine, so that the blob of another source would end in the same
    /// way.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Thread(_) | Self::Decryption(Forged::Library) => true,
            Self::Unpack(error) => error.is_local(),
            _ => false,
        }
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

/// Unpacks a blob below `root` and checks both digests; with a key, the blob is ciphertext, and its
/// HMAC and the digest of what was encrypted are checked too.
///
/// # Errors
///
/// A blob that is not the one asked for is reported as that, whatever its bytes broke on the way,
/// and if they filled the store; so the rest of it is taken after any error, up to its size. Next
/// comes what is wrong with an encrypted layer, for bytes that nobody encrypted break anything.
/// Only when the caller is gone none of that is waited for. After an error the directory holds
/// anything and must be removed.
pub fn unpack(
    source: impl Iterator<Item = Bytes>,
    expected: &blob::Expected,
    key: Option<&LayerKey>,
    diff_id: &Digest,
    root: OwnedFd,
    caller: &Caller,
) -> Result<Unpacked, LayerError> {
    pipeline::run(&LIMITS, source, expected, key, diff_id, root, caller)
}

/// What was unpacked.
#[derive(Debug)]
pub struct Unpacked {
    /// Entries of the archive.
    pub entries: u64,
    /// Bytes of the archive.
    pub plain_bytes: u64,
    /// Whether whiteouts or opaque directories hide something of the layers below.
    pub hides: bool,
    /// Directories that are there only because something lies in them; the empty path is the root.
    pub implied: BTreeSet<Vec<u8>>,
}
