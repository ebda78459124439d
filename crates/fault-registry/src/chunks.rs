//! Chunked transfer coding (RFC 9112, section 7.1), right and wrong.

use std::io::{self, Write};

use crate::action::Chunked;

/// Writes a body in chunks.
pub(super) struct Chunks {
    kind: Chunked,
    is_first: bool,
}

impl Chunks {
    /// A body that is yet to be written.
    pub(super) const fn new(kind: Chunked) -> Self {
        Self { kind, is_first: true }
    }

    /// Writes one chunk.
    pub(super) fn write(&mut self, out: &mut impl Write, piece: &[u8]) -> io::Result<()> {
        let is_first = std::mem::take(&mut self.is_first);
        let size = piece.len();
        let head = match self.kind {
            Chunked::Extensions => format!("{size:x};name=value;other=\"quoted\""),
            Chunked::LongExtension if is_first => format!("{size:x};long={}", "x".repeat(1 << 20)),
            // The low 64 bits are the right size: a client that lets the number wrap around takes
            // it.
            Chunked::HugeSize => format!("1{size:016x}"),
            Chunked::BadSize => format!("0x{size:x}"),
            _ => format!("{size:x}"),
        };
        out.write_all(head.as_bytes())?;
        out.write_all(b"\r\n")?;
        out.write_all(piece)?;
        out.write_all(b"\r\n")
    }

    /// Writes the end.
    pub(super) fn end(&self, out: &mut impl Write) -> io::Result<()> {
        match self.kind {
            Chunked::MissingEnd => return Ok(()),
            Chunked::Trailers => {
                out.write_all(b"0\r\nContent-Length: 3\r\nDocker-Content-Digest: sha256:0\r\n")?;
            }
            Chunked::ManyTrailers => {
                out.write_all(b"0\r\n")?;
                for number in 0..10_000 {
                    write!(out, "X-Trailer-{number}: x\r\n")?;
                }
            }
            _ => out.write_all(b"0\r\n")?,
        }
        out.write_all(b"\r\n")
    }

    /// Whether another answer may follow on the same connection.
    pub(super) const fn is_proper(&self) -> bool {
        matches!(
            self.kind,
            Chunked::Plain | Chunked::Tiny | Chunked::Extensions | Chunked::Trailers
        )
    }
}
