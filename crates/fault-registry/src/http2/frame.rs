//! Frames (RFC 9113, section 4.1).

use std::io::{self, Read, Write};

/// The largest frame that is sent or taken: what holds where nobody asked for more.
pub(super) const MAX_FRAME: usize = 16_384;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// On `SETTINGS` and `PING`.
pub(super) const ACK: u8 = 0x1;
/// On `DATA` and `HEADERS`.
pub(super) const END_STREAM: u8 = 0x1;
/// On `HEADERS` and `CONTINUATION`.
pub(super) const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// A frame.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// Reads the next frame.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut head = [0; 9];
        from.read_exact(&mut head)?;
        let [a, b, c, kind, flags, rest @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if length > MAX_FRAME {
            return Err(io::Error::other("a frame that is too large"));
        }
        let mut payload = vec![0; length];
        from.read_exact(&mut payload)?;
        Ok(Self {
            kind,
            flags,
            stream: u32::from_be_bytes(rest) & 0x7fff_ffff,
            payload,
        })
    }

    /// Whether a flag is set.
    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload of `DATA` or `HEADERS` without padding and priority.
    pub(super) fn content(&self) -> &[u8] {
        let mut content = self.payload.as_slice();
        if self.has(PADDED) {
            let (padding, rest) = content.split_first().unwrap_or((&0, &[]));
            content = &rest[..rest.len().saturating_sub(usize::from(*padding))];
        }
        if self.kind == HEADERS && self.has(PRIORITY) {
            content = content.get(5..).unwrap_or_default();
        }
        content
    }

    /// The number at the beginning of the payload.
    pub(super) fn number(&self) -> u32 {
        let bytes = self.payload.first_chunk().copied().unwrap_or_default();
        u32::from_be_bytes(bytes)
    }
}

/// Writes a frame, of any length.
pub(super) fn write(
    to: &mut impl Write,
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &[u8],
) -> io::Result<()> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let [_, a, b, c] = length.to_be_bytes();
    let mut frame = vec![a, b, c, kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    to.write_all(&frame)
}
