//! The shares of living VMs in what the node has for scratch disks.
//!
//! ```text
//! RUN-ROOT/kata-configdev/scratch/     0700
//!     lock                             held while shares are counted and taken
//!     N                                a share: its size in bytes, as a decimal number
//! ```
//!
//! A share counts while its file is locked. QEMU inherits the descriptor that locks it, so the
//! kernel gives the share back, however QEMU ends.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{ScratchError, open_directory};
use crate::host_file::FileFault;

/// Where the shares are below the run root.
const DIRECTORY: &str = "kata-configdev/scratch";

/// How often the lock is asked for, and how long after; it is held for milliseconds.
const MAX_TRIES: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);

/// The longest text of a share: a number of 64 bits.
const MAX_SHARE_BYTES: u64 = 20;

/// Takes a share of `wanted_bytes`. It is given back when the last copy of the descriptor closes.
///
/// # Errors
///
/// [`ScratchError::Total`] where that makes more than `max_bytes`; [`ScratchError::File`].
pub(super) fn take(
    run_root: &Path,
    wanted_bytes: u64,
    max_bytes: Option<u64>,
) -> Result<File, ScratchError> {
    let shares = Shares::open(run_root)?;
    shares.require(wanted_bytes, max_bytes)?;
    write(&shares.directory, wanted_bytes).map_err(|fault| shares.failed(fault))
}

/// Whether a share of `wanted_bytes` could be taken now.
///
/// # Errors
///
/// As those of [`take`].
pub(super) fn look(
    run_root: &Path,
    wanted_bytes: u64,
    max_bytes: Option<u64>,
) -> Result<(), ScratchError> {
    Shares::open(run_root)?.require(wanted_bytes, max_bytes)
}

/// The directory of the shares, which nobody else changes meanwhile.
struct Shares {
    directory: PathBuf,
    _alone: File,
}

impl Shares {
    fn open(run_root: &Path) -> Result<Self, ScratchError> {
        let directory = run_root.join(DIRECTORY);
        let failed = |fault: FileFault| ScratchError::from(fault.at(&directory));
        open_directory(&directory).map_err(failed)?;
        let _alone = lock(&directory.join("lock")).map_err(failed)?;
        Ok(Self { directory, _alone })
    }

    fn require(&self, wanted_bytes: u64, max_bytes: Option<u64>) -> Result<(), ScratchError> {
        let used_bytes = count(&self.directory).map_err(|fault| self.failed(fault))?;
        match max_bytes {
            Some(max_bytes) if used_bytes.saturating_add(wanted_bytes) > max_bytes => {
                Err(ScratchError::Total {
                    wanted_bytes,
                    used_bytes,
                    max_bytes,
                })
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, fault: FileFault) -> ScratchError {
        fault.at(&self.directory).into()
    }
}

fn lock(path: &Path) -> Result<File, FileFault> {
    let mut options = OpenOptions::new();
    let lock = options.create(true).append(true).mode(0o600).open(path)?;
    for _ in 0..MAX_TRIES {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => sleep(PAUSE),
            other => return Ok(other.map(|()| lock)?),
        }
    }
    Err(FileFault::Io(Errno::WOULDBLOCK.into()))
}

/// The bytes of all shares that are held; removes the others.
fn count(directory: &Path) -> Result<u64, FileFault> {
    let mut bytes = 0u64;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if number(&path).is_none() {
            continue;
        }
        let share = File::open(&path)?;
        match flock(&share, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => fs::remove_file(&path)?,
            Err(Errno::WOULDBLOCK) => bytes = bytes.saturating_add(read(&share)?),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(bytes)
}

/// The number that a share has as its name.
fn number(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.parse().ok()
}

fn read(share: &File) -> Result<u64, FileFault> {
    let mut text = String::new();
    share.take(MAX_SHARE_BYTES).read_to_string(&mut text)?;
    // Written before it was let go of, by this program.
    text.parse()
        .map_err(|_| FileFault::Io(ErrorKind::InvalidData.into()))
}

fn write(directory: &Path, bytes: u64) -> Result<File, FileFault> {
    for number in 0..u32::MAX {
        let path = directory.join(number.to_string());
        let mut options = OpenOptions::new();
        let mut share = match options.create_new(true).write(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            opened => opened?,
        };
        flock(&share, FlockOperation::NonBlockingLockExclusive)?;
        write!(share, "{bytes}")?;
        return Ok(share);
    }
    Err(FileFault::Io(ErrorKind::AlreadyExists.into()))
}
