//! ttrpc by hand, for clients and servers in tests that have no runtime.
//!
//! A frame is a length (u32, big endian), a stream's number (u32), a type (1 request, 2 response)
//! and flags, then a protobuf message. `Request`: service = 1, method = 2, payload = 3,
//! timeout_nano = 4. `Response`: status = 1 (code = 1, message = 2), payload = 2.

use std::io::{self, Read, Write};

use anyhow::{Result, bail, ensure};

/// The largest message that ttrpc knows.
const MAX_BYTES: usize = 4 << 20;

/// A frame that asks.
pub const REQUEST: u8 = 1;
/// The answer to one.
pub const RESPONSE: u8 = 2;

/// A frame.
#[derive(Debug)]
pub struct Frame {
    /// The number of the stream; the answer has the question's.
    pub stream: u32,
    /// [`REQUEST`] or [`RESPONSE`].
    pub kind: u8,
    /// A protobuf message.
    pub message: Vec<u8>,
}

impl Frame {
    /// Reads a frame; nothing at the end of the stream.
    ///
    /// # Errors
    ///
    /// Those of the stream, and a message over 4 MiB.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; 10];
        if let Err(error) = from.read_exact(&mut head) {
            return match error.kind() {
                io::ErrorKind::UnexpectedEof => Ok(None),
                _ => Err(error),
            };
        }
        let [l0, l1, l2, l3, s0, s1, s2, s3, kind, _flags] = head;
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        if length > MAX_BYTES {
            return Err(io::Error::other("a frame that is too large"));
        }
        let mut message = vec![0; length];
        from.read_exact(&mut message)?;
        Ok(Some(Self { stream: u32::from_be_bytes([s0, s1, s2, s3]), kind, message }))
    }

    /// Writes a frame.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let length = u32::try_from(self.message.len()).map_err(io::Error::other)?;
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend([self.kind, 0]);
        bytes.extend(&self.message);
        to.write_all(&bytes)
    }
}

/// Appends a field of bytes to a message.
pub fn put(message: &mut Vec<u8>, number: u8, content: &[u8]) {
    message.push(number << 3 | 2);
    put_number(message, content.len() as u64);
    message.extend_from_slice(content);
}

/// Appends a number's bytes.
pub fn put_number(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}

/// The fields of bytes in a message, and the numbers in it (as fields without content).
///
/// # Errors
///
/// Where it is no such message.
pub fn fields(mut message: &[u8]) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = take_number(&mut message)?;
        match tag & 7 {
            0 => {
                take_number(&mut message)?;
            }
            2 => {
                let length = usize::try_from(take_number(&mut message)?)?;
                ensure!(length <= message.len(), "a field that is too long");
                let (content, rest) = message.split_at(length);
                fields.push((tag >> 3, content.to_vec()));
                message = rest;
            }
            kind => bail!("a field of the unexpected kind {kind}"),
        }
    }
    Ok(fields)
}

fn take_number(message: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for place in 0..10 {
        let Some((byte, rest)) = message.split_first() else {
            bail!("a message that ends in a number");
        };
        *message = rest;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    bail!("a number that is too long")
}

/// The content of the first field with this number; absent and empty are the same.
#[must_use]
pub fn field(fields: &[(u64, Vec<u8>)], number: u64) -> Vec<u8> {
    let found = fields.iter().find(|(known, _)| *known == number);
    found.map(|(_, content)| content.clone()).unwrap_or_default()
}

/// Calls a method over a connection, and waits for the payload of the answer.
///
/// # Errors
///
/// What the other side says (its words alone), or that it is none.
pub fn call(
    stream: &mut (impl Read + Write),
    service: &str,
    method: &str,
    payload: &[u8],
) -> Result<Vec<u8>> {
    let mut message = Vec::new();
    put(&mut message, 1, service.as_bytes());
    put(&mut message, 2, method.as_bytes());
    put(&mut message, 3, payload);
    Frame { stream: 1, kind: REQUEST, message }.write(stream)?;
    let Some(answer) = Frame::read(stream)? else {
        bail!("the other side hangs up");
    };
    ensure!(answer.kind == RESPONSE, "the other side sends no response");
    let answer = fields(&answer.message)?;
    let status = field(&answer, 1);
    let message = field(&fields(&status)?, 2);
    ensure!(status.is_empty(), "{}", String::from_utf8_lossy(&message));
    Ok(field(&answer, 2))
}
