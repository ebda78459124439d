//! Files and streams read up to a limit.
//!
//! The memory is reserved once where the size is known, and zeroed in any case: a vector that grows
//! by itself leaves copies of a secret in freed memory. Nothing hangs on a FIFO or a device.

use std::fs::File;
use std::io::{self, ErrorKind, Read};

use zeroize::Zeroizing;

/// Why a file or a stream was not read. Says nothing about what it contains.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no file of that name.
    #[error(transparent)]
    NotThere(io::Error),
    /// A directory, FIFO, device or socket.
    #[error("it is not a regular file")]
    NotRegular,
    /// More than the caller reads.
    #[error("it has more than {limit} bytes")]
    TooLong {
        /// The most bytes that the caller reads.
        limit: usize,
    },
    /// The kernel refused.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::NotThere(error),
            _ => Self::Io(error),
        }
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotThere(error) | ReadError::Io(error) => error,
            rule => Self::other(rule),
        }
    }
}

/// `None` for what is not there.
///
/// # Errors
///
/// Every other [`ReadError`].
pub fn if_there<T>(read: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
    match read {
        Ok(content) => Ok(Some(content)),
        Err(ReadError::NotThere(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads an open regular file to its end. The caller has opened it with `O_NONBLOCK` where the name
/// may be a FIFO's.
///
/// # Errors
///
/// [`ReadError::NotRegular`], [`ReadError::TooLong`], [`ReadError::Io`].
pub fn read_file(file: File, limit: usize) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(ReadError::NotRegular);
    }
    let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    if size > limit {
        return Err(ReadError::TooLong { limit });
    }
    read_expecting(file, size, limit)
}

/// Reads a stream to its end: a pipe, or a file whose size the kernel does not tell (`/proc`,
/// `/sys`). To have the beginning only, give `source.take(limit)`.
///
/// # Errors
///
/// [`ReadError::TooLong`], [`ReadError::Io`].
pub fn read_stream(source: impl Read, limit: usize) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    read_expecting(source, limit.min(1024), limit)
}

/// Reads the regular file at `path`, which the caller trusts; symbolic links are followed.
///
/// # Errors
///
/// [`ReadError`].
#[cfg(feature = "file")]
pub fn read_path(
    path: impl AsRef<std::path::Path>,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    use rustix::fs::{Mode, OFlags, open};

    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path.as_ref(), flags, Mode::empty()).map_err(io::Error::from)?;
    read_file(file.into(), limit)
}

/// Reads the regular file `name` in an open directory. It is not followed if it is a symbolic link.
///
/// # Errors
///
/// [`ReadError`].
#[cfg(feature = "file")]
pub fn read_in(
    directory: impl std::os::fd::AsFd,
    name: &str,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    use rustix::fs::{Mode, OFlags, openat};

    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(directory, name, flags | OFlags::NOFOLLOW, Mode::empty());
    read_file(file.map_err(io::Error::from)?.into(), limit)
}

/// A file that grows meanwhile still ends at the limit.
fn read_expecting(
    mut source: impl Read,
    size: usize,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    // One byte more, so that the end is seen without growing.
    let mut content = Zeroizing::new(vec![0; size.saturating_add(1)]);
    let mut filled = 0;
    loop {
        if filled > limit {
            return Err(ReadError::TooLong { limit });
        }
        if filled == content.len() {
            let doubled = content.len().saturating_mul(2);
            let mut larger = Zeroizing::new(vec![0; doubled.min(limit.saturating_add(1))]);
            larger[..filled].copy_from_slice(&content);
            content = larger;
        }
        match source.read(&mut content[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    content.truncate(filled);
    Ok(content)
}
