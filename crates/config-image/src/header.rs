//! The first sixteen bytes of an image.

use std::io;

use crate::{HEADER_BYTES, MAX_GZIP_BYTES, Magic, ReadAt, SECTOR_BYTES};

/// The shortest gzip stream there is: header (10), an empty deflate block (2), CRC-32 and length
/// (8).
const MIN_GZIP_BYTES: u64 = 20;

/// A header as it was read: sixteen bytes that nobody has believed yet.
///
/// Spec: `docs/format.md`, "Layout".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawHeader {
    magic: [u8; 8],
    gzip_len: [u8; 8],
}

// The format's table in `docs/format.md` and this struct are the same sixteen bytes.
const _: () = {
    assert!(size_of::<RawHeader>() == HEADER_BYTES);
    assert!(std::mem::offset_of!(RawHeader, magic) == 0);
    assert!(std::mem::offset_of!(RawHeader, gzip_len) == 8);
};

/// A header whose magic is the expected one and whose numbers fit both the device and this
/// project's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    magic: Magic,
    gzip_len: u32,
}

/// Why sixteen bytes are not the header of an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The source is shorter than a header.
    #[error("read an image header: the disk has {size} bytes, a header alone has {HEADER_BYTES}")]
    TooShort {
        /// The source's size in bytes.
        size: u64,
    },
    /// The first eight bytes are not the expected magic.
    #[error("read an image header: expected the magic \"{expected}\" at offset 0, \
    found \"{}\"", found.escape_ascii())]
    OtherMagic {
        /// What the caller asked for.
        expected: Magic,
        /// What stands there.
        found: [u8; 8],
    },
    /// The length is less than any gzip stream has.
    #[error(
        "read an image header: the length at offset 8 is {gzip_len}, the shortest gzip stream has \
        {MIN_GZIP_BYTES} bytes"
    )]
    LengthTooSmall {
        /// The length field.
        gzip_len: u64,
    },
    /// The length is over [`MAX_GZIP_BYTES`].
    #[error(
        "read an image header: the length at offset 8 is {gzip_len}, at most {MAX_GZIP_BYTES} \
        bytes are accepted"
    )]
    LengthOverLimit {
        /// The length field.
        gzip_len: u64,
    },
    /// The stream would end behind the end of the source.
    #[error(
        "read an image header: the length at offset 8 is {gzip_len}, but the disk ends after \
        {size} bytes"
    )]
    LengthOverEnd {
        /// The length field.
        gzip_len: u64,
        /// The source's size in bytes.
        size: u64,
    },
    /// The source cannot be read.
    #[error("read an image header")]
    Read(#[from] io::Error),
}

impl RawHeader {
    /// Reads the first sixteen bytes of `source`.
    ///
    /// # Errors
    ///
    /// [`HeaderError::TooShort`] and [`HeaderError::Read`].
    pub fn read(source: &(impl ReadAt + ?Sized)) -> Result<Self, HeaderError> {
        let size = source.size()?;
        if size < HEADER_BYTES as u64 {
            return Err(HeaderError::TooShort { size });
        }
        let mut bytes = [[0; 8]; 2];
        source.read_exact_at(bytes.as_flattened_mut(), 0)?;
        let [magic, gzip_len] = bytes;
        Ok(Self { magic, gzip_len })
    }

    /// Checks the sixteen bytes against what the caller expects and what the source can hold;
    /// `size` is its size in bytes. After this every number is safe to allocate by.
    ///
    /// # Errors
    ///
    /// Every [`HeaderError`] but those of [`RawHeader::read`].
    pub fn parse(self, expected: Magic, size: u64) -> Result<Header, HeaderError> {
        if self.magic != expected.bytes() {
            return Err(HeaderError::OtherMagic { expected, found: self.magic });
        }
        let gzip_len = u64::from_le_bytes(self.gzip_len);
        if gzip_len < MIN_GZIP_BYTES {
            return Err(HeaderError::LengthTooSmall { gzip_len });
        }
        let bounded = match u32::try_from(gzip_len) {
            Ok(bounded) if gzip_len <= MAX_GZIP_BYTES as u64 => bounded,
            _ => return Err(HeaderError::LengthOverLimit { gzip_len }),
        };
        if gzip_len > size.saturating_sub(HEADER_BYTES as u64) {
            return Err(HeaderError::LengthOverEnd { gzip_len, size });
        }
        Ok(Header { magic: expected, gzip_len: bounded })
    }
}

impl Header {
    /// What the image is for.
    #[must_use]
    pub const fn magic(&self) -> Magic {
        self.magic
    }

    /// Length of the gzip stream in bytes, at most [`MAX_GZIP_BYTES`].
    #[must_use]
    pub const fn gzip_len(&self) -> usize {
        self.gzip_len as usize
    }

    /// Length of the whole image in bytes: header, gzip stream, and padding to a multiple of
    /// [`SECTOR_BYTES`].
    #[must_use]
    pub const fn image_len(&self) -> usize {
        (HEADER_BYTES + self.gzip_len()).next_multiple_of(SECTOR_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(gzip_len: u64, size: u64) -> Result<Header, HeaderError> {
        let mut bytes = b"imgpullr".to_vec();
        bytes.extend(gzip_len.to_le_bytes());
        RawHeader::read(&bytes).unwrap().parse(Magic::IMAGEPULLER, size)
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
            assert_eq!(parse(gzip_len, size).unwrap().image_len(), image_len);
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
            let error = parse(gzip_len, size).unwrap_err().to_string();
            assert!(error.contains(rule), "{gzip_len}, {size}: {error}");
            assert!(error.contains(&format!("is {gzip_len},")), "{error}");
        }
    }

    #[test]
    fn another_magic_is_told_without_raw_bytes() {
        let raw = RawHeader::read(b"\x1b[2Jevil\x14\0\0\0\0\0\0\0".as_slice()).unwrap();
        let message = raw.parse(Magic::INITDATA, 512).unwrap_err().to_string();
        assert!(message.contains(r"\x1b[2Jevil"), "{message}");
    }

    #[test]
    fn a_short_source_is_no_header() {
        for size in 0..HEADER_BYTES {
            assert!(matches!(
                RawHeader::read(&vec![b'i'; size]),
                Err(HeaderError::TooShort { size: s }) if s == size as u64
            ));
        }
    }
}
