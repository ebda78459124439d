//! Gzip streams, legal and not, put together bit by bit: no compressor writes most of these.
//!
//! Spec: RFC 1951 (deflate), RFC 1952 (gzip).

use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// Header flag: the content is probably text.
pub const FTEXT: u8 = 1;
/// Header flag: a checksum of the header follows it.
pub const FHCRC: u8 = 2;
/// Header flag: an extra field follows.
pub const FEXTRA: u8 = 4;
/// Header flag: a name follows, ended by a NUL.
pub const FNAME: u8 = 8;
/// Header flag: a comment follows, ended by a NUL.
pub const FCOMMENT: u8 = 16;

/// The parts of a gzip member.
pub struct Member {
    pub method: u8,
    pub flags: u8,
    /// Extra field, name, comment and header checksum, as the flags announce them (or not).
    pub fields: Vec<u8>,
    pub deflate: Vec<u8>,
    pub crc: u32,
    pub size: u32,
}

impl Member {
    /// A legal member around `deflate`, which inflates to `document`.
    pub fn new(document: &[u8], deflate: Vec<u8>) -> Self {
        let mut crc = Crc::new();
        crc.update(document);
        Self {
            method: 8,
            flags: 0,
            fields: Vec::new(),
            deflate,
            crc: crc.sum(),
            size: document.len() as u32,
        }
    }

    /// As this project's host writes it.
    pub fn stored(document: &[u8]) -> Self {
        Self::new(document, stored(document))
    }

    /// With header fields.
    pub fn with(mut self, flags: u8, fields: impl Into<Vec<u8>>) -> Self {
        self.flags = flags;
        self.fields = fields.into();
        self
    }

    fn header(&self) -> Vec<u8> {
        let mut bytes = vec![0x1f, 0x8b, self.method, self.flags, 0, 0, 0, 0, 0, 0xff];
        bytes.extend(&self.fields);
        bytes
    }

    /// With a checksum over the header, `wrong` or not.
    pub fn header_checksum(mut self, wrong: bool) -> Self {
        self.flags |= FHCRC;
        let mut crc = Crc::new();
        crc.update(&self.header());
        let low_half = (crc.sum() as u16) ^ u16::from(wrong);
        self.fields.extend(low_half.to_le_bytes());
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header();
        bytes.extend(&self.deflate);
        bytes.extend(self.crc.to_le_bytes());
        bytes.extend(self.size.to_le_bytes());
        bytes
    }
}

/// A legal stream of exactly `length` bytes: stored blocks, and a comment that fills up the rest.
pub fn of_length(document: &[u8], length: usize) -> Vec<u8> {
    let member = Member::stored(document);
    let comment = length - member.bytes().len() - 1;
    let mut fields = vec![b'c'; comment];
    fields.push(0);
    let stream = member.with(FCOMMENT, fields).bytes();
    assert_eq!(stream.len(), length);
    stream
}

/// Stored blocks only.
pub fn stored(document: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chunks = document.chunks(0xffff).peekable();
    if chunks.peek().is_none() {
        return stored_block(b"", true);
    }
    while let Some(chunk) = chunks.next() {
        bytes.extend(stored_block(chunk, chunks.peek().is_none()));
    }
    bytes
}

/// One stored block.
pub fn stored_block(chunk: &[u8], last: bool) -> Vec<u8> {
    let length = chunk.len() as u16;
    let mut bytes = vec![u8::from(last)];
    bytes.extend(length.to_le_bytes());
    bytes.extend((!length).to_le_bytes());
    bytes.extend(chunk);
    bytes
}

/// What a compressor makes of `document`.
pub fn compressed(document: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(document).unwrap();
    encoder.finish().unwrap()
}

/// Zeroes by the gigabyte, at 1:1000: one compressed piece that ends on a whole byte, again and
/// again.
pub fn bomb(length: usize) -> Vec<u8> {
    const PIECE: usize = 1 << 20;
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; PIECE]).unwrap();
    encoder.flush().unwrap();
    let piece = encoder.get_ref().clone();
    assert!(piece.len() < PIECE / 900, "{}", piece.len());
    let mut bytes = Vec::new();
    while bytes.len() + piece.len() <= length {
        bytes.extend(&piece);
    }
    bytes
}

/// Bits, the first in the lowest place of the first byte.
#[derive(Default)]
pub struct Bits {
    bytes: Vec<u8>,
    used: usize,
}

impl Bits {
    fn bit(mut self, set: bool) -> Self {
        if self.used.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(set) << (self.used % 8);
        }
        self.used += 1;
        self
    }

    /// A number of `width` bits, lowest first.
    pub fn number(self, value: u32, width: u32) -> Self {
        (0..width).fold(self, |bits, place| bits.bit(value >> place & 1 == 1))
    }

    /// A Huffman code of `width` bits, highest first.
    fn code(self, value: u32, width: u32) -> Self {
        (0..width).rev().fold(self, |bits, place| bits.bit(value >> place & 1 == 1))
    }

    /// The head of a block: whether it is the last one, and its type (0 stored, 1 fixed, 2
    /// dynamic).
    pub fn block(self, last: bool, kind: u32) -> Self {
        self.bit(last).number(kind, 2)
    }

    /// A literal or length symbol by the fixed code.
    pub fn fixed(self, symbol: u32) -> Self {
        match symbol {
            0..144 => self.code(0x30 + symbol, 8),
            144..256 => self.code(0x190 + symbol - 144, 9),
            256..280 => self.code(symbol - 256, 7),
            _ => self.code(0xc0 + symbol - 280, 8),
        }
    }

    /// A distance symbol by the fixed code.
    pub fn fixed_distance(self, symbol: u32) -> Self {
        self.code(symbol, 5)
    }

    /// The head of a dynamic block with these counts and these lengths of the code length code, in
    /// its odd order.
    pub fn dynamic(self, literals: u32, distances: u32, lengths: &[u32]) -> Self {
        let bits = self
            .block(true, 2)
            .number(literals - 257, 5)
            .number(distances - 1, 5)
            .number(lengths.len() as u32 - 4, 4);
        lengths.iter().fold(bits, |bits, length| bits.number(*length, 3))
    }

    pub fn bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// `document` in one block of the fixed code.
pub fn fixed(document: &[u8]) -> Vec<u8> {
    let bits = document
        .iter()
        .fold(Bits::default().block(true, 1), |bits, byte| bits.fixed(u32::from(*byte)));
    bits.fixed(256).bytes()
}
