//! How much a file system has left.

use std::fmt;
use std::io;
use std::path::Path;

/// What a file system has left for this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Bytes that the file system has in all.
    pub total_bytes: u64,
    /// Files that can still be made; none where their number has no limit.
    pub free_files: Option<u64>,
}

impl Room {
    /// Asks the file system that `path` is on. Blocks.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(Self {
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            // Some file systems make inodes as they need them, and count none; so does a tmpfs with
            // `nr_inodes=0`.
            free_files: (stat.f_files > 0).then_some(stat.f_favail),
        })
    }

    /// Whether so much fits: the bytes, and at least one file.
    pub(crate) fn holds(&self, bytes: u64) -> bool {
        self.free_bytes >= bytes && self.free_files != Some(0)
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.free_bytes, self.total_bytes)?;
        match self.free_files {
            Some(files) => write!(f, " and {files} files free"),
            None => write!(f, " free"),
        }
    }
}
