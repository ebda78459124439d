//! Open directories: what is in them and what is set on them.

use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::fs::{Dir, DirEntry, Mode, OFlags, Timespec, Timestamps, flistxattr, openat};
use rustix::io::Errno;

/// The most bytes that Linux gives of an attribute, or of all names of attributes.
pub const MAX_XATTR_BYTES: usize = 64 << 10;

/// Opens a directory for reading; its name is not followed if it is a symbolic link.
pub fn open(at: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// What is in a directory, but for itself and its parent.
pub fn entries(
    directory: impl AsFd,
) -> Result<impl Iterator<Item = Result<DirEntry, Errno>>, Errno> {
    let is_own = |entry: &Result<DirEntry, Errno>| {
        let name = entry.as_ref().map(DirEntry::file_name);
        name.is_ok_and(|name| matches!(name.to_bytes(), b"." | b".."))
    };
    Ok(Dir::read_from(directory)?.filter(move |entry| !is_own(entry)))
}

/// The names of the extended attributes of a file; none where the file system has none.
pub fn xattr_names(file: impl AsFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::with_capacity(MAX_XATTR_BYTES);
    match flistxattr(file, spare_capacity(&mut names)) {
        Ok(_) | Err(Errno::OPNOTSUPP) => {}
        Err(error) => return Err(error),
    }
    let names = names.split(|&byte| byte == 0);
    Ok(names.filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}

/// Both times of a file, as far as this program sets them.
pub fn times(seconds: i64, nanoseconds: i64) -> Timestamps {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    Timestamps { last_access: time, last_modification: time }
}
