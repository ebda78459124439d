//! A copy of accepted initdata in the guest's memory, for an agent that reads initdata itself.
//!
//! Such an agent hands initdata to the attestation agent only if it finds it on a disk, and the
//! host can change a disk between this program's look at it and the agent's. So the agent finds a
//! read-only loop device instead. Device and name are there before the sandbox, which has no room
//! for that, and the device is blank until initdata is accepted.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Seek as _, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use config_image::{HEADER_BYTES, MAX_GZIP_BYTES, Magic, SECTOR_BYTES, encode};
use linux_sys::{loop_device, memfd};
use rustix::fs::{Advice, fadvise};

use crate::Error;
use crate::paths::Paths;

/// A link to the device; the agent looks at names that begin with `vd` or `sd`. No disk has this
/// one.
const LINK: &str = "vdinitdata";

/// What the kernel calls the memory.
const MEMORY: &CStr = c"initdata";

/// Room for any image; what is not written takes no memory.
const SIZE: usize = (HEADER_BYTES + MAX_GZIP_BYTES).next_multiple_of(SECTOR_BYTES);

/// How long the device gets to show what was written: until whoever reads it just now has done so.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long after one look at it the next one comes.
const PAUSE: Duration = Duration::from_millis(20);

/// The device, still blank.
#[derive(Debug)]
pub struct Copy {
    memory: File,
    device: PathBuf,
    link: PathBuf,
}

impl Copy {
    /// Makes the device, in the place of an earlier run's.
    ///
    /// # Errors
    ///
    /// [`Error::Copy`], most likely because the kernel has no loop devices.
    pub fn prepare(paths: &Paths) -> Result<Self, Error> {
        make(&paths.dev.join(LINK)).map_err(Error::Copy)
    }

    /// Lets the agent find `document`, and looks whether it will.
    ///
    /// # Errors
    ///
    /// [`Error::Copy`]; then no agent finds anything, neither now nor later.
    pub fn fill(&self, document: &[u8]) -> Result<(), Error> {
        let image = encode(Magic::INITDATA, document).map_err(io::Error::other);
        let filled = image.and_then(|image| {
            let written = self.write(&image).and_then(|()| self.shows(&image));
            written.inspect_err(|_| self.blank(image.len()))
        });
        filled.map_err(Error::Copy)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut memory = &self.memory;
        memory.rewind()?;
        memory.write_all(bytes)
    }

    /// Waits until the device shows `image`.
    ///
    /// Whoever opens a new block device reads it, udev for one, and what was read while it was
    /// blank stays in the page cache for as long as anybody has it open.
    fn shows(&self, image: &[u8]) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        let device = File::open(&self.device)?;
        let mut found = vec![0; image.len()];
        loop {
            fadvise(&device, 0, None, Advice::DontNeed)?;
            device.read_exact_at(&mut found, 0)?;
            if found == image {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(io::Error::other("the loop device does not show it"));
            }
            sleep(PAUSE);
        }
    }

    /// Takes everything back: what is not accepted must not be found, and a page cache that is
    /// stale now may not be so later.
    fn blank(&self, length: usize) {
        let _ = self.write(&vec![0; length]);
        let _ = fs::remove_file(&self.link);
    }
}

fn make(link: &Path) -> io::Result<Copy> {
    if let Ok(device) = fs::read_link(link) {
        fs::remove_file(link)?;
        // Where it is unbound already there is nothing left to do.
        let _ = loop_device::unbind(&device);
    }
    let (memory, reader) = memfd::blank(MEMORY, SIZE as u64)?;
    let device = loop_device::bind_read_only(&reader)?;
    symlink(&device, link)?;
    Ok(Copy { memory, device, link: link.to_owned() })
}
