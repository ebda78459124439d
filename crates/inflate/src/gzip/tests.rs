//! What stands around deflate streams: headers, sums, several members, buffers that end anywhere.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};

use super::*;

fn member(builder: GzBuilder, plain: &[u8]) -> Vec<u8> {
    let mut encoder = builder.write(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn decode(stream: &[u8]) -> Result<Vec<u8>, String> {
    let (mut decoder, mut plain) = (Gzip::new(stream), Vec::new());
    let mut buffer = vec![0xaa; 2 * HISTORY_BYTES];
    loop {
        let filled = decoder.fill(&mut buffer).map_err(|error| error.to_string())?;
        if filled.is_empty() {
            return Ok(plain);
        }
        plain.extend_from_slice(&buffer[filled]);
    }
}

/// Text that is repeated from as far as it may be, so that every buffer needs all of its history.
fn text() -> Vec<u8> {
    let mut state = 1u32;
    let mut text: Vec<u8> = (0..HISTORY_BYTES)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    text.extend_from_within(..);
    text.extend_from_within(..);
    text
}

#[test]
fn every_header_and_several_members_are_read() {
    let text = text();
    let full = GzBuilder::new().extra(vec![7; 300]).filename("name").comment("comment");
    let stream = [
        member(full, &text),
        member(GzBuilder::new(), b""),
        member(GzBuilder::new().filename("n"), &text[..10]),
    ];
    let mut checked = member(GzBuilder::new(), b"checked");
    checked[3] |= HEADER_CHECK;
    checked.splice(10..10, [1, 2]);
    let stream = [&stream.concat()[..], &checked].concat();
    let plain = [&text[..], &text[..10], b"checked"].concat();
    assert!(decode(&stream).unwrap() == plain);
    // Every cut is an early end, unless it is one between members.
    for length in (1..stream.len()).step_by(997).chain(stream.len() - 40..stream.len()) {
        if let Ok(found) = decode(&stream[..length]) {
            assert!(plain.starts_with(&found) && stream[length..].starts_with(&[0x1f, 0x8b]));
        }
    }
}

#[test]
fn broken_members_are_refused() {
    let good = member(GzBuilder::new(), b"content");
    let length = good.len();
    let changed = |at: usize, value: u8| {
        let mut stream = good.clone();
        stream[at] ^= value;
        stream
    };
    for (stream, expected) in [
        (changed(length - 8, 1), "sum or length"),
        (changed(length - 1, 1), "sum or length"),
        (changed(0, 1), "follows a gzip member"),
        (changed(2, 1), "follows a gzip member"),
        (changed(3, 0x20), "follows a gzip member"),
        ([&good[..], b"x"].concat(), "end of file"),
        ([&good[..], &[b'x'; 10]].concat(), "follows a gzip member"),
    ] {
        let error = decode(&stream).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

/// A copy must not reach into the member before, whose bytes are in the same buffer.
#[test]
fn members_do_not_share_their_history() {
    let first = member(GzBuilder::new(), b"secret");
    // One block with the fixed codes: a copy of three bytes from one byte before, and the end.
    let copy = [&first[..10], &[0x03, 0x02, 0x00], &[0; 8]].concat();
    let error = decode(&[first, copy].concat()).unwrap_err();
    assert!(error.contains("too far"), "{error}");
}
