//! Reads that do not come from the page cache.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use config_image::ReadAt;
use rustix::fs::{Advice, CWD, Mode, OFlags, fadvise, openat};
use rustix::io::Errno;
use zeroize::Zeroizing;

/// What offset, length and memory of a direct read are multiples of: the largest sector of common
/// disks.
const BLOCK_BYTES: usize = 4096;

/// A disk whose every read asks the device.
#[derive(Debug)]
pub struct Direct(File);

impl Direct {
    /// Opens the disk at `node`, which is the one that `expected` has open already.
    ///
    /// # Errors
    ///
    /// Those of opening it, and where the node has become another device.
    pub fn open(node: &Path, expected: &File) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = match openat(CWD, node, flags | OFlags::DIRECT, Mode::empty()) {
            Ok(fd) => File::from(fd),
            // File systems in memory know no direct reads, and need none: that is for plain files
            // in tests.
            Err(Errno::INVAL) => File::from(openat(CWD, node, flags, Mode::empty())?),
            Err(errno) => return Err(errno.into()),
        };
        let (now, then) = (file.metadata()?, expected.metadata()?);
        if (now.dev(), now.ino(), now.rdev()) != (then.dev(), then.ino(), then.rdev()) {
            return Err(io::Error::other("the node has become another device"));
        }
        // Where direct reads do not work, this drops at least what is cached.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        Ok(Self(file))
    }
}

impl ReadAt for Direct {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let skipped = (offset % BLOCK_BYTES as u64) as usize;
        let length = (skipped + buffer.len()).next_multiple_of(BLOCK_BYTES);
        let mut memory = Zeroizing::new(vec![0; length + BLOCK_BYTES]);
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        let window = memory
            .get_mut(start..start + length)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let mut filled = 0;
        while filled < skipped + buffer.len() {
            let at = offset - skipped as u64 + filled as u64;
            match self.0.read_at(&mut window[filled..], at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.copy_from_slice(&window[skipped..skipped + buffer.len()]);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_file_is_read_right() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let bytes: Vec<u8> = (0..10_752_u32).map(|number| (number % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let direct = Direct::open(&path, &File::open(&path).unwrap()).unwrap();
        assert_eq!(direct.size().unwrap(), 10_752);
        for (offset, length) in [
            (0, 16),
            (16, 500),
            (0, 10_752),
            (4095, 2),
            (4096, 4096),
            (10_751, 1),
            (10_752, 0),
        ] {
            let mut buffer = vec![0; length];
            direct.read_exact_at(&mut buffer, offset).unwrap();
            assert_eq!(buffer, bytes[offset as usize..][..length], "{offset}");
        }
        let mut buffer = [0; 2];
        let error = direct.read_exact_at(&mut buffer, 10_751).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
