//! A read-only block device over a file, removed by the kernel with its last user.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use loopdev::LoopControl;
use rustix::io::Errno;

/// How often another loop device is tried where somebody else was faster with the one that was
/// free.
const MAX_ATTEMPTS: u32 = 16;

/// A loop device held open.
///
/// It is auto-clearing: the kernel unbinds it from its file when the last descriptor is closed,
/// this value's or one that another process has of [`LoopDevice::path`]. So dropping the value
/// detaches the device.
#[derive(Debug)]
pub struct LoopDevice {
    /// Only held open.
    _device: File,
    path: PathBuf,
}

impl LoopDevice {
    /// Binds a free loop device to `backing`, a regular or anonymous file opened read-only. The
    /// device refuses writes, since the kernel cannot write to that file, and it needs no other
    /// descriptor of it.
    ///
    /// # Errors
    ///
    /// Those of `/dev/loop-control` and of `loop(4)`; opening either takes root. `EBUSY` where
    /// other programs took every device that was free.
    pub fn attach_read_only(backing: &impl AsFd) -> io::Result<Self> {
        Self::hold(&bind(backing, true)?)
    }

    /// Opens the device again, read-only, before the descriptor that bound it is closed.
    fn hold(device: &loopdev::LoopDevice) -> io::Result<Self> {
        let path = path(device)?;
        let held = File::open(&path)?;
        let metadata = held.metadata()?;
        let same = rustix::fs::major(metadata.rdev()) == device.major()?
            && rustix::fs::minor(metadata.rdev()) == device.minor()?;
        if !metadata.file_type().is_block_device() || !same {
            return Err(io::Error::other("the loop device's node was replaced"));
        }
        Ok(Self { _device: held, path })
    }

    /// The device's node, such as `/dev/loop0`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// As [`LoopDevice::attach_read_only`], for good: the device outlives this process, until
/// [`unbind`]. Returns its node.
///
/// # Errors
///
/// Those of [`LoopDevice::attach_read_only`].
pub fn bind_read_only(backing: &impl AsFd) -> io::Result<PathBuf> {
    path(&bind(backing, false)?)
}

/// Takes the file away from the loop device at `path`.
///
/// # Errors
///
/// Those of `open(2)` and `loop(4)`: `ENXIO` where it has none.
pub fn unbind(path: &Path) -> io::Result<()> {
    loopdev::LoopDevice::open(path)?.detach()
}

fn bind(backing: &impl AsFd, autoclear: bool) -> io::Result<loopdev::LoopDevice> {
    let control = LoopControl::open()?;
    for _ in 0..MAX_ATTEMPTS {
        let device = control.next_free()?;
        let bound = device
            .with()
            .read_only(true)
            .autoclear(autoclear)
            .part_scan(false)
            .attach_fd(backing.as_fd().as_raw_fd());
        match bound {
            Ok(()) => return Ok(device),
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::BUSY.into())
}

fn path(device: &loopdev::LoopDevice) -> io::Result<PathBuf> {
    let path = device.path();
    path.ok_or_else(|| io::Error::other("/proc is not mounted"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::memfd;

    /// The device, or `None` where this machine has none to give, which is a failure where every
    /// test has to run.
    fn attach(content: &[u8]) -> Option<LoopDevice> {
        let image = memfd::sealed(c"loop-test", content).unwrap();
        match LoopDevice::attach_read_only(&image) {
            Ok(device) => Some(device),
            Err(error) => {
                assert!(
                    std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none(),
                    "must not be skipped: {error}"
                );
                eprintln!("skipped: no loop device: {error}");
                None
            }
        }
    }

    fn backing_file(device: &Path) -> Option<String> {
        let name = device.file_name().unwrap().to_str().unwrap();
        std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()
    }

    #[test]
    fn privileged_content_is_readable_and_nothing_can_be_written() {
        let content: Vec<u8> = (0..4096_u32).map(|index| (index % 251) as u8).collect();
        let Some(device) = attach(&content) else {
            return;
        };
        let mut read = Vec::new();
        File::open(device.path()).unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read, content);
        let mut options = File::options();
        if let Ok(mut file) = options.write(true).open(device.path()) {
            let written = file.write_all(&[0; 512]).and_then(|()| file.sync_all());
            assert!(written.is_err(), "a write passed");
        }
        let name = device.path().file_name().unwrap().to_str().unwrap();
        let flag = std::fs::read_to_string(format!("/sys/block/{name}/ro")).unwrap();
        assert_eq!(flag.trim(), "1");
    }

    #[test]
    fn privileged_the_kernel_detaches_with_the_last_descriptor() {
        let Some(device) = attach(&[7; 1024]) else {
            return;
        };
        let path = device.path().to_owned();
        let user = File::open(&path).unwrap();
        drop(device);
        let mut read = [0; 1024];
        std::os::unix::fs::FileExt::read_exact_at(&user, &mut read, 0).unwrap();
        assert_eq!(read, [7; 1024], "somebody else still has it open");
        drop(user);
        // Others may bind the same device again at once, but not to this file. The bound is only
        // against hanging: udev may have the device open for a moment.
        let deadline = Instant::now() + Duration::from_secs(30);
        while backing_file(&path).is_some_and(|file| file.contains("memfd:loop-test"))
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        let left = backing_file(&path).unwrap_or_default();
        assert!(!left.contains("memfd:loop-test"), "{left}");
    }
}
