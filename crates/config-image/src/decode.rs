//! An image in, a document out.

use std::io::{self, Read};

use flate2::bufread::GzDecoder;
use zeroize::Zeroizing;

use crate::{HEADER_BYTES, Header, HeaderError, MAX_DOCUMENT_BYTES, Magic, RawHeader, ReadAt};

/// A decoded image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The header, checked.
    pub header: Header,
    /// The document, byte for byte as it was packed; zeroed when dropped.
    pub document: Zeroizing<Vec<u8>>,
}

/// Why a source is not an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The first sixteen bytes are not a header.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The bytes of the gzip stream cannot be read.
    #[error("read the gzip stream at offset {HEADER_BYTES}")]
    Read(#[source] io::Error),
    /// The bytes are not a gzip stream, or its checksum does not fit.
    #[error("inflate the gzip stream at offset {HEADER_BYTES}")]
    Gzip(#[source] io::Error),
    /// The document is longer than [`MAX_DOCUMENT_BYTES`].
    #[error(
        "inflate the gzip stream at offset {HEADER_BYTES}: it holds more than {MAX_DOCUMENT_BYTES} \
        bytes"
    )]
    DocumentOverLimit,
    /// The gzip stream ends before the header's length does: trailing bytes or a second gzip
    /// member.
    #[error(
        "inflate the gzip stream at offset {HEADER_BYTES}: it ends {unused} bytes before the \
        length in the header"
    )]
    TrailingBytes {
        /// How many bytes are left over.
        unused: usize,
    },
}

/// A document of up to this many bytes, as most are, is inflated once only.
const SHORT: usize = 4096;

/// Reads the image for `expected` from `source`.
///
/// Each byte is read once, into memory bounded by [`crate::MAX_GZIP_BYTES`], and only that copy is
/// used: a device that changes under the reader yields an error or one consistent document.
/// Inflating stops at [`MAX_DOCUMENT_BYTES`]. Whatever follows the gzip stream on the device is not
/// read.
///
/// # Errors
///
/// [`DecodeError`]; no input causes a panic.
pub fn decode(source: &(impl ReadAt + ?Sized), expected: Magic) -> Result<Image, DecodeError> {
    let size = source.size().map_err(HeaderError::Read)?;
    let header = RawHeader::read(source)?.parse(expected, size)?;
    let mut gzip = Zeroizing::new(vec![0; header.gzip_len()]);
    source.read_exact_at(&mut gzip, HEADER_BYTES as u64).map_err(DecodeError::Read)?;
    let document = inflate(&gzip)?;
    Ok(Image { header, document })
}

/// Inflates exactly one gzip member that fills `gzip` to its last byte.
///
/// What is longer than [`SHORT`] takes two passes: the first only counts, so that the buffer of the
/// second is allocated once. A buffer that grows would leave copies of secrets in freed memory.
/// (The decoder's own window, up to 32 KiB, is freed as it is.)
fn inflate(gzip: &[u8]) -> Result<Zeroizing<Vec<u8>>, DecodeError> {
    let mut decoder = GzDecoder::new(gzip);
    let mut document = Zeroizing::new(Vec::with_capacity(SHORT));
    let read = (&mut decoder).take(SHORT as u64).read_to_end(&mut document);
    let begun = read.map_err(DecodeError::Gzip)?;
    let rest = (MAX_DOCUMENT_BYTES + 1 - begun) as u64;
    // Most documents are short. Then this sees the end, and the copy, with its buffer of 8 KiB,
    // does not begin.
    let probed = decoder.read(&mut [0; 16]).map_err(DecodeError::Gzip)? as u64;
    let mut counted = probed;
    if probed > 0 {
        let mut rest = (&mut decoder).take(rest - probed);
        counted += io::copy(&mut rest, &mut io::sink()).map_err(DecodeError::Gzip)?;
    }
    let Some(length) = usize::try_from(counted)
        .ok()
        .map(|counted| begun + counted)
        .filter(|length| *length <= MAX_DOCUMENT_BYTES)
    else {
        return Err(DecodeError::DocumentOverLimit);
    };
    let unused = decoder.into_inner().len();
    if unused > 0 {
        return Err(DecodeError::TrailingBytes { unused });
    }
    if counted > 0 {
        document = Zeroizing::new(vec![0; length]);
        GzDecoder::new(gzip).read_exact(&mut document).map_err(DecodeError::Gzip)?;
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
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
        decode(&image(stream), Magic::IMAGEPULLER)
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
            assert!(matches!(decode_gzip(&stream), Err(DecodeError::Gzip(_))));
        }
        for more in [&good[..], &[0]] {
            assert!(matches!(
                decode_gzip(&[&good, more].concat()),
                Err(DecodeError::TrailingBytes { unused }) if unused == more.len()
            ));
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
        for stream in [gzip(&zeroes), bomb] {
            let error = decode_gzip(&stream).unwrap_err();
            assert!(matches!(error, DecodeError::DocumentOverLimit), "{error}");
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
        assert_eq!(decoded.header.image_len(), 512);
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
            bytes.read_exact_at(buffer, offset)
        }

        fn size(&self) -> io::Result<u64> {
            self.first.size()
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
