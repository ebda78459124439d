//! The decoder against zlib-rs: the same bytes from every stream, and the same streams refused.

use std::io::Write as _;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};
use proptest::prelude::*;

use super::*;
use std::io::BufReader;

/// The most that a test lets come out.
const MAX_BYTES: usize = 1 << 20;

/// Decodes with a source in pieces and with buffers of some size.
fn decode(stream: &[u8], piece: usize, buffer_bytes: usize) -> Result<Vec<u8>, String> {
    let mut decoder = Inflate::new(BufReader::with_capacity(piece, stream));
    let (mut plain, mut buffer) = (Vec::new(), vec![0xaa; HISTORY_BYTES + buffer_bytes]);
    while !decoder.is_done() && plain.len() < MAX_BYTES {
        let known = plain.len().min(HISTORY_BYTES);
        let start = HISTORY_BYTES - known;
        buffer[start..HISTORY_BYTES].copy_from_slice(&plain[plain.len() - known..]);
        let end = decoder.inflate(&mut buffer, HISTORY_BYTES, start);
        let end = end.map_err(|error| error.to_string())?;
        plain.extend_from_slice(&buffer[HISTORY_BYTES..end]);
    }
    Ok(plain)
}

fn reference(stream: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = Decompress::new(false);
    let mut plain = Vec::with_capacity(MAX_BYTES);
    let status = decoder.decompress_vec(stream, &mut plain, FlushDecompress::Finish);
    let is_full = plain.len() == MAX_BYTES;
    (is_full || matches!(status, Ok(Status::StreamEnd))).then_some(plain)
}

fn deflate(plain: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// Text that compressors find something in: bytes of a small or large alphabet, and repetitions
/// from any distance.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let part = (any::<u8>(), 1usize..3000, 1u8..=255, any::<u32>());
    proptest::collection::vec(part, 1..40).prop_map(|parts| {
        let mut text = Vec::new();
        for (kind, length, alphabet, mut seed) in parts {
            if kind < 128 && !text.is_empty() {
                let distance =
                    1 + seed as usize % text.len().min(if kind < 64 { 20 } else { 40_000 });
                (0..length).for_each(|_| text.push(text[text.len() - distance]));
                continue;
            }
            text.extend((0..length).map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8 % alphabet
            }));
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_was_deflated_comes_out(
        plain in text(), level in 0u32..=9, piece in 1usize..5000, buffer in 300usize..70_000,
    ) {
        let stream = deflate(&plain, level);
        prop_assert_eq!(decode(&stream, piece, buffer).unwrap(), plain);
    }

    #[test]
    fn a_changed_stream_is_taken_or_refused_as_zlib_does(
        plain in text(), level in 0u32..=9,
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        cut in any::<usize>(), piece in 1usize..5000,
    ) {
        let mut stream = deflate(&plain, level);
        for (at, value) in changes {
            // Half of the changes concern the tables of the first block.
            let length = if value & 1 == 0 { stream.len() } else { stream.len().min(80) };
            stream[at % length] ^= value;
        }
        if cut % 4 == 0 {
            stream.truncate(cut % stream.len());
        }
        prop_assert_eq!(decode(&stream, piece, 8192).ok(), reference(&stream));
    }

    #[test]
    fn any_bytes_are_taken_or_refused_as_zlib_does(
        stream in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        prop_assert_eq!(decode(&stream, 100, 8192).ok(), reference(&stream));
    }
}

/// Bits in the order of the format: numbers lowest bit first, codes as they are written.
fn stream(parts: &[(u32, u32)]) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    for &(value, count) in parts {
        for bit in 0..count {
            if at % 8 == 0 {
                bytes.push(0);
            }
            let byte = bytes.last_mut().unwrap();
            *byte |= ((value >> bit & 1) as u8) << (at % 8);
            at += 1;
        }
    }
    bytes
}

#[test]
fn broken_streams_are_refused_with_the_rule() {
    let fixed = (0b011, 3);
    for (bits, expected) in [
        (&[(0b111, 3)][..], "unknown type"),
        (&[(0b001, 8), (1, 16), (1, 16)], "not confirmed"),
        (&[(0b101, 3), (30, 5), (0, 5), (0, 4)], "too many codes"),
        (&[(0b101, 3), (0, 5), (30, 5), (0, 4)], "too many codes"),
        (&[(0b101, 3), (0, 5), (0, 5), (0, 4), (0, 12)], "incomplete"),
        (&[(0b101, 3), (0, 5), (0, 5), (0, 4), (0o1111, 12)], "more symbols"),
        (
            // Lengths 16 and 17 have codes of one bit: "repeat the last length" comes first.
            &[(0b101, 3), (0, 5), (0, 5), (0, 4), (0o0011, 12), (0, 3)],
            "first length",
        ),
        (
            // Only the length 18 (11 to 138 zeros) and 0, so no symbol has a code.
            &[
                (0b101, 3),
                (0, 5),
                (0, 5),
                (0, 4),
                (0o1100, 12),
                (0x7f << 1 | 1, 8),
                (0x7f << 1 | 1, 8),
            ],
            "more lengths",
        ),
        // The symbol 286, and a copy (length 3, distance 1) before anything is there.
        (&[fixed, (0b0110_0011, 8)], "unknown"),
        (&[fixed, (0b100_0000, 7), (0, 5)], "too far"),
        // The distance 30 after a byte.
        (&[fixed, (0b0000_1100, 8), (0b100_0000, 7), (0b01111, 5)], "too far"),
        (&[fixed], "end of file"),
    ] {
        let mut bytes = stream(bits);
        if expected != "end of file" {
            bytes.resize(bytes.len() + 64, 0);
        }
        for piece in [1, 1000] {
            let error = decode(&bytes, piece, 8192).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
