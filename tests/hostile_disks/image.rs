//! Images with one thing odd about their length or their gzip stream, for either magic.

use config_image::{MAX_DOCUMENT_BYTES, MAX_GZIP_BYTES};

use crate::hostile_disks::gzip;
use crate::hostile_disks::stream::{self, Member, bomb, compressed, stored, stored_block};

/// A magic, and a document that is good under it.
#[derive(Clone, Copy)]
pub struct Kind {
    pub magic: &'static [u8; 8],
    pub document: &'static [u8],
}

/// An image and what a reader has to make of it.
pub struct Case {
    pub name: &'static str,
    pub image: Vec<u8>,
    /// The document, or words of the refusal.
    pub outcome: Result<Vec<u8>, &'static str>,
    pub in_guests: bool,
}

impl Case {
    pub fn in_guests(mut self) -> Self {
        self.in_guests = true;
        self
    }
}

/// Words of the refusal of a stream that is not one.
pub const INFLATE: &str = "inflate the gzip stream at offset 16: ";

/// Header, payload, and zeroes up to the next sector.
pub fn image(magic: &[u8; 8], length: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// `document` and a comment after it, `length` bytes together: good under either magic.
pub fn padded(document: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = document.to_vec();
    bytes.push(b'#');
    bytes.resize(length, b'x');
    bytes
}

/// All cases for `kind`.
pub fn cases(kind: Kind) -> Vec<Case> {
    [lengths(kind), sizes(kind), gzip::headers(kind), gzip::blocks(kind), gzip::ends(kind)]
        .into_iter()
        .flatten()
        .collect()
}

pub fn placed(name: &'static str, kind: Kind, stream: &[u8], document: &[u8]) -> Case {
    Case {
        name,
        image: image(kind.magic, stream.len() as u64, stream),
        outcome: Ok(document.to_vec()),
        in_guests: false,
    }
}

pub fn refused(name: &'static str, kind: Kind, stream: &[u8], words: &'static str) -> Case {
    Case { outcome: Err(words), ..placed(name, kind, stream, b"") }
}

/// The length field says something else than the stream.
fn lengths(kind: Kind) -> Vec<Case> {
    const LIMIT: u64 = MAX_GZIP_BYTES as u64;
    let good = Member::stored(kind.document).bytes();
    let length = good.len() as u64;
    let lie = |name, field, words| Case {
        image: image(kind.magic, field, &good),
        ..refused(name, kind, &good, words)
    };
    let over = "at most 1048576 bytes are accepted";
    let end = "but the disk ends after 512 bytes";
    vec![
        lie("length 0", 0, "the length at offset 8 is 0").in_guests(),
        lie("length 1", 1, "the shortest gzip stream has 20 bytes"),
        lie("length 19", 19, "the shortest gzip stream has 20 bytes"),
        lie("length 20 of a longer stream", 20, INFLATE),
        lie("length one short", length - 1, INFLATE).in_guests(),
        lie("length one long", length + 1, "it ends 1 bytes before the length").in_guests(),
        lie("length up to the disk's end, stream shorter", 496, "bytes before the length"),
        lie("length one over the disk's end", 497, end).in_guests(),
        lie("length of the whole disk", 512, end),
        lie("length one below the limit, small disk", LIMIT - 1, end),
        lie("length at the limit, small disk", LIMIT, end),
        lie("length one over the limit, small disk", LIMIT + 1, over),
        lie("length 2^31", 1 << 31, over),
        lie("length 2^32", 1 << 32, over),
        lie("length right in its lower 32 bits only", (1 << 32) + length, over).in_guests(),
        lie("length 2^62", 1 << 62, over),
        lie("length 2^63", 1 << 63, over),
        lie("length 2^64 - 16", u64::MAX - 15, over),
        lie("length 2^64 - 1", u64::MAX, over).in_guests(),
        lie("length big endian", length.swap_bytes(), over),
    ]
}

/// Streams and documents at and around the limits, and bombs.
fn sizes(kind: Kind) -> Vec<Case> {
    let large = padded(kind.document, 1_000_000);
    let stream = |length| stream::of_length(&large, length);
    let plain = |size| {
        let document = padded(kind.document, size);
        let stream = Member::new(&document, compressed(&document)).bytes();
        (stream, document)
    };
    let (below, below_document) = plain(MAX_DOCUMENT_BYTES - 1);
    let (at, at_document) = plain(MAX_DOCUMENT_BYTES);
    let (above, _) = plain(MAX_DOCUMENT_BYTES + 1);
    let more = "it holds more than 4194304 bytes";
    let small_bomb = Member::new(b"", bomb(64 << 10)).bytes();
    let large_bomb = Member::new(b"", bomb(MAX_GZIP_BYTES - 18)).bytes();
    // Blocks without content: much work, no output.
    let empty_blocks = stored_block(b"", false).repeat((MAX_GZIP_BYTES - 2000) / 5);
    let patience = [empty_blocks, stored(kind.document)].concat();
    vec![
        placed("stream one below the limit", kind, &stream(MAX_GZIP_BYTES - 1), &large),
        placed("stream at the limit", kind, &stream(MAX_GZIP_BYTES), &large),
        refused(
            "stream one over the limit",
            kind,
            &stream(MAX_GZIP_BYTES + 1),
            "at most 1048576 bytes are accepted",
        ),
        placed(
            "stream to the disk's last byte",
            kind,
            &stream::of_length(kind.document, 496),
            kind.document,
        )
        .in_guests(),
        placed("document one below the limit", kind, &below, &below_document),
        placed("document at the limit", kind, &at, &at_document),
        refused("document one over the limit", kind, &above, more),
        refused("bomb of 64 KiB for 64 MiB", kind, &small_bomb, more),
        refused("bomb of 1 MiB for 1 GiB", kind, &large_bomb, more),
        placed(
            "two hundred thousand empty blocks",
            kind,
            &Member::new(kind.document, patience).bytes(),
            kind.document,
        ),
    ]
}
