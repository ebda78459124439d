//! How large an image is made, so that a longer document can take its place while the VM runs.

use std::fmt;
use std::str::FromStr;

use config_image::SECTOR_BYTES;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};
use zeroize::Zeroizing;

use crate::transport::Transport;

/// The largest capacity: no image can need more. Free to change.
pub const MAX_CAPACITY_BYTES: usize = 2 << 20;
const _: () = assert!(MAX_CAPACITY_BYTES > config_image::MAX_GZIP_BYTES + SECTOR_BYTES);

/// What the transport that can be updated gets by itself: room for dozens of registries with
/// certificates.
pub const DEFAULT_CAPACITY_BYTES: usize = 64 << 10;

/// The least size of an image in bytes: a multiple of 512, at most [`MAX_CAPACITY_BYTES`]. A
/// reserve, not a limit: a document that needs more gets more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Capacity(usize);

/// The text or number is no [`Capacity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a capacity is a multiple of {SECTOR_BYTES} bytes up to {MAX_CAPACITY_BYTES}, written as a \
    number of bytes, or of KiB or MiB as in \"64K\" or \"1M\""
)]
pub struct InvalidCapacity;

impl Capacity {
    /// The capacity of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`InvalidCapacity`].
    pub fn of_bytes(bytes: u64) -> Result<Self, InvalidCapacity> {
        usize::try_from(bytes)
            .ok()
            .filter(|bytes| (1..=MAX_CAPACITY_BYTES).contains(bytes))
            .filter(|bytes| bytes.is_multiple_of(SECTOR_BYTES))
            .map(Self)
            .ok_or(InvalidCapacity)
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl FromStr for Capacity {
    type Err = InvalidCapacity;

    fn from_str(text: &str) -> Result<Self, InvalidCapacity> {
        Self::of_bytes(bytes_of(text).ok_or(InvalidCapacity)?)
    }
}

/// The bytes that a text such as `512`, `64K` or `1M` means.
fn bytes_of(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    // `parse` would also take a sign.
    let number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.then(|| digits.parse().ok())??;
    number.checked_mul(unit)
}

impl<'de> Deserialize<'de> for Capacity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesOrText)
    }
}

/// Takes a size that is written as a number of bytes, or as a text with a unit.
struct BytesOrText;

impl Visitor<'_> for BytesOrText {
    type Value = Capacity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes or a text such as \"64K\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Capacity, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Capacity, E> {
        // No size is as large as what takes the place of a negative number.
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        Capacity::of_bytes(bytes).map_err(E::custom)
    }
}

/// The size that an image of `bytes` bytes gets for `transport`: at least what was `asked` for.
/// Without that, images that can be replaced in place get the next power of two from
/// [`DEFAULT_CAPACITY_BYTES`] on, and those that cannot get no more than they need.
#[must_use]
pub fn size(asked: Option<Capacity>, transport: Transport, bytes: usize) -> usize {
    match (asked, transport) {
        (Some(Capacity(asked)), _) => asked.max(bytes),
        (None, Transport::File) => bytes.next_power_of_two().max(DEFAULT_CAPACITY_BYTES),
        (None, Transport::Memory | Transport::Loop | Transport::VhostUser) => bytes,
    }
}

/// `image` with zeroes up to `size`; both copies are zeroed when dropped.
#[must_use]
pub fn pad(image: Zeroizing<Vec<u8>>, size: usize) -> Zeroizing<Vec<u8>> {
    if image.len() >= size {
        return image;
    }
    // A vector that grows would leave its old copy in freed memory.
    let mut padded = Zeroizing::new(Vec::with_capacity(size));
    padded.extend_from_slice(&image);
    padded.resize(size, 0);
    padded
}

#[cfg(test)]
mod tests {
    use config_image::{Magic, decode, encode};

    use super::*;

    #[test]
    fn capacities_are_whole_sectors_within_the_limit() {
        for (text, bytes) in [
            ("512", 512),
            ("65536", 65536),
            ("64K", 65536),
            ("1M", 1 << 20),
            ("2M", MAX_CAPACITY_BYTES),
        ] {
            assert_eq!(text.parse::<Capacity>().unwrap().bytes(), bytes, "{text}");
        }
        for text in [
            "",
            "K",
            "0",
            "0K",
            "1",
            "511",
            "513",
            "+512",
            "-512",
            "64k",
            "64 K",
            "64KB",
            "1G",
            "3M",
            "2097664",
            "1.5K",
            "99999999999999999999",
            "99999999999999999M",
            "\u{e9}",
        ] {
            assert_eq!(text.parse::<Capacity>(), Err(InvalidCapacity), "{text}");
        }
    }

    #[test]
    fn a_reserve_is_no_limit() {
        let asked = "4K".parse().ok();
        for (asked, transport, bytes, expected) in [
            (None, Transport::Memory, 512, 512),
            (None, Transport::Loop, 1536, 1536),
            (None, Transport::File, 512, 65536),
            (None, Transport::VhostUser, 65536, 65536),
            (None, Transport::File, 66048, 131072),
            (None, Transport::File, (1 << 20) + 512, 2 << 20),
            (asked, Transport::Memory, 512, 4096),
            (asked, Transport::File, 512, 4096),
            (asked, Transport::VhostUser, 4608, 4608),
        ] {
            assert_eq!(size(asked, transport, bytes), expected, "{transport:?} {bytes}");
        }
    }

    #[test]
    fn a_padded_image_holds_the_same_document() {
        let image = encode(Magic::IMAGEPULLER, b"document").unwrap();
        let padded = pad(image.clone(), 4096);
        assert_eq!(padded.len(), 4096);
        assert_eq!(padded[..512], image[..]);
        assert_eq!(
            decode(padded.as_slice(), Magic::IMAGEPULLER).unwrap(),
            decode(image.as_slice(), Magic::IMAGEPULLER).unwrap()
        );
        assert_eq!(pad(image.clone(), 100), image);
    }
}
