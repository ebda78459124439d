//! A copy of accepted initdata in the guest's memory, for an agent that reads initdata itself.
//!
//! Such an agent hands initdata to the attestation agent only if it finds it on a disk, and the
//! host can change a disk between this program's look at it and the agent's. So the agent finds a
//! read-only loop device instead. Device and name are there before the sandbox, which has no room
//! for that, and the device is blank until initdata is accepted.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use config_image::{HEADER_BYTES, MAX_GZIP_BYTES, Magic, SECTOR_BYTES, encode};
use linux_sys::{loop_device, memfd};

use crate::Error;
use crate::paths::Paths;

/// A link to the device; the agent looks at names that begin with `vd` or `sd`. No disk has this
/// one.
const LINK: &str = "vdinitdata";

/// What the kernel calls the memory.
const MEMORY: &CStr = c"initdata";

/// Room for any image; what is not written takes no memory.
const SIZE: usize = (HEADER_BYTES + MAX_GZIP_BYTES).next_multiple_of(SECTOR_BYTES);

/// The device, still blank.
#[derive(Debug)]
pub struct Copy {
    memory: File,
    device: PathBuf,
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
    /// [`Error::Copy`].
    pub fn fill(&self, document: &[u8]) -> Result<(), Error> {
        let image = encode(Magic::INITDATA, document).map_err(io::Error::other);
        image
            .and_then(|image| self.write(&image))
            .map_err(Error::Copy)
    }

    fn write(&self, image: &[u8]) -> io::Result<()> {
        (&self.memory).write_all(image)?;
        let mut found = vec![0; image.len()];
        File::open(&self.device)?.read_exact_at(&mut found, 0)?;
        if found == image {
            return Ok(());
        }
        // Somebody has read the blank device and still has it open.
        Err(io::Error::other("the loop device does not show it"))
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
    Ok(Copy { memory, device })
}
