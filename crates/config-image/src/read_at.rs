//! Positioned reads.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

/// A source of bytes that is read at offsets: a file, a block device, or memory.
///
/// Implementations may be hostile in content and may change between two reads. A decoder therefore
/// reads each byte once and works on its copy.
pub trait ReadAt {
    /// Fills `buffer` with the bytes at `offset`, counted in bytes from the start.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] where the source ends before the buffer is full.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// How many bytes the source has now.
    ///
    /// # Errors
    ///
    /// Those of the underlying seek.
    fn size(&self) -> io::Result<u64>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }

    /// Seeks to the end, because the metadata of a block device says 0. Moves the file's own
    /// position, which the positioned reads do not use.
    fn size(&self) -> io::Result<u64> {
        (&*self).seek(SeekFrom::End(0))
    }
}

impl ReadAt for [u8] {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buffer.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn memory_and_file_agree() {
        let bytes = b"0123456789".as_slice();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        assert_eq!(bytes.size().unwrap(), 10);
        assert_eq!(ReadAt::size(&file).unwrap(), 10);
        for (offset, length, fits) in [
            (0, 10, true),
            (9, 1, true),
            (10, 0, true),
            (9, 2, false),
            (10, 1, false),
            (11, 1, false),
            (u64::MAX, 1, false),
        ] {
            let mut one = vec![0; length];
            let mut two = vec![0; length];
            let from_memory = bytes.read_exact_at(&mut one, offset);
            let from_file = ReadAt::read_exact_at(&file, &mut two, offset);
            assert_eq!(from_memory.is_ok(), fits, "memory, {length} at {offset}");
            assert_eq!(from_file.is_ok(), fits, "file, {length} at {offset}");
            if fits {
                assert_eq!(one, two);
            }
        }
    }
}
