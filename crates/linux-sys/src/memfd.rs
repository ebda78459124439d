//! A sealed, read-only anonymous file.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, memfd_create, open};

/// Copies `bytes` into an anonymous file, seals it against changes, and opens it read-only.
///
/// The content lives in memory only and goes away with the last descriptor. All seals are set
/// (write, grow, shrink, seal), so that neither a holder of another descriptor nor a guest behind a
/// virtual disk can alter it. The returned descriptor is a second, `O_RDONLY` open of the file:
/// QEMU refuses a descriptor from an fd set whose access mode is wider than what the block node
/// asks for.
///
/// `name` is only a label in `/proc/PID/fd`; it must not hold a secret. The descriptor has
/// `FD_CLOEXEC` set.
///
/// # Errors
///
/// Those of `memfd_create(2)`, `write(2)` and `fcntl(2)`; or `/proc` is not mounted, which the
/// second open needs.
pub fn sealed(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.write_all(bytes)?;
    fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    read_only(&file)
}

/// An anonymous file of `size` zero bytes, to be written through the first descriptor; the second
/// can only read it. Both are `FD_CLOEXEC`.
///
/// # Errors
///
/// As [`sealed`].
pub fn blank(name: &CStr, size: u64) -> io::Result<(File, OwnedFd)> {
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.set_len(size)?;
    let reader = read_only(&file)?;
    Ok((file, reader))
}

fn read_only(file: &File) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{fcntl_get_seals, fcntl_getfl};
    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;

    #[test]
    fn content_is_readable_sealed_and_read_only() {
        let fd = sealed(c"test", b"some bytes").unwrap();
        assert_eq!(
            fcntl_get_seals(&fd).unwrap(),
            SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL
        );
        assert!(!fcntl_getfl(&fd).unwrap().intersects(OFlags::RDWR | OFlags::WRONLY));
        assert!(fcntl_getfd(&fd).unwrap().contains(FdFlags::CLOEXEC));

        let mut file = File::from(fd);
        let mut read = Vec::new();
        file.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"some bytes");
        assert!(file.write_at(b"x", 0).is_err());
    }

    #[test]
    fn a_fresh_writable_open_cannot_change_it() {
        let fd = sealed(c"test", b"some bytes").unwrap();
        let again = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
            .unwrap();
        assert!(again.write_at(b"x", 0).is_err());
        assert!(again.set_len(0).is_err());
        assert!(again.set_len(4096).is_err());
    }

    #[test]
    fn an_empty_file_is_fine() {
        let mut read = Vec::new();
        File::from(sealed(c"", b"").unwrap()).read_to_end(&mut read).unwrap();
        assert!(read.is_empty());
    }
}
