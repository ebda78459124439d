//! Directories of root alone below `/run`, for what one sandbox leaves to the next.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
use rustix::io::Errno;

use crate::host_file::require_administered;

/// The directory below `/run` of all of them.
pub(crate) const PARENT: &str = "kata-configdev";

/// Opens the directory `name` below that of this program in `run_root`, and makes it, mode 0700,
/// where it is missing and `make` says so. `None` where it cannot be had, or where somebody else
/// than root may change it or that of this program.
pub(crate) fn open_below(run_root: &Path, name: &str, make: bool) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = open(run_root, flags, Mode::empty()).ok()?;
    for (name, mode) in [(PARENT, 0o755), (name, 0o700)] {
        if make {
            match mkdirat(&directory, name, Mode::from_raw_mode(mode)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(_) => return None,
            }
        }
        directory = openat(&directory, name, flags | OFlags::NOFOLLOW, Mode::empty()).ok()?;
        let opened = File::from(directory);
        require_administered(&opened.metadata().ok()?).ok()?;
        directory = opened.into();
    }
    Some(directory)
}
