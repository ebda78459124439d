//! The disk that a guest keeps unpacked images on: a file without a name, which is gone with the VM
//! however that ends.
//!
//! It is empty but for the magic. What the guest writes there it encrypts and authenticates itself.
//! `share` counts the disks of living VMs.

mod share;

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use config_image::Magic;
use rustix::fs::{Mode, OFlags, fstatfs, fstatvfs, ftruncate, open, openat};
use rustix::io::Errno;

use crate::disk::{Device, pass_on};
use crate::host_file::{FileError, FileFault, require_administered};
use crate::settings::Scratch;

/// The disk's serial, its device id and the name of its block node.
pub(crate) const NAME: &str = "imagepuller-scratch";
const _: () = assert!(NAME.len() <= 20);

/// The id of the fd set that carries it; see [`crate::disk`].
const FD_SET: u32 = 1_000_001;

/// What `statfs(2)` calls file systems that are nothing but memory.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Why a sandbox gets no scratch disk, as a fragment that fits after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScratchError {
    /// A file or directory cannot be used.
    #[error("make a scratch disk: {0}")]
    File(#[from] FileError),
    /// The directory is in the node's memory, of which a guest is to need less.
    #[error("make a scratch disk: {} is in memory", .0.display())]
    InMemory(PathBuf),
    /// The file system has no files without a name.
    #[error("make a scratch disk: the file system of {} has no O_TMPFILE", .0.display())]
    NoTmpfile(PathBuf),
    /// The file system has no room for it now.
    #[error(
        "make a scratch disk of {wanted_bytes} bytes: {} has {free_bytes} bytes free",
        directory.display()
    )]
    NoRoom {
        /// The directory.
        directory: PathBuf,
        /// How large the disk is.
        wanted_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// Living sandboxes have what the settings allow.
    #[error(
        "make a scratch disk of {wanted_bytes} bytes: other sandboxes have {used_bytes} of the \
        {max_bytes} bytes of scratch.max-total"
    )]
    Total {
        /// How large the disk is.
        wanted_bytes: u64,
        /// The sizes of all others.
        used_bytes: u64,
        /// The most of all together.
        max_bytes: u64,
    },
}

impl ScratchError {
    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::File(error) => error.remedy(),
            Self::InMemory(_) | Self::NoTmpfile(_) => {
                "set scratch.directory in the wrapper's settings to a directory on ext4, xfs or btrfs"
            }
            Self::NoRoom { .. } => {
                "make room there, or set scratch.size or scratch.directory in the wrapper's settings"
            }
            Self::Total { .. } => "wait for another sandbox to end, or raise scratch.max-total",
        }
    }
}

/// Makes the disk that the settings ask for as far as that can be done without taking anything from
/// sandboxes that start meanwhile; gives its size in bytes, or `None` where the settings ask for
/// none.
///
/// # Errors
///
/// What [`ScratchDisk::make`] would fail with now.
pub fn rehearse(settings: &Scratch, run_root: &Path) -> Result<Option<u64>, ScratchError> {
    let Some(size) = settings.size else {
        return Ok(None);
    };
    let bytes = size.bytes();
    share::look(run_root, bytes, settings.max_total.map(|max| max.bytes()))?;
    empty(&settings.directory, bytes)?;
    Ok(Some(bytes))
}

/// A scratch disk, ready to be handed to QEMU.
#[derive(Debug)]
pub struct ScratchDisk {
    file: File,
    share: File,
    device: Device,
}

impl ScratchDisk {
    /// Makes the disk that the settings ask for, which counts until the last process with its
    /// descriptors ends; `None` where they ask for none.
    ///
    /// # Errors
    ///
    /// [`ScratchError`].
    pub fn make(
        settings: &Scratch,
        run_root: &Path,
        device: Device,
    ) -> Result<Option<Self>, ScratchError> {
        let Some(size) = settings.size else {
            return Ok(None);
        };
        let bytes = size.bytes();
        let max_total = settings.max_total.map(|max| max.bytes());
        let share = share::take(run_root, bytes, max_total)?;
        let file = empty(&settings.directory, bytes)?;
        Ok(Some(Self {
            file,
            share,
            device,
        }))
    }

    /// The arguments that attach the disk; they belong behind those of the configuration's.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let descriptor = self.file.as_raw_fd();
        let node = format!(
            "driver=raw,node-name={NAME},file.driver=file,file.filename=/dev/fdset/{FD_SET}"
        );
        [
            "-add-fd".to_owned(),
            format!("fd={descriptor},set={FD_SET},opaque={NAME}"),
            "-blockdev".to_owned(),
            node,
            "-device".to_owned(),
            // By itself QEMU would stop the VM where the node has no room.
            self.device.properties(NAME, ",werror=report,rerror=report"),
        ]
        .map(OsString::from)
        .into()
    }

    /// Lets the disk's two descriptors pass an `exec`: QEMU uses the one, and holds the share by
    /// having the other.
    ///
    /// # Errors
    ///
    /// Those of `fcntl(2)`.
    pub fn keep_across_exec(&self) -> io::Result<()> {
        pass_on(&self.file)?;
        Ok(pass_on(&self.share)?)
    }
}

/// A file without a name in `directory`, of `bytes` bytes that take no room yet.
fn empty(directory: &Path, bytes: u64) -> Result<File, ScratchError> {
    let failed = |fault: FileFault| ScratchError::from(fault.at(directory));
    let io_failed = |error: io::Error| failed(error.into());
    let at = open_directory(directory).map_err(failed)?;
    let statfs = fstatfs(&at).map_err(|errno| io_failed(errno.into()))?;
    if IN_MEMORY.contains(&statfs.f_type) {
        return Err(ScratchError::InMemory(directory.into()));
    }
    let room = fstatvfs(&at).map_err(|errno| io_failed(errno.into()))?;
    let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
    if free_bytes < bytes {
        return Err(ScratchError::NoRoom {
            directory: directory.into(),
            wanted_bytes: bytes,
            free_bytes,
        });
    }
    // EXCL: nobody can give it a name later.
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    let file = match openat(&at, ".", flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            return Err(ScratchError::NoTmpfile(directory.into()));
        }
        Err(errno) => return Err(io_failed(errno.into())),
    };
    ftruncate(&file, bytes).map_err(|errno| io_failed(errno.into()))?;
    file.write_all_at(&Magic::SCRATCH.bytes(), 0)
        .map_err(io_failed)?;
    Ok(file)
}

/// Opens a directory that only its owner looks into; makes it where it is missing.
fn open_directory(path: &Path) -> Result<File, FileFault> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = File::from(open(path, flags, Mode::empty())?);
    require_administered(&directory.metadata()?)?;
    Ok(directory)
}

#[cfg(test)]
mod tests;
