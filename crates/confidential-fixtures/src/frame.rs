//! ttrpc and the two messages of `api.GetResourceService`, by hand.
//!
//! A frame is a length (u32, big endian), a stream's number (u32), a type (1 request, 2 response)
//! and flags, then a protobuf message. `Request`: service = 1, method = 2, payload = 3,
//! timeout_nano = 4. `Response`: status = 1 (code = 1, message = 2), payload = 2. The payloads:
//! `ResourcePath` = 1 and `Resource` = 1.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Result, bail, ensure};

/// The largest message that ttrpc knows.
const MAX_BYTES: usize = 4 << 20;

/// A frame's type.
pub(super) const REQUEST: u8 = 1;
pub(super) const RESPONSE: u8 = 2;

/// The service and its method.
pub(super) const SERVICE: &str = "api.GetResourceService";
pub(super) const METHOD: &str = "GetResource";

/// A frame.
#[derive(Debug)]
pub(super) struct Frame {
    pub stream: u32,
    pub kind: u8,
    pub message: Vec<u8>,
}

impl Frame {
    /// Reads a frame; nothing at the end of the stream.
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
        Ok(Some(Self {
            stream: u32::from_be_bytes([s0, s1, s2, s3]),
            kind,
            message,
        }))
    }

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
pub(super) fn put(message: &mut Vec<u8>, number: u8, content: &[u8]) {
    message.push(number << 3 | 2);
    put_number(message, content.len() as u64);
    message.extend_from_slice(content);
}

/// Appends a number's bytes.
pub(super) fn put_number(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}

/// The fields of bytes in a message, and the numbers in it (as fields without content).
pub(super) fn fields(mut message: &[u8]) -> Result<Vec<(u64, Vec<u8>)>> {
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
pub(super) fn field(fields: &[(u64, Vec<u8>)], number: u64) -> Vec<u8> {
    let found = fields.iter().find(|(known, _)| *known == number);
    found
        .map(|(_, content)| content.clone())
        .unwrap_or_default()
}

/// Asks a data hub at this socket for a resource.
///
/// # Errors
///
/// What the data hub says, or that it is none.
pub fn ask(socket: &Path, uri: &str) -> Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    let mut payload = Vec::new();
    put(&mut payload, 1, uri.as_bytes());
    let mut message = Vec::new();
    put(&mut message, 1, SERVICE.as_bytes());
    put(&mut message, 2, METHOD.as_bytes());
    put(&mut message, 3, &payload);
    Frame {
        stream: 1,
        kind: REQUEST,
        message,
    }
    .write(&mut stream)?;
    let Some(answer) = Frame::read(&mut stream)? else {
        bail!("the data hub hangs up");
    };
    ensure!(answer.kind == RESPONSE, "the data hub sends no response");
    let answer = fields(&answer.message)?;
    let status = field(&answer, 1);
    let message = field(&fields(&status)?, 2);
    ensure!(status.is_empty(), "{}", String::from_utf8_lossy(&message));
    Ok(field(&fields(&field(&answer, 2))?, 1))
}
