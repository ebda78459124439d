//! An image in, a document out.

use std::fmt;
use std::io::{self, Read};

use flate2::bufread::GzDecoder;
use zeroize::Zeroizing;

use crate::{HEADER_BYTES, MAX_DOCUMENT_BYTES, MAX_GZIP_BYTES, Magic, ReadAt, SECTOR_BYTES};

/// The shortest gzip stream there is: header (10), an empty deflate block (2), CRC-32 and length
/// (8).
const MIN_GZIP_BYTES: u64 = 20;

/// A decoded image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Length of the gzip stream in bytes, at most [`MAX_GZIP_BYTES`].
    pub gzip_len: usize,
    /// The document, byte for byte as it was packed; zeroed when dropped.
    pub document: Zeroizing<Vec<u8>>,
}

impl Image {
    /// Length of the whole image in bytes: header, gzip stream, and padding to a multiple of
    /// [`SECTOR_BYTES`].
    #[must_use]
    pub const fn image_len(&self) -> usize {
        (HEADER_BYTES + self.gzip_len).next_multiple_of(SECTOR_BYTES)
    }
}

/// Why a source is not an image: the broken rule, or the error of a read or of the decompressor as
/// the source.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String, #[source] Option<io::Error>);

// The three steps of [`decode`], in the words of its errors.
const HEADER: &str = "read an image header";
const STREAM: &str = "read the gzip stream at offset 16";
const INFLATE: &str = "inflate the gzip stream at offset 16";

impl DecodeError {
    fn broken(step: &str, rule: impl fmt::Display) -> Self {
        Self(format!("{step}: {rule}"), None)
    }

    fn failed(step: &str) -> impl Fn(io::Error) -> Self {
        move |error| Self(step.to_owned(), Some(error))
    }
}

/// Reads the image for `expected` from `source`.
///
/// Each byte is read once, into memory bounded by [`MAX_GZIP_BYTES`], and only that copy is used: a
/// device that changes under the reader yields an error or one consistent document. Inflating stops
/// at [`MAX_DOCUMENT_BYTES`]. Whatever follows the gzip stream on the device is not read.
///
/// # Errors
///
/// [`DecodeError`]; no input causes a panic.
pub fn decode(source: &(impl ReadAt + ?Sized), expected: Magic) -> Result<Image, DecodeError> {
    let gzip_len = read_header(source, expected)?;
    let mut gzip = Zeroizing::new(vec![0; gzip_len]);
    let read = source.read_exact_at(&mut gzip, HEADER_BYTES as u64);
    read.map_err(DecodeError::failed(STREAM))?;
    Ok(Image { gzip_len, document: inflate(&gzip)? })
}

/// Reads the first sixteen bytes: the length of the gzip stream, once it fits both the source and
/// the limit, so that it is safe to allocate by.
///
/// Spec: `docs/format.md`, "Layout".
fn read_header(source: &(impl ReadAt + ?Sized), expected: Magic) -> Result<usize, DecodeError> {
    const { assert!(size_of::<[[u8; 8]; 2]>() == HEADER_BYTES) };
    let size = source.size().map_err(DecodeError::failed(HEADER))?;
    let Some(room) = size.checked_sub(HEADER_BYTES as u64) else {
        let rule = format!("the disk has {size} bytes, a header alone has {HEADER_BYTES}");
        return Err(DecodeError::broken(HEADER, rule));
    };
    let mut bytes = [[0; 8]; 2];
    source.read_exact_at(bytes.as_flattened_mut(), 0).map_err(DecodeError::failed(HEADER))?;
    let [magic, length] = bytes;
    if magic != expected.bytes() {
        let found = magic.escape_ascii();
        let rule = format!("expected the magic \"{expected}\" at offset 0, found \"{found}\"");
        return Err(DecodeError::broken(HEADER, rule));
    }
    let length = u64::from_le_bytes(length);
    let rule = if length < MIN_GZIP_BYTES {
        format!("the shortest gzip stream has {MIN_GZIP_BYTES} bytes")
    } else if length > MAX_GZIP_BYTES as u64 {
        format!("at most {MAX_GZIP_BYTES} bytes are accepted")
    } else if length > room {
        format!("but the disk ends after {size} bytes")
    } else {
        return Ok(length as usize);
    };
    Err(DecodeError::broken(HEADER, format_args!("the length at offset 8 is {length}, {rule}")))
}

