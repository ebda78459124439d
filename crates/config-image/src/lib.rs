//! The raw disk image that carries one document into a VM: encode, and bounded decode over
//! positioned reads.
//!
//! The host writes such an image for each sandbox; the guest reads it from a virtual disk that the
//! host controls, so everything in it is hostile input: it may fail to decode, never panic, hang or
//! take more memory than [`MAX_GZIP_BYTES`] plus [`MAX_DOCUMENT_BYTES`]. The layout is fixed by
//! what Kata's runtimes write for initdata; `docs/format.md` is the normative description, byte by
//! byte.
//!
//! Not here: opening files and devices, finding the disk, and what the document means.
//!
//! Entry points: [`encode`] on the host, [`decode`] in the guest.
//!
//! - [`Magic`]: the eight bytes that say what an image is for.
//! - [`ReadAt`]: positioned reads, from a file, a block device or memory.
//!
//! ```
//! use config_image::{Magic, decode, encode};
//!
//! let image = encode(Magic::IMAGEPULLER, b"[registries]\n")?;
//! assert_eq!(image.len() % 512, 0);
//! let decoded = decode(image.as_slice(), Magic::IMAGEPULLER)?;
//! assert_eq!(decoded.document.as_slice(), b"[registries]\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decode;
mod encode;
mod magic;
mod read_at;

pub use decode::{DecodeError, Image, decode};
pub use encode::{EncodeError, encode};
pub use magic::{Magic, NotAscii, probe};
pub use read_at::ReadAt;

/// Bytes before the gzip stream: magic and length (`docs/format.md`, "Layout").
pub const HEADER_BYTES: usize = 16;

/// An image's total length is a multiple of this, the smallest sector of a block device.
pub const SECTOR_BYTES: usize = 512;

/// The longest gzip stream that is read or written: 1 MiB.
///
/// A reader allocates this much at most before it has verified anything. Documents are kilobytes of
/// text; the limit is part of this project's behaviour, not of the format: Kata's own writers know
/// none.
pub const MAX_GZIP_BYTES: usize = 1 << 20;

/// The longest document, after inflating, that is read or written: 4 MiB.
///
/// Bounds a decompression bomb: deflate reaches about 1:1000, so a gzip stream within its own limit
/// could still ask for a gigabyte.
pub const MAX_DOCUMENT_BYTES: usize = 4 << 20;
