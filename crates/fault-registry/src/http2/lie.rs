//! Frames (RFC 9113, section 4.1) that no proper server sends.

use std::io;

use super::stream::Stream;
use crate::action::Http2Fault;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

/// On `HEADERS`.
const END_HEADERS: u8 = 0x4;

/// `:status: 200` by the static table, then `content-length` without Huffman's code.
fn head(length: usize) -> Vec<u8> {
    let digits = length.to_string();
    let start: &[u8] = &[0x88, 0x0f, 0x0d, digits.len() as u8];
    [start, digits.as_bytes()].concat()
}

/// Sends a flood in place of an answer until the client hangs up; nothing for another fault.
pub(super) fn flood(stream: &Stream, id: u32, fault: Http2Fault) -> io::Result<()> {
    match fault {
        Http2Fault::Pings => loop {
            write(stream, PING, 0, 0, &[0; 8])?;
        },
        Http2Fault::EmptyData => {
            write(stream, HEADERS, END_HEADERS, id, &head(1000))?;
            loop {
                write(stream, DATA, 0, id, &[])?;
            }
        }
        Http2Fault::Reset { .. } | Http2Fault::GoAway { .. } => Ok(()),
    }
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
