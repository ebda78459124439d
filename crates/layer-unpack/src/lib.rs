//! Turns one layer's blob into a verified directory. Blocks; starts threads of its own.
//!
//! The entry is [`unpack()`]. It hashes the bytes as they come, decrypts them where they are
//! encrypted, inflates them, hashes them again and unpacks the archive, in one pass and without a
//! temporary file. So files are written *before* their content is verified. They go to a staging
//! directory that nothing uses. At the end the digest of the blob and the digest of the plain bytes
//! must hold, and for an encrypted layer also its HMAC; otherwise the caller removes the directory.
//!
//! - `pipeline`: the threads, and the queues between them.
//! - [`blob`]: the received stream, its digest and its size.
//! - [`chunks`], `pool`: pieces of a stream that are shared instead of copied, and buffers that are
//!   used again.
//! - `decryption`: ciphertext decrypted on its way to the decoder.
//! - [`compression`]: gzip (by the room `inflate`), zstd or neither.
//! - [`archive`]: the entries of a tar archive, each an `entry`, with [`pax`] records, [`sparse`]
//!   files and `number`s.
//! - [`caller`]: how a thread learns that nobody waits for its result.
//! - [`tree`]: paths resolved below the layer's root and never above it, on a `way` that may lead
//!   through symbolic links.
//! - [`directory`]: open directories; [`removal`]: trees removed, however deep.
//! - [`mod@unpack`]: entries made into files, and whiteouts in overlayfs's form; `creation`:
//!   regular files; `filling`: their content and the rest, perhaps in another thread;
//!   [`attributes`]: extended attributes and ACLs.
//! - `confinement`: the rights that each thread gives up first.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use keys::{Forged, LayerKey};
use oci_image::digest::{Digest, Mismatch};

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
mod endings;
mod entry;
mod filling;
mod number;
pub mod pax;
mod pipeline;
mod pool;
pub mod removal;
pub mod sparse;
pub mod tree;
pub mod unpack;
mod unpack_error;
mod way;

#[cfg(test)]
mod tests;

pub use archive_error::ArchiveError;
pub use caller::CallerWatch;
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
    /// The caller no longer waits for the layer.
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

/// How large a layer may become, and from which size of its blob on it is worth a thread more.
#[derive(Clone, Copy, Debug)]
struct Limits {
    plain_bytes: u64,
    entries: u64,
    /// Below, starting a thread that fills files costs more than it gains.
    filled_apart_bytes: u64,
}

const LIMITS: Limits = Limits {
    plain_bytes: MAX_PLAIN_BYTES,
    entries: archive::MAX_ENTRIES,
    filled_apart_bytes: 256 << 10,
};

/// Unpacks a blob below `root` and checks both digests; with a key, the blob is ciphertext, and its
/// HMAC is checked too.
///
/// # Errors
///
/// A blob with another digest is reported as that, whatever its bytes broke on the way and even if
/// they filled the store. So after any error the rest of the blob is still received, up to its
/// size. Next comes what is wrong with the encryption, because forged bytes may break anything. If
/// the caller is gone, nothing of that is waited for. After an error the directory may hold
/// anything and must be removed.
pub fn unpack(
    source: impl Iterator<Item = Bytes>,
    expected: &blob::Expected,
    key: Option<&LayerKey>,
    diff_id: &Digest,
    root: OwnedFd,
    caller: &CallerWatch,
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