/// Inflates exactly one gzip member that fills `gzip` to its last byte.
///
/// The member's last four bytes say how long the document is, and the buffer is allocated by them,
/// within the limit: one that grows would leave copies of secrets in freed memory. (The decoder's
/// own window, up to 32 KiB, is freed as it is.) Where they lie, the decoder refuses the stream.
fn inflate(gzip: &[u8]) -> Result<Zeroizing<Vec<u8>>, DecodeError> {
    let failed = DecodeError::failed(INFLATE);
    let announced = gzip.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
    let announced = announced.min(MAX_DOCUMENT_BYTES);
    let mut document = Zeroizing::new(Vec::with_capacity(announced));
    let mut decoder = GzDecoder::new(gzip);
    (&mut decoder).take(announced as u64).read_to_end(&mut document).map_err(&failed)?;
    // Nothing, but for other streams. Only now the decoder sees the end.
    let mut length = document.len();
    loop {
        match decoder.read(&mut [0; 512]).map_err(&failed)? {
            0 => break,
            more => length += more,
        }
        if length > MAX_DOCUMENT_BYTES {
            let rule = format!("it holds more than {MAX_DOCUMENT_BYTES} bytes");
            return Err(DecodeError::broken(INFLATE, rule));
        }
    }
    match decoder.into_inner().len() {
        0 => Ok(document),
        unused => {
            let rule = format!("it ends {unused} bytes before the length in the header");
            Err(DecodeError::broken(INFLATE, rule))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::error::Error as _;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::encode;

    fn gzip(document: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(document).unwrap();
        encoder.finish().unwrap()
    }

    fn image(gzip: &[u8]) -> Vec<u8> {
        let mut image = b"imgpullr".to_vec();
        image.extend((gzip.len() as u64).to_le_bytes());
        image.extend(gzip);
        image.resize(image.len().next_multiple_of(512), 0);
        image
    }

    fn decode_gzip(stream: &[u8]) -> Result<Image, DecodeError> {
        decode(image(stream).as_slice(), Magic::IMAGEPULLER)
    }

    fn read(gzip_len: u64, size: u64) -> Result<usize, DecodeError> {
        /// Only a header, of a disk that says that it is longer.
        struct Sized([u8; HEADER_BYTES], u64);
        impl ReadAt for Sized {
            fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
                self.0.read_exact_at(buffer, offset)
            }

            fn size(&self) -> io::Result<u64> {
                Ok(self.1)
            }
        }
        let mut bytes = *b"imgpullr\0\0\0\0\0\0\0\0";
        bytes[8..].copy_from_slice(&gzip_len.to_le_bytes());
        read_header(&Sized(bytes, size), Magic::IMAGEPULLER)
    }

    #[test]
    fn lengths_at_and_around_every_limit() {
        let limit = MAX_GZIP_BYTES as u64;
        for (gzip_len, size, image_len) in [
            (20, 36, 512),
            (496, 512, 512),
            (497, 513, 1024),
            (limit, limit + 16, MAX_GZIP_BYTES + 512),
        ] {
            let gzip_len = read(gzip_len, size).unwrap();
            assert_eq!(Image { gzip_len, document: Vec::new().into() }.image_len(), image_len);
        }
        for (gzip_len, size, rule) in [
            (0, 512, "the shortest gzip stream"),
            (19, 512, "the shortest gzip stream"),
            (20, 35, "the disk ends after 35 bytes"),
            (497, 512, "the disk ends after 512 bytes"),
            (limit, limit + 15, "the disk ends after 1048591"),
            (limit + 1, u64::MAX, "at most 1048576 bytes"),
            (1 << 32, u64::MAX, "at most 1048576 bytes"),
            ((1 << 32) + 20, u64::MAX, "at most 1048576 bytes"),
            (1 << 62, u64::MAX, "at most 1048576 bytes"),
            (u64::MAX, u64::MAX, "at most 1048576 bytes"),
        ] {
            let error = read(gzip_len, size).unwrap_err().to_string();
            assert!(error.contains(rule), "{gzip_len}, {size}: {error}");
            assert!(error.contains(&format!("is {gzip_len},")), "{error}");
        }
    }

    #[test]
    fn another_magic_is_told_without_raw_bytes() {
        let disk = b"\x1b[2Jevil\x14\0\0\0\0\0\0\0".as_slice();
        let expected = "read an image header: expected the magic \"initdata\" at offset 0, \
            found \"\\x1b[2Jevil\"";
        assert_eq!(decode(disk, Magic::INITDATA).unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_short_source_is_no_header() {
        for size in 0..HEADER_BYTES {
            let error = decode(&*vec![b'i'; size], Magic::INITDATA).unwrap_err().to_string();
            let rule = format!("the disk has {size} bytes, a header alone has 16");
            assert_eq!(error, format!("read an image header: {rule}"));
        }
    }

    #[test]
    fn malformed_streams_are_told_apart() {
        let good = gzip(b"document");
        assert_eq!(decode_gzip(&good).unwrap().document.as_slice(), b"document");

        let with_last = |offset: usize| {
            let mut changed = good.clone();
            changed[good.len() - offset] ^= 1;
            changed
        };
        let cut = good[..good.len() - 1].to_vec();
        // The checksum, the length, the end, and no gzip at all.
        for stream in [with_last(8), with_last(1), cut, vec![0; 64]] {
            let error = decode_gzip(&stream).unwrap_err();
            assert_eq!(error.to_string(), "inflate the gzip stream at offset 16");
            assert!(error.source().is_some());
        }
        for more in [&good[..], &[0], &[0xff; 9]] {
            let error = decode_gzip(&[&good, more].concat()).unwrap_err().to_string();
            let expected = format!("it ends {} bytes before the length in the header", more.len());
            assert_eq!(error, format!("inflate the gzip stream at offset 16: {expected}"));
        }
    }

    #[test]
    fn inflating_stops_at_the_limit() {
        let zeroes = vec![0; MAX_DOCUMENT_BYTES + 1];
        let at_limit = decode_gzip(&gzip(&zeroes[1..])).unwrap();
        assert_eq!(at_limit.document.len(), MAX_DOCUMENT_BYTES);
        // A bomb of 1:1000, as large as the header allows: must end at the limit, not at a
        // gigabyte.
        let bomb = gzip(&vec![0; 900 << 20]);
        assert!(bomb.len() <= crate::MAX_GZIP_BYTES, "{}", bomb.len());
        // Another one says that it is short.
        let mut liar = bomb.clone();
        let end = liar.len();
        liar[end - 4..].fill(0);
        for stream in [gzip(&zeroes), bomb, liar] {
            let error = decode_gzip(&stream).unwrap_err().to_string();
            let expected = "inflate the gzip stream at offset 16: it holds more than 4194304 bytes";
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn gzip_names_and_comments_are_legal() {
        // Kata's Rust runtime writes both.
        let mut encoder = flate2::GzBuilder::new()
            .filename("initdata.toml")
            .comment("a comment")
            .write(Vec::new(), Compression::best());
        encoder.write_all(b"document").unwrap();
        let decoded = decode_gzip(&encoder.finish().unwrap()).unwrap();
        assert_eq!(decoded.document.as_slice(), b"document");
    }

    #[test]
    fn bytes_behind_the_stream_do_not_matter() {
        let mut bytes = encode(Magic::IMAGEPULLER, b"document").unwrap();
        bytes.last_mut().iter_mut().for_each(|byte| **byte = 0xff);
        bytes.extend([0xaa; 4096]);
        let decoded = decode(bytes.as_slice(), Magic::IMAGEPULLER).unwrap();
        assert_eq!(decoded.document.as_slice(), b"document");
        assert_eq!(decoded.image_len(), 512);
    }

    /// A disk that answers each read differently.
    struct Liar {
        first: Vec<u8>,
        then: Vec<u8>,
        reads: Cell<u32>,
    }

    impl ReadAt for Liar {
        fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            let reads = self.reads.replace(self.reads.get() + 1);
            let bytes = if reads == 0 { &self.first } else { &self.then };
            bytes.as_slice().read_exact_at(buffer, offset)
        }

        fn size(&self) -> io::Result<u64> {
            self.first.as_slice().size()
        }
    }

    #[test]
    fn a_disk_that_changes_between_reads_gives_an_error_or_one_document() {
        let small = image(&gzip(b"document"));
        let large = image(&gzip(&(0..=255).cycle().take(400).collect::<Vec<u8>>()));
        for (first, then) in [(&small, &large), (&large, &small)] {
            let liar = Liar { first: first.clone(), then: then.clone(), reads: Cell::new(0) };
            assert!(decode(&liar, Magic::IMAGEPULLER).is_err());
            assert_eq!(liar.reads.get(), 2, "every byte is read once");
        }
    }
}
