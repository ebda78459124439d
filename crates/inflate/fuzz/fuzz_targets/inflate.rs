//! Invariant: for any input and any chunking, the decoder gives the bytes that zlib-rs gives, or
//! refuses the stream where zlib-rs refuses it.
#![cfg_attr(fuzzing, no_main)]

use std::io::{self, BufReader};

use flate2::{Crc, Decompress, FlushDecompress, Status};
use inflate::{Gzip, HISTORY_BYTES};

/// The most that is looked at of what comes out.
const MAX_BYTES: usize = 4 << 20;

const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

// The first byte says how the stream is cut into pieces; the rest is a bare deflate stream.
fuzzing::target!(|input: &[u8]| {
    let Some((&piece, stream)) = input.split_first() else {
        return;
    };
    let mut reference = Decompress::new(false);
    let mut expected = Vec::with_capacity(MAX_BYTES);
    let status = reference.decompress_vec(stream, &mut expected, FlushDecompress::Finish);
    if expected.len() == MAX_BYTES {
        return;
    }
    let is_taken = matches!(status, Ok(Status::StreamEnd));
    let mut member = HEADER.to_vec();
    if is_taken {
        member.extend_from_slice(&stream[..reference.total_in() as usize]);
        let mut sum = Crc::new();
        sum.update(&expected);
        member.extend_from_slice(&sum.sum().to_le_bytes());
        member.extend_from_slice(&sum.amount().to_le_bytes());
    } else {
        member.extend_from_slice(stream);
    }
    let piece = usize::from(piece) + 1;
    // Small pieces and buffers go through the careful loop, the whole stream through the fast one.
    let small = (piece, HISTORY_BYTES + 300 + piece);
    for (piece, buffer) in [small, (member.len(), 8 * HISTORY_BYTES)] {
        match inflate(&member, piece, buffer) {
            Ok(plain) => assert!(is_taken && plain == expected, "other bytes"),
            Err(error) => {
                let text = error.to_string();
                assert!(!is_taken && !text.contains("gzip member"), "{text}");
            }
        }
    }
});

fn inflate(member: &[u8], piece: usize, buffer: usize) -> io::Result<Vec<u8>> {
    let mut decoder = Gzip::new(BufReader::with_capacity(piece, member));
    let (mut plain, mut buffer) = (Vec::new(), vec![0xaa; buffer]);
    loop {
        let filled = decoder.fill(&mut buffer)?;
        if filled.is_empty() {
            return Ok(plain);
        }
        plain.extend_from_slice(&buffer[filled]);
    }
}
