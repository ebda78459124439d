//! Directories of root alone below `/run`.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, fchmod, mkdirat, open, openat};
use rustix::io::Errno;

use crate::host_file::{FileFault, require_administered};

/// The directory below `/run` of what one sandbox leaves to the next.
pub(crate) const PARENT: &str = "kata-configdev";

pub(crate) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What to do about a directory that is not there.
#[derive(Clone, Copy)]
pub(crate) enum Missing {
    /// With this mode.
    Make(Mode),
    Refuse,
}

/// Opens the directory `name` below that of this program in `run_root`, and makes it, mode 0700,
/// where it is missing and `make` says so. `None` where it cannot be had, or where somebody else
/// than root may change it or that of this program.
pub(crate) fn open_below(run_root: &Path, name: &str, make: bool) -> Option<OwnedFd> {
    let missing = |mode| match make {
        true => Missing::Make(Mode::from_raw_mode(mode)),
        false => Missing::Refuse,
    };
    let parent = step(&open_run_root(run_root).ok()?, PARENT, missing(0o755)).ok()?;
    step(&parent, name, missing(0o700)).ok()
}

/// Opens the administrator's `run_root`; it may be a link, as `/var/run` is.
pub(crate) fn open_run_root(run_root: &Path) -> Result<OwnedFd, FileFault> {
    Ok(open(run_root, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty())?)
}

/// Opens the directory `name` in `above`, no link, which nobody else may change.
pub(crate) fn step(above: &OwnedFd, name: &str, missing: Missing) -> Result<OwnedFd, FileFault> {
    let mut made = None;
    if let Missing::Make(mode) = missing {
        // Nobody but the owner, until the mode is as it should be whatever the umask is.
        made = match mkdirat(above, name, Mode::RWXU) {
            Ok(()) => Some(mode),
            Err(Errno::EXIST) => None,
            Err(errno) => return Err(errno.into()),
        };
    }
    let directory = openat(above, name, DIRECTORY, Mode::empty())?;
    if let Some(mode) = made {
        fchmod(&directory, mode)?;
    }
    let directory = File::from(directory);
    require_administered(&directory.metadata()?)?;
    Ok(directory.into())
}
