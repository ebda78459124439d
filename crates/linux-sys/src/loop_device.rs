//! A read-only block device over a file, removed by the kernel with its last user.
//!
//! Source: Linux `include/uapi/linux/loop.h`; `LOOP_CONFIGURE` is in Linux since 5.8.

#![expect(unsafe_code, reason = "an ioctl of a device driver is unsafe to call")]

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::ptr::null;

use linux_raw_sys::loop_device as uapi;

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
        let (device, path) = bind(backing, uapi::LO_FLAGS_AUTOCLEAR as u32)?;
        Ok(Self { _device: device, path })
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
    Ok(bind(backing, 0)?.1)
}

/// Takes the file away from the loop device at `path`.
///
/// # Errors
///
/// Those of `open(2)` and `loop(4)`: `ENXIO` where it has none.
pub fn unbind(path: &Path) -> io::Result<()> {
    ask(&File::open(path)?, uapi::LOOP_CLR_FD, None)?;
    Ok(())
}

/// The device, open for reading, and its node.
fn bind(backing: &impl AsFd, flags: u32) -> io::Result<(File, PathBuf)> {
    let control = File::options().read(true).write(true).open("/dev/loop-control")?;
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut config: uapi::loop_config = unsafe { std::mem::zeroed() };
    config.fd = backing.as_fd().as_raw_fd().cast_unsigned();
    config.info.lo_flags = uapi::LO_FLAGS_READ_ONLY as u32 | flags;
    for _ in 0..MAX_ATTEMPTS {
        let free = ask(&control, uapi::LOOP_CTL_GET_FREE, None)?;
        let path = PathBuf::from(format!("/dev/loop{free}"));
        let device = File::open(&path)?;
        match ask(&device, uapi::LOOP_CONFIGURE, Some(&config)) {
            Ok(_) => return Ok((device, path)),
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::ResourceBusy.into())
}

/// Returns the answer to one of the three ioctls, of which only `LOOP_CONFIGURE` has a `config`.
fn ask(device: &File, request: u32, config: Option<&uapi::loop_config>) -> io::Result<i32> {
    let config = config.map_or(null(), std::ptr::from_ref);
    // SAFETY: LOOP_CONFIGURE reads a `struct loop_config`, which lives until the call returns, or
    // refuses a null; LOOP_CTL_GET_FREE and LOOP_CLR_FD have no argument.
    match unsafe { libc::ioctl(device.as_raw_fd(), request.into(), config) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
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
