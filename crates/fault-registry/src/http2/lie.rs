//! Frames (RFC 9113, section 4.1) that no proper server sends.

use std::io;

use super::stream::Stream;
use crate::action::Http2Fault;
use crate::answer::Answer;
use crate::http1::After;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

/// On `DATA`.
const END_STREAM: u8 = 0x1;
/// On `HEADERS`.
const END_HEADERS: u8 = 0x4;

/// `:status: 200` by the static table, then `content-length` without Huffman's code.
fn head(length: usize) -> Vec<u8> {
    let digits = length.to_string();
    let start: &[u8] = &[0x88, 0x0f, 0x0d, digits.len() as u8];
    [start, digits.as_bytes()].concat()
}

/// The faults in place of an answer; nothing where the fault is of another kind.
pub(super) fn instead(
    stream: &Stream,
    id: u32,
    fault: Http2Fault,
    answer: &Answer,
) -> io::Result<Option<After>> {
    match fault {
        Http2Fault::Pings => loop {
            write(stream, PING, 0, 0, &[0; 8])?;
        },
        Http2Fault::Settings => loop {
            write(stream, SETTINGS, 0, 0, &[])?;
        },
        Http2Fault::EndlessContinuation => {
            write(stream, HEADERS, 0, id, &head(1000))?;
            // A literal name of 9 bytes, and a value of 100.
            let more = [b"\0\x09x-endless\x64".as_slice(), &[b'x'; 100]].concat();
            let more = more.repeat(100);
            loop {
                write(stream, CONTINUATION, 0, id, &more)?;
            }
        }
        // An index beyond every table.
        Http2Fault::BadHeaderBlock => {
            write(stream, HEADERS, END_HEADERS, id, &[0xff, 0xff, 0xff, 0x7f])?;
        }
        Http2Fault::OversizedFrame => {
            write(stream, HEADERS, END_HEADERS, id, &head(1000))?;
            write(stream, DATA, 0, id, &vec![0; (1 << 24) - 1])?;
        }
        Http2Fault::EmptyData => {
            write(stream, HEADERS, END_HEADERS, id, &head(1000))?;
            loop {
                write(stream, DATA, 0, id, &[])?;
            }
        }
        Http2Fault::UnknownStream => {
            write(stream, HEADERS, END_HEADERS, id + 1000, &head(1000))?;
            write(stream, DATA, END_STREAM, id + 1000, &[b'x'; 1000])?;
        }
        // Everything, and more than any window has room for.
        Http2Fault::IgnoredWindow => {
            let length = answer.body.bytes.len();
            write(stream, HEADERS, END_HEADERS, id, &head(length))?;
            for piece in answer.pieces() {
                write(stream, DATA, 0, id, &piece)?;
            }
            for _ in 0..1 << 14 {
                write(stream, DATA, 0, id, &[0; 4096])?;
            }
        }
        Http2Fault::Reset { .. } | Http2Fault::GoAway { .. } => return Ok(None),
    }
    Ok(Some(After::Finish))
}

/// Headers that break off.
pub(super) fn half_head(stream: &Stream, id: u32) -> io::Result<()> {
    write(stream, HEADERS, 0, id, &head(1000)[..4])
}

/// The end of one stream.
pub(super) fn reset(stream: &Stream, id: u32, code: u32) -> io::Result<()> {
    write(stream, RST_STREAM, 0, id, &code.to_be_bytes())
}

/// The end of the connection, after this stream.
pub(super) fn go_away(stream: &Stream, id: u32, code: u32) -> io::Result<()> {
    let payload = [id.to_be_bytes(), code.to_be_bytes()].concat();
    write(stream, GOAWAY, 0, 0, &payload)
}

/// Writes a frame, of any length.
fn write(stream: &Stream, kind: u8, flags: u8, id: u32, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let [_, a, b, c] = length.to_be_bytes();
    let head = [a, b, c, kind, flags];
    stream.write(&[&head[..], &id.to_be_bytes(), payload].concat())
}
