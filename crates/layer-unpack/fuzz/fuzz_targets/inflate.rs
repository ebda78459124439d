//! Invariant: any deflate stream gives the bytes that zlib-rs makes of it, or is refused where
//! zlib-rs refuses it.
#![cfg_attr(fuzzing, no_main)]

use bytes::Bytes;
use flate2::{Crc, Decompress, FlushDecompress, Status};
use layer_unpack::chunks::Chunks;
use layer_unpack::compression::{MIN_BUFFER_BYTES, decode};

/// The most that is looked at of what comes out.
const MAX_BYTES: usize = 4 << 20;

const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

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
    let mut blob = HEADER.to_vec();
    if is_taken {
        blob.extend_from_slice(&stream[..reference.total_in() as usize]);
        let mut sum = Crc::new();
        sum.update(&expected);
        blob.extend_from_slice(&sum.sum().to_le_bytes());
        blob.extend_from_slice(&sum.amount().to_le_bytes());
    } else {
        blob.extend_from_slice(stream);
    }
    match inflate(&blob, usize::from(piece) + 1) {
        Ok(plain) => assert!(is_taken && plain == expected, "other bytes"),
        Err(error) => {
            let text = error.to_string();
            assert!(!is_taken && !text.contains("gzip member"), "{text}");
        }
    }
});

fn inflate(blob: &[u8], piece: usize) -> std::io::Result<Vec<u8>> {
    let pieces: Vec<_> = blob.chunks(piece).map(Bytes::copy_from_slice).collect();
    let mut decoder = decode(Chunks::new(pieces))?;
    let (mut plain, mut buffer) = (Vec::new(), vec![0xaa; MIN_BUFFER_BYTES]);
    loop {
        let filled = decoder.fill(&mut buffer)?;
        if filled.is_empty() {
            return Ok(plain);
        }
        plain.extend_from_slice(&buffer[filled]);
    }
}
