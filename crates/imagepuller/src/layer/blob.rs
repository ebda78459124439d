//! A blob on its way from the network to the decoder: hashed, counted, and no longer than its descriptor says.

use std::io::{self, Read};

use bytes::{Buf as _, Bytes};
use tokio::sync::mpsc;

use crate::digest::{Digest, Hasher, Mismatch};

/// What a manifest says about a blob.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Its digest.
    pub digest: Digest,
    /// Its size.
    pub size: u64,
}

/// The receiving end of a transfer, on a thread that may block.
#[derive(Debug)]
pub struct Received {
    chunks: mpsc::Receiver<Bytes>,
    current: Bytes,
}

impl Received {
    /// Reads what is sent until the sender is gone. A transfer that broke off is seen as a blob that is too short.
    pub fn new(chunks: mpsc::Receiver<Bytes>) -> Self {
        Self {
            chunks,
            current: Bytes::new(),
        }
    }
}

impl Read for Received {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.chunks.blocking_recv() {
                Some(chunk) => self.current = chunk,
                None => return Ok(0),
            }
        }
        let length = self.current.len().min(buffer.len());
        self.current.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

/// The bytes of a blob, hashed as they are read.
#[derive(Debug)]
pub struct Blob<'a, R> {
    source: R,
    expected: &'a Expected,
    hasher: Hasher,
    received: u64,
}

impl<'a, R: Read> Blob<'a, R> {
    /// Wraps a source of bytes.
    pub fn new(source: R, expected: &'a Expected) -> Self {
        Self {
            source,
            expected,
            hasher: expected.digest.hasher(),
            received: 0,
        }
    }

    /// Reads what the decoder left and compares digest and size.
    pub fn finish(mut self) -> Result<(), Mismatch> {
        let expected = self.expected;
        // The source fails only when there is one byte too many, which the size tells too.
        let _ = io::copy(&mut self, &mut io::sink());
        if self.received > expected.size {
            return Err(Mismatch::Size {
                digest: expected.digest.clone(),
                expected: expected.size,
                received: self.received,
            });
        }
        let received = self.received;
        expected.digest.check(self.hasher.finish(), received)?;
        if received != expected.size {
            return Err(Mismatch::Size {
                digest: expected.digest.clone(),
                expected: expected.size,
                received,
            });
        }
        Ok(())
    }
}

impl<R: Read> Read for Blob<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.received += read as u64;
        if self.received > self.expected.size {
            return Err(io::Error::other(format!(
                "more than the {} bytes of its descriptor came",
                self.expected.size
            )));
        }
        Ok(read)
    }
}
