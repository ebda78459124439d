//! A sequence of byte chunks, read as a stream without copying more than is asked for.

use std::io::{self, BufRead, Read};

use bytes::{Buf as _, Bytes};

/// Chunks one after another.
#[derive(Debug)]
pub struct Chunks<I> {
    chunks: I,
    current: Bytes,
    taken: u64,
}

/// A source whose bytes can be kept without a copy, and then keep the chunk that they are of.
pub trait Share {
    /// The next bytes, at most `max`; none only at the end, or where `max` is 0.
    ///
    /// # Errors
    ///
    /// As for a read.
    fn share(&mut self, max: usize) -> io::Result<Bytes>;

    /// The number of the chunk that the last bytes are of.
    fn chunk(&self) -> u64;
}

impl<I: Iterator<Item = Bytes>> Chunks<I> {
    /// Reads until the iterator ends.
    pub fn new(chunks: impl IntoIterator<IntoIter = I>) -> Self {
        Self { chunks: chunks.into_iter(), current: Bytes::new(), taken: 0 }
    }

    /// Puts bytes back before all others.
    pub fn unread(self, bytes: Bytes) -> Chunks<impl Iterator<Item = Bytes>> {
        let rest = [self.current].into_iter().chain(self.chunks);
        Chunks { chunks: rest, current: bytes, taken: self.taken }
    }

    fn current(&mut self) -> &mut Bytes {
        while self.current.is_empty() {
            match self.chunks.next() {
                Some(chunk) => {
                    self.current = chunk;
                    self.taken += 1;
                }
                None => break,
            }
        }
        &mut self.current
    }

    /// An empty chunk may still keep a buffer from being used again.
    fn release(&mut self) {
        if self.current.is_empty() {
            self.current = Bytes::new();
        }
    }
}

impl<I: Iterator<Item = Bytes>> Read for Chunks<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let current = self.current();
        let length = current.len().min(buffer.len());
        current.copy_to_slice(&mut buffer[..length]);
        self.release();
        Ok(length)
    }
}

impl<I: Iterator<Item = Bytes>> BufRead for Chunks<I> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(self.current())
    }

    fn consume(&mut self, amount: usize) {
        self.current.advance(amount);
        self.release();
    }
}

impl<I: Iterator<Item = Bytes>> Share for Chunks<I> {
    fn share(&mut self, max: usize) -> io::Result<Bytes> {
        let current = self.current();
        let piece = current.split_to(current.len().min(max));
        self.release();
        Ok(piece)
    }

    fn chunk(&self) -> u64 {
        self.taken
    }
}

impl<S: Share> Share for &mut S {
    fn share(&mut self, max: usize) -> io::Result<Bytes> {
        (**self).share(max)
    }

    fn chunk(&self) -> u64 {
        (**self).chunk()
    }
}

/// Fills a buffer as far as the source goes, and says how far that is.
pub(crate) fn read_full(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks() -> Chunks<impl Iterator<Item = Bytes>> {
        Chunks::new(["", "ab", "", "cde", ""].map(Bytes::from))
    }

    #[test]
    fn empty_chunks_are_no_end() {
        let mut text = String::new();
        chunks().read_to_string(&mut text).unwrap();
        assert_eq!(text, "abcde");
        let mut chunks = chunks();
        for (expected, consumed) in [("ab", 1), ("b", 1), ("cde", 2), ("e", 1), ("", 0)] {
            assert_eq!(chunks.fill_buf().unwrap(), expected.as_bytes());
            chunks.consume(consumed);
        }
    }

    #[test]
    fn shared_pieces_end_with_their_chunk() {
        let mut chunks = chunks();
        for (max, piece, chunk) in
            [(1, "a", 2), (9, "b", 2), (0, "", 4), (2, "cd", 4), (2, "e", 4), (2, "", 5)]
        {
            assert_eq!(chunks.share(max).unwrap(), piece.as_bytes());
            assert_eq!(chunks.chunk(), chunk, "{piece}");
        }
    }

    #[test]
    fn what_is_put_back_comes_first() {
        let mut chunks = chunks();
        let mut first = [0];
        chunks.read_exact(&mut first).unwrap();
        let mut text = String::new();
        chunks.unread(Bytes::copy_from_slice(&first)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "abcde");
    }
}
