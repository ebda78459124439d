//! Reads that do not come from the page cache.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use config_image::ReadAt;
use rustix::fs::{Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use zeroize::Zeroizing;

/// What offset, length and memory of a direct read are multiples of: the largest sector of common
/// disks.
const BLOCK_BYTES: usize = 4096;

/// A disk whose every read asks the device.
#[derive(Debug)]
pub struct Direct {
    file: File,
    /// Whether the kernel takes direct reads: it does so for block devices and plain files alone.
    is_direct: bool,
}

impl Direct {
    /// Opens the device node called `name` in `directory`, without waiting for anything.
    ///
    /// # Errors
    ///
    /// Those of opening it.
    pub fn open(directory: impl AsFd, name: &str) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let open = |flags| openat(&directory, name, flags, Mode::empty());
        let (fd, is_direct) = match open(flags | OFlags::DIRECT) {
            // File systems in memory may know no direct reads, and need none: that is for plain
            // files in tests.
            Err(Errno::INVAL) => (open(flags)?, false),
            opened => (opened?, true),
        };
        let file = File::from(fd);
        Ok(Self { file, is_direct })
    }

    /// Whether a read can do nothing but read: no character device takes direct reads.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// What the kernel tells about the open device.
    ///
    /// # Errors
    ///
    /// None in practice: what is open has metadata.
    pub fn stat(&self) -> Result<Stat, Errno> {
        fstat(&self.file)
    }
}

impl From<Direct> for OwnedFd {
    fn from(disk: Direct) -> Self {
        disk.file.into()
    }
}

impl AsFd for Direct {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl ReadAt for Direct {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let skipped = (offset % BLOCK_BYTES as u64) as usize;
        let length = (skipped + buffer.len()).next_multiple_of(BLOCK_BYTES);
        let mut memory = Zeroizing::new(vec![0; length + BLOCK_BYTES]);
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        let window = memory.get_mut(start..start + length).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut filled = 0;
        while filled < skipped + buffer.len() {
            let at = offset - skipped as u64 + filled as u64;
            match self.file.read_at(&mut window[filled..], at) {
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
        self.file.size()
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
        let folder = File::open(directory.path()).unwrap();
        let direct = Direct::open(&folder, "disk").unwrap();
        assert_eq!(direct.size().unwrap(), 10_752);
        for (offset, length) in
            [(0, 16), (16, 500), (0, 10_752), (4095, 2), (4096, 4096), (10_751, 1), (10_752, 0)]
        {
            let mut buffer = vec![0; length];
            direct.read_exact_at(&mut buffer, offset).unwrap();
            assert_eq!(buffer, bytes[offset as usize..][..length], "{offset}");
        }
        let mut buffer = [0; 2];
        let error = direct.read_exact_at(&mut buffer, 10_751).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
