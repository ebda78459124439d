//! A document in, an image out.

use std::io;

use flate2::{Compress, Compression, Crc, FlushCompress};
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
    /// The compressor failed; a bug, since it writes to memory that is large enough.
    #[error("pack the document: compress it")]
    Compress(#[from] std::io::Error),
}

/// The gzip header that is written: no flags, unknown compressor and operating system (RFC 1952,
/// 2.3).
///
/// The time's four bytes have the document's CRC-32 instead, so that another document gives another
/// first sector: a guest that watches the disk reads no more than that.
const fn gzip_header(crc: u32) -> [u8; GZIP_HEADER_BYTES] {
    let [a, b, c, d] = crc.to_le_bytes();
    [0x1f, 0x8b, 8, 0, a, b, c, d, 0, 0xff]
}

const GZIP_HEADER_BYTES: usize = 10;

/// The CRC-32 and the length behind the deflate stream (RFC 1952, 2.3).
const GZIP_TRAILER_BYTES: usize = 8;

/// The most that one stored block of a deflate stream holds, and what stands before it (RFC
/// 1951, 3.2.4).
const MAX_STORED_BYTES: usize = 0xffff;
const STORED_HEADER_BYTES: usize = 5;

/// How much is compressed before it is asked again whether the rest fits as it is. Free to change.
const COMPRESSED_STEP_BYTES: usize = 32 << 10;

/// Packs `document` into an image for `magic`.
///
/// The same input gives the same bytes: the gzip header has no name, no comment and no time. What
/// [`crate::decode`] would refuse for its size is refused here.
///
/// The gzip stream stores the document as it is, and compresses no more of it than
/// [`MAX_GZIP_BYTES`] demands: nothing of a document well below that limit, its beginning at the
/// limit. Tokens and certificates hardly compress, the image stays in memory, and compression would
/// take longer than everything else that happens at a sandbox's creation.
///
/// The result is zeroed when dropped. The compressor's own window, where there is one, is not.
///
/// # Errors
///
/// [`EncodeError`].
pub fn encode(magic: Magic, document: &[u8]) -> Result<Zeroizing<Vec<u8>>, EncodeError> {
    if document.len() > MAX_DOCUMENT_BYTES {
        return Err(EncodeError::DocumentTooLong { size: document.len() });
    }
    // Reserved once for the worst case (deflate stores what it cannot compress, 5 bytes for each 16
    // KiB at least), so that the vector never grows and leaves a copy of a secret behind.
    let worst_case = document.len() + document.len() / 1024 + 64;
    let mut image = Zeroizing::new(Vec::with_capacity(HEADER_BYTES + worst_case + SECTOR_BYTES));
    image.extend(magic.bytes());
    image.extend([0; 8]);
    write_gzip(document, &mut image)?;

    let size = image.len() - HEADER_BYTES;
    if size > MAX_GZIP_BYTES {
        return Err(EncodeError::GzipTooLong { size });
    }
    image[8..HEADER_BYTES].copy_from_slice(&(size as u64).to_le_bytes());
    let padded = image.len().next_multiple_of(SECTOR_BYTES);
    image.resize(padded, 0);
    Ok(image)
}

/// Appends `document` as one gzip member to `image`, which holds the image's header and room for
/// everything.
fn write_gzip(document: &[u8], image: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut crc = Crc::new();
    crc.update(document);
    image.extend(gzip_header(crc.sum()));
    let mut rest = document;
    if !fits_stored(rest, image) {
        let mut deflate = Compress::new(Compression::default(), false);
        while !rest.is_empty() && !fits_stored(rest, image) {
            let (step, behind) = rest.split_at(rest.len().min(COMPRESSED_STEP_BYTES));
            compress(&mut deflate, step, image)?;
            rest = behind;
        }
    }
    write_stored(rest, image);
    image.extend(crc.sum().to_le_bytes());
    image.extend(crc.amount().to_le_bytes());
    Ok(())
}

