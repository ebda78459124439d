//! A document in, an image out.

use std::io::Write;

use flate2::{Compression, GzBuilder};
use zeroize::Zeroizing;

use crate::{HEADER_BYTES, MAX_DOCUMENT_BYTES, MAX_GZIP_BYTES, Magic, SECTOR_BYTES};

/// Why a document cannot be made into an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The document is longer than [`MAX_DOCUMENT_BYTES`].
    #[error("pack the document: it has {size} bytes, at most {MAX_DOCUMENT_BYTES} are accepted")]
    DocumentTooLong {
        /// The document's size in bytes.
        size: usize,
    },
    /// The document compresses to more than [`MAX_GZIP_BYTES`].
    #[error(
        "pack the document: it compresses to {size} bytes, at most {MAX_GZIP_BYTES} are accepted"
    )]
    GzipTooLong {
        /// The gzip stream's size in bytes.
        size: usize,
    },
    /// The compressor failed; a bug, since it writes to memory.
    #[error("pack the document: compress it")]
    Compress(#[from] std::io::Error),
}

/// Packs `document` into an image for `magic`.
///
/// The same input gives the same bytes: the gzip header has no name, no comment and no time. What [`crate::decode`]
/// would refuse for its size is refused here. The result is zeroed when dropped; the compressor's own window is not.
///
/// # Errors
///
/// [`EncodeError`].
pub fn encode(magic: Magic, document: &[u8]) -> Result<Zeroizing<Vec<u8>>, EncodeError> {
    if document.len() > MAX_DOCUMENT_BYTES {
        return Err(EncodeError::DocumentTooLong {
            size: document.len(),
        });
    }
    // Reserved once for the worst case (deflate stores what it cannot compress, 5 bytes for each 16 KiB at least), so
    // that the vector never grows and leaves a copy of a secret behind.
    let worst_case = document.len() + document.len() / 1024 + 64;
    let mut image = Zeroizing::new(Vec::with_capacity(HEADER_BYTES + worst_case + SECTOR_BYTES));
    image.extend(magic.bytes());
    image.extend([0; 8]);
    let mut gzip = GzBuilder::new().write(&mut *image, Compression::default());
    gzip.write_all(document)?;
    gzip.finish()?;

    let size = image.len() - HEADER_BYTES;
    if size > MAX_GZIP_BYTES {
        return Err(EncodeError::GzipTooLong { size });
    }
    image[8..HEADER_BYTES].copy_from_slice(&(size as u64).to_le_bytes());
    let padded = image.len().next_multiple_of(SECTOR_BYTES);
    image.resize(padded, 0);
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_document_gives_the_same_bytes() {
        let one = encode(Magic::IMAGEPULLER, b"document").unwrap();
        assert_eq!(one, encode(Magic::IMAGEPULLER, b"document").unwrap());
        assert_eq!(one[20..24], [0; 4], "no time in the gzip header");
    }

    #[test]
    fn too_large_documents_are_refused_by_both_limits() {
        let long = vec![b' '; MAX_DOCUMENT_BYTES + 1];
        assert!(matches!(
            encode(Magic::INITDATA, &long),
            Err(EncodeError::DocumentTooLong { size }) if size == MAX_DOCUMENT_BYTES + 1
        ));
        encode(Magic::INITDATA, &long[1..]).unwrap();
        // xorshift: nothing deflate could shorten.
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let noise: Vec<u8> = (0..MAX_GZIP_BYTES + 1)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        assert!(matches!(
            encode(Magic::INITDATA, &noise),
            Err(EncodeError::GzipTooLong { .. })
        ));
        let fits = encode(Magic::INITDATA, &noise[..MAX_GZIP_BYTES - 1024]).unwrap();
        assert!(fits.capacity() >= fits.len());
    }
}
