//! Gzip members (RFC 1952), one after another, inflated into buffers that begin with what came
//! before.

use std::fmt;
use std::io::{self, BufRead};
use std::ops::Range;

use super::deflate::{HISTORY_BYTES, Inflate};

/// Flags of a member's header.
const HEADER_CHECK: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0xe0;

/// The method of compression that all members have.
const DEFLATE: u8 = 8;

/// A stream of members.
pub struct Gzip<R> {
    inflate: Inflate<R>,
    /// The end of the plain bytes, to be repeated in the next buffer.
    history: Vec<u8>,
    member: Option<Member>,
}

/// What the end of a member is checked against.
#[derive(Default)]
struct Member {
    sum: crc32fast::Hasher,
    /// Modulo 2^32, as its end has it.
    length: u32,
}

impl<R: BufRead> Gzip<R> {
    /// Reads from a source that begins with a member.
    pub fn new(source: R) -> Self {
        Self {
            inflate: Inflate::new(source),
            history: Vec::with_capacity(HISTORY_BYTES),
            member: None,
        }
    }

    /// Fills a buffer, which has to be much larger than the history, and says where in it the plain
    /// bytes are: nowhere at the end.
    ///
    /// # Errors
    ///
    /// A broken member, a checksum that does not hold, or an early end.
    ///
    /// # Panics
    ///
    /// If the buffer is smaller than [`HISTORY_BYTES`].
    pub fn fill(&mut self, buffer: &mut [u8]) -> io::Result<Range<usize>> {
        let from = HISTORY_BYTES;
        let mut start = from - self.history.len();
        buffer[start..from].copy_from_slice(&self.history);
        let mut at = from;
        loop {
            if self.member.is_none() {
                if !self.header()? {
                    break;
                }
                self.inflate.restart();
                self.member = Some(Member::default());
                // Nothing before a member may be repeated in it.
                start = at;
            }
            let end = self.inflate.inflate(buffer, at, start)?;
            if let Some(member) = &mut self.member {
                member.sum.update(&buffer[at..end]);
                member.length = member.length.wrapping_add((end - at) as u32);
            }
            at = end;
            if !self.inflate.is_done() {
                break;
            }
            if let Some(member) = self.member.take() {
                self.end(member)?;
            }
        }
        self.history.clear();
        let known = start.max(at.saturating_sub(HISTORY_BYTES));
        self.history.extend_from_slice(&buffer[known..at]);
        Ok(from..at)
    }

    /// Reads the header of a member; there is none at the end.
    fn header(&mut self) -> io::Result<bool> {
        let Some(first) = self.inflate.byte()? else {
            return Ok(false);
        };
        if first == 0 {
            return self.padding();
        }
        let mut fixed = [first; 10];
        for byte in &mut fixed[1..] {
            *byte = self.byte()?;
        }
        let flags = fixed[3];
        if fixed[..3] != [0x1f, 0x8b, DEFLATE] || flags & RESERVED != 0 {
            return Err(broken("what follows a gzip member is none"));
        }
        if flags & EXTRA != 0 {
            let length = u16::from_le_bytes([self.byte()?, self.byte()?]);
            for _ in 0..length {
                self.byte()?;
            }
        }
        for text in [NAME, COMMENT] {
            while flags & text != 0 && self.byte()? != 0 {}
        }
        if flags & HEADER_CHECK != 0 {
            // Nothing of the header is used.
            self.byte()?;
            self.byte()?;
        }
        Ok(true)
    }

    /// Zeros up to the end, to which tapes and some builders fill the last block.
    fn padding(&mut self) -> io::Result<bool> {
        loop {
            match self.inflate.byte()? {
                None => return Ok(false),
                Some(0) => {}
                Some(_) => return Err(broken("what follows a gzip member is none")),
            }
        }
    }

    fn end(&mut self, member: Member) -> io::Result<()> {
        let mut numbers = [0; 2];
        for number in &mut numbers {
            let mut bytes = [0; 4];
            for byte in &mut bytes {
                *byte = self.byte()?;
            }
            *number = u32::from_le_bytes(bytes);
        }
        if numbers != [member.sum.finalize(), member.length] {
            return Err(broken("the sum or length of a gzip member is wrong"));
        }
        Ok(())
    }

    fn byte(&mut self) -> io::Result<u8> {
        let byte = self.inflate.byte()?;
        byte.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Shows none of the bytes.
impl<R> fmt::Debug for Gzip<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gzip")
    }
}

fn broken(rule: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, rule)
}

#[cfg(test)]
mod tests;
