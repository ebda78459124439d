//! A document in, an image out.

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use zeroize::Zeroizing;

use crate::{HEADER_BYTES, MAX_DOCUMENT_BYTES, MAX_GZIP_BYTES, Magic, SECTOR_BYTES};

/// Why a document cannot be made into an image: it is over one of the two limits.
#[derive(Debug, thiserror::Error)]
#[error("pack the document: {0}")]
pub struct EncodeError(String);

/// The most that one stored block of a deflate stream holds (RFC 1951, 3.2.4).
const MAX_BLOCK_BYTES: usize = 0xffff;

/// The longest document that is stored as it is: header and trailer of the gzip stream are 18 bytes
/// (RFC 1952, 2.3), and 5 stand before each block.
const MAX_STORED_BYTES: usize = MAX_GZIP_BYTES - 18 - 5 * MAX_GZIP_BYTES.div_ceil(MAX_BLOCK_BYTES);

/// Packs `document` into an image for `magic`.
///
/// The same input gives the same bytes: the gzip header has no name, no comment and no time. What
/// [`crate::decode`] would refuse for its size is refused here.
///
/// The gzip stream stores the document as it is, unless only compression brings it below
/// [`MAX_GZIP_BYTES`]. Tokens and certificates hardly compress, the image stays in memory, and
/// compression would take longer than everything else that happens at a sandbox's creation.
///
/// The result is zeroed when dropped. The compressor's own window, where there is one, is not.
///
/// # Errors
///
/// [`EncodeError`].
pub fn encode(magic: Magic, document: &[u8]) -> Result<Zeroizing<Vec<u8>>, EncodeError> {
    let within = |limit: usize, size: usize, verb: &str| match size <= limit {
        true => Ok(()),
        false => Err(EncodeError(format!("it {verb} {size} bytes, at most {limit} are accepted"))),
    };
    within(MAX_DOCUMENT_BYTES, document.len(), "has")?;
    // Reserved once for the worst case (deflate stores what it cannot compress, 5 bytes for each 16
    // KiB at least), so that the vector never grows and leaves a copy of a secret behind.
    let worst_case = document.len() + document.len() / 1024 + 64;
    let mut image = Zeroizing::new(Vec::with_capacity(HEADER_BYTES + worst_case + SECTOR_BYTES));
    image.extend(magic.bytes());
    image.extend([0; 8]);

    let mut crc = Crc::new();
    crc.update(document);
    // No flags, unknown compressor and operating system (RFC 1952, 2.3). The time's four bytes have
    // the document's CRC-32 instead, so that another document gives another first sector, and two
    // disks are told apart by it.
    image.extend([0x1f, 0x8b, 8, 0]);
    image.extend(crc.sum().to_le_bytes());
    image.extend([0, 0xff]);
    if document.len() <= MAX_STORED_BYTES {
        store(document, &mut image);
    } else {
        let mut deflate = Compress::new(Compression::default(), false);
        // Neither happens: the vector is large enough.
        match deflate.compress_vec(document, &mut image, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => {}
            _ => return Err(EncodeError("compress it".to_owned())),
        }
    }
    image.extend(crc.sum().to_le_bytes());
    image.extend(crc.amount().to_le_bytes());

    let size = image.len() - HEADER_BYTES;
    within(MAX_GZIP_BYTES, size, "compresses to")?;
    image[8..HEADER_BYTES].copy_from_slice(&(size as u64).to_le_bytes());
    let padded = image.len().next_multiple_of(SECTOR_BYTES);
    image.resize(padded, 0);
    Ok(image)
}

/// Appends `document` as stored blocks, the last of them marked as the stream's last (RFC 1951,
/// 3.2.4).
fn store(mut document: &[u8], image: &mut Vec<u8>) {
    loop {
        let (block, rest) = document.split_at(document.len().min(MAX_BLOCK_BYTES));
        let length = block.len() as u16;
        image.push(u8::from(rest.is_empty()));
        image.extend(length.to_le_bytes());
        image.extend((!length).to_le_bytes());
        image.extend_from_slice(block);
        if rest.is_empty() {
            return;
        }
        document = rest;
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
        let refused = |document: &[u8]| encode(Magic::INITDATA, document).unwrap_err().to_string();
        let expected = "pack the document: it has 4194305 bytes, at most 4194304 are accepted";
        assert_eq!(refused(&long), expected);
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
        let message = refused(&noise);
        assert!(message.starts_with("pack the document: it compresses to 10"), "{message}");
        assert!(message.ends_with(" bytes, at most 1048576 are accepted"), "{message}");
        let fits = encode(Magic::INITDATA, &noise[..MAX_GZIP_BYTES - 1024]).unwrap();
        assert!(fits.capacity() >= fits.len());
    }

    /// The sizes where another block begins, and where compression does.
    #[test]
    fn stored_and_compressed_streams_decode() {
        let line = "auth = \"c2VjcmV0OnRva2Vu\" # an entry like any other\n";
        let text = line.repeat(MAX_DOCUMENT_BYTES / line.len() + 1).into_bytes();
        for size in [
            0,
            1,
            MAX_BLOCK_BYTES - 1,
            MAX_BLOCK_BYTES,
            MAX_BLOCK_BYTES + 1,
            2 * MAX_BLOCK_BYTES,
            MAX_STORED_BYTES,
            MAX_STORED_BYTES + 1,
            MAX_GZIP_BYTES,
            MAX_DOCUMENT_BYTES,
        ] {
            let document = &text[..size];
            let image = encode(Magic::IMAGEPULLER, document).unwrap();
            let decoded = crate::decode(image.as_slice(), Magic::IMAGEPULLER).unwrap();
            assert_eq!(decoded.document.as_slice(), document, "{size}");
            // Behind the headers of image, stream and block.
            let is_stored = image[31..].starts_with(&document[..size.min(MAX_BLOCK_BYTES)]);
            assert_eq!(is_stored, size <= MAX_STORED_BYTES, "{size}");
            assert!(decoded.gzip_len <= MAX_GZIP_BYTES);
        }
    }
}
