//! New content for the image of a running sandbox, written into the very file that the hypervisor
//! has open.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config_image::{HEADER_BYTES, Magic, SECTOR_BYTES};
use linux_sys::lock;
use rustix::fs::{Mode, OFlags, fchmod, openat};
use rustix::io::Errno;
use zeroize::Zeroizing;

use super::{FILE_NAME, SharedImageError, failed, open_sandbox, path};
use crate::capacity::MAX_CAPACITY_BYTES;
use crate::host_file::{FileFault, require_administered};
use crate::sandbox_id::SandboxId;

/// How long another update is waited for; one takes milliseconds.
const LOCK_WITHIN: Duration = Duration::from_secs(10);

/// Where the length of the gzip stream stands.
const LENGTH_OFFSET: u64 = 8;

/// Why an image is not opened for an update.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not what can be updated.
    #[error(transparent)]
    Image(#[from] SharedImageError),
    /// Another update holds the lock.
    #[error(
        "update {}: another update is still running after {} s",
        path.display(),
        within.as_secs()
    )]
    Busy {
        /// The image.
        path: PathBuf,
        /// How long this update waited.
        within: Duration,
    },
}

impl OpenError {
    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Image(error) => error.remedy(),
            Self::Busy { .. } => "try again, or end the other update",
        }
    }
}

/// The image of a sandbox, open and locked for an update.
#[derive(Debug)]
pub struct InPlace {
    file: File,
    path: PathBuf,
    capacity: usize,
}

impl InPlace {
    /// Opens and locks the image; `None` where the sandbox has none. Another update
    /// is waited for, but not for long.
    ///
    /// # Errors
    ///
    /// [`OpenError::Image`] where it, or a directory on the way, is a link, of another user, or no
    /// image; [`OpenError::Busy`].
    pub fn open(run_root: &Path, sandbox: &SandboxId) -> Result<Option<Self>, OpenError> {
        Self::open_within(run_root, sandbox, LOCK_WITHIN)
    }

    fn open_within(
        run_root: &Path,
        sandbox: &SandboxId,
        within: Duration,
    ) -> Result<Option<Self>, OpenError> {
        let Some((directory, _)) = open_sandbox(run_root, sandbox)? else {
            return Ok(None);
        };
        let path = path(run_root, sandbox);
        // A FIFO in its place must not hang this.
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&directory, FILE_NAME, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(&path, errno).into()),
        };
        let metadata = file.metadata().map_err(|error| failed(&path, error))?;
        if !metadata.is_file() {
            return Err(failed(&path, FileFault::NotRegular).into());
        }
        require_administered(&metadata).map_err(|fault| failed(&path, fault))?;
        if !lock::exclusive(&file, within).map_err(|error| failed(&path, error))? {
            return Err(OpenError::Busy { path, within });
        }
        // While the lock was waited for, the name may have gone to another file, of which no
        // hypervisor knows this one.
        let is_named = lock::is_named(&file, &directory, FILE_NAME);
        if !is_named.map_err(|error| failed(&path, error))? {
            return Err(failed(&path, FileFault::Replaced).into());
        }
        let capacity = capacity(&file).map_err(|fault| failed(&path, fault))?;
        Ok(Some(Self { file, path, capacity }))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in bytes. The hypervisor has told it to the guest, so it cannot change.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// The bytes that the guest reads now.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn read(&self) -> io::Result<Zeroizing<Vec<u8>>> {
        let mut image = Zeroizing::new(vec![0; self.capacity]);
        self.file.read_exact_at(&mut image, 0)?;
        Ok(image)
    }

    /// Writes `image`, which has exactly [`InPlace::capacity`] bytes. Says whether there was
    /// another one before.
    ///
    /// # Errors
    ///
    /// Those of the file system. The guest refuses what is there then, until a later write
    /// succeeds.
    pub fn write(&self, image: &[u8]) -> io::Result<bool> {
        if image.len() != self.capacity {
            return Err(io::Error::other("another length than the disk's"));
        }
        // The hypervisor has it open; no other process needs to open it.
        fchmod(&self.file, Mode::RUSR | Mode::WUSR)?;
        let before = self.read()?;
        if before.as_slice() == image {
            return Ok(false);
        }
        for (offset, bytes) in steps(image) {
            self.file.write_all_at(bytes, offset)?;
        }
        Ok(true)
    }
}

/// The writes that replace any image by `image`, in their order: each is complete before the next
/// begins.
///
/// A guest may read at any time and takes any time between two reads, and this program may be
/// killed anywhere. What it decodes has to be the old document or the new one:
///
/// 1. The length becomes 0, which every reader refuses. A guest that begins to read from now on
///    gets an error. If this program ends here, that stays so until a later update: the length is
///    the last thing that is written. The magic stays: without it the disk would be no
///    configuration disk, and "none" is an answer (pull anonymously) where "try again" is meant.
/// 2. Everything behind the header: the new stream, and zeroes to the end, so that nothing of a
///    longer old document is left.
/// 3. The new length, eight bytes. A reader that gets only some of them has a smaller length, and a
///    stream that is cut off.
///
/// That leaves readers who got the old header before step 1 and read on later. Theirs is a mixture
/// of old and new sectors, which ends within the old length: where the lengths differ, either the
/// new stream is cut off or bytes follow it; where they do not, the CRC-32 at the end is that of
/// one document and the bytes are not. A guest tries again after each of these.
fn steps(image: &[u8]) -> [(u64, &[u8]); 3] {
    const NO_LENGTH: [u8; 8] = [0; 8];
    let (header, behind) = image.split_at(HEADER_BYTES.min(image.len()));
    let length = header.get(LENGTH_OFFSET as usize..).unwrap_or_default();
    [(LENGTH_OFFSET, &NO_LENGTH), (HEADER_BYTES as u64, behind), (LENGTH_OFFSET, length)]
}

/// The file's size, where it can be an image: of whole sectors, within the limit, with the magic.
/// Its length may be 0, which a killed update left behind.
fn capacity(file: &File) -> Result<usize, FileFault> {
    let size = usize::try_from(file.metadata()?.len())
        .ok()
        .filter(|size| (SECTOR_BYTES..=MAX_CAPACITY_BYTES).contains(size))
        .filter(|size| size.is_multiple_of(SECTOR_BYTES))
        .ok_or(FileFault::NotImage)?;
    let mut magic = [0; 8];
    file.read_exact_at(&mut magic, 0)?;
    if magic == Magic::IMAGEPULLER.bytes() { Ok(size) } else { Err(FileFault::NotImage) }
}

#[cfg(test)]
mod tests;