/// Whether the gzip stream that `image` has so far may end with `rest` in stored blocks.
fn fits_stored(rest: &[u8], image: &[u8]) -> bool {
    let blocks = rest.len().div_ceil(MAX_STORED_BYTES).max(1);
    image.len() - HEADER_BYTES + rest.len() + blocks * STORED_HEADER_BYTES + GZIP_TRAILER_BYTES
        <= MAX_GZIP_BYTES
}

/// Appends `step` as compressed blocks that end at a byte's border, as stored blocks may follow.
fn compress(deflate: &mut Compress, step: &[u8], image: &mut Vec<u8>) -> Result<(), EncodeError> {
    let before = deflate.total_in();
    deflate.compress_vec(step, image, FlushCompress::Sync).map_err(io::Error::from)?;
    // A full vector would mean that the flush is not complete.
    if deflate.total_in() - before == step.len() as u64 && image.len() < image.capacity() {
        Ok(())
    } else {
        Err(io::Error::other("the compressor needs more than its worst case").into())
    }
}

/// Appends `rest` as stored blocks, the last of them marked as the stream's last (RFC 1951, 3.2.4).
fn write_stored(mut rest: &[u8], image: &mut Vec<u8>) {
    loop {
        let (block, behind) = rest.split_at(rest.len().min(MAX_STORED_BYTES));
        let length = block.len() as u16;
        image.push(u8::from(behind.is_empty()));
        image.extend(length.to_le_bytes());
        image.extend((!length).to_le_bytes());
        image.extend_from_slice(block);
        if behind.is_empty() {
            return;
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_document_gives_the_same_bytes() {
        let one = encode(Magic::IMAGEPULLER, b"document").unwrap();
        assert_eq!(one, encode(Magic::IMAGEPULLER, b"document").unwrap());
    }

    /// A guest once learnt of a new document only by reading all of it.
    #[test]
    fn another_document_of_the_same_length_changes_the_first_sector() {
        let mut documents = [b"x".repeat(4000), b"x".repeat(4000)];
        documents[1][3999] = b'y';
        let [one, other] = documents.map(|text| encode(Magic::IMAGEPULLER, &text).unwrap());
        assert_ne!(one[..SECTOR_BYTES], other[..SECTOR_BYTES]);
        assert_eq!(one[..20], other[..20]);
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
        assert!(matches!(encode(Magic::INITDATA, &noise), Err(EncodeError::GzipTooLong { .. })));
        let fits = encode(Magic::INITDATA, &noise[..MAX_GZIP_BYTES - 1024]).unwrap();
        assert!(fits.capacity() >= fits.len());
    }

    /// The sizes where another block begins, where compression begins, and where it reaches the
    /// end.
    #[test]
    fn every_mixture_of_stored_and_compressed_blocks_decodes() {
        let line = "auth = \"c2VjcmV0OnRva2Vu\" # an entry like any other\n";
        let text = line.repeat(MAX_DOCUMENT_BYTES / line.len() + 1).into_bytes();
        let stored =
            MAX_GZIP_BYTES - GZIP_HEADER_BYTES - GZIP_TRAILER_BYTES - 16 * STORED_HEADER_BYTES;
        for size in [
            0,
            1,
            MAX_STORED_BYTES - 1,
            MAX_STORED_BYTES,
            MAX_STORED_BYTES + 1,
            2 * MAX_STORED_BYTES,
            stored,
            stored + 1,
            MAX_GZIP_BYTES,
            MAX_GZIP_BYTES + COMPRESSED_STEP_BYTES,
            MAX_DOCUMENT_BYTES,
        ] {
            let document = &text[..size];
            let image = encode(Magic::IMAGEPULLER, document).unwrap();
            let decoded = crate::decode(image.as_slice(), Magic::IMAGEPULLER).unwrap();
            assert_eq!(decoded.document.as_slice(), document, "{size}");
            let start = HEADER_BYTES + GZIP_HEADER_BYTES + STORED_HEADER_BYTES;
            assert_eq!(
                image[start..].starts_with(&document[..size.min(MAX_STORED_BYTES)]),
                size <= stored,
                "{size}: the beginning is compressed where the document is too long to be stored"
            );
        }
    }
}
