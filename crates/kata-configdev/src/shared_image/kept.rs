//! What sandboxes have kept: our images, and Kata's initdata beside them.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps, UTIME_OMIT, openat, utimensat};
use rustix::io::Errno;

use super::{
    DIRECTORY, FILE_NAME, Missing, SharedImageError, directory, failed, is_further, names,
    open_parents, parent, remove_files, socket,
};
use crate::host_file::FileFault;
use crate::image_file::TEMPORARY_PREFIX;
use crate::sandbox_id::SandboxId;

/// What goes with a sandbox that is gone. The last two are Kata's initdata: runtime-rs never
/// removes its own, the Go runtime not where its caller gave up.
const FILES: [&str; 4] = [FILE_NAME, socket::NAME, "initdata.image", "data.img"];

/// A sandbox that has such files, or what a killed process left of one.
#[derive(Debug)]
pub struct Kept {
    /// Whose.
    pub sandbox: SandboxId,
    /// How long ago the newest of its files was written, `None` where the clock was set back since;
    /// or why that cannot be seen, [`SharedImageError`].
    pub age: Result<Option<Duration>, SharedImageError>,
}

/// Dates the image `path` back as far as possible, so that `sweep` waits for no age.
///
/// For a process that has the sandbox's id in its arguments and becomes the hypervisor: there is no
/// moment in which the image is there and nothing shows that its sandbox is.
pub fn show_from_start(path: &Path) {
    let omitted = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_OMIT,
    };
    let times = Timestamps {
        last_access: omitted,
        last_modification: Timespec::default(),
    };
    // Without it the image only stays a little longer.
    let _ = utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW);
}

/// The sandboxes that have kept something, by id, and those that cannot be looked at. Directories
/// of others, whose names are no ids or that have nothing of this, are not.
///
/// # Errors
///
/// [`SharedImageError`] where the sandboxes cannot be listed.
pub fn all(run_root: &Path) -> Result<Vec<Kept>, SharedImageError> {
    let parents = match open_parents(run_root, Missing::Refuse) {
        Ok(parents) => parents,
        Err(error) if error.0.fault.is_absent() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = names(&parents).map_err(|fault| failed(&parent(run_root), fault))?;
    let mut kept: Vec<Kept> = names
        .iter()
        .filter_map(|name| SandboxId::parse(name).ok())
        .filter_map(|sandbox| {
            let path = directory(run_root, &sandbox);
            let written = last_written(&parents, sandbox.as_str(), &path);
            let age = match written {
                Ok(written) => Ok(written?.elapsed().ok()),
                Err(fault) => Err(failed(&path, fault)),
            };
            Some(Kept { sandbox, age })
        })
        .collect();
    kept.sort_by(|one, other| one.sandbox.cmp(&other.sandbox));
    Ok(kept)
}

/// Removes all that a sandbox has kept, and its directory if it is empty then.
///
/// # Errors
///
/// [`SharedImageError`].
pub fn remove_all(run_root: &Path, sandbox: &SandboxId) -> Result<bool, SharedImageError> {
    remove_files(run_root, sandbox, &FILES)
}

/// When the newest of its files in the directory `name` of `parents`, which is at `path`, was
/// written; `None` where there is none.
fn last_written(
    parents: &std::os::fd::OwnedFd,
    name: &str,
    path: &Path,
) -> Result<Option<SystemTime>, FileFault> {
    let directory = match openat(parents, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => directory,
        // Its sandbox ended meanwhile.
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let mut newest = None;
    for name in names(&directory)? {
        if FILES.contains(&name.as_str()) || is_further(&name) || name.starts_with(TEMPORARY_PREFIX)
        {
            match std::fs::symlink_metadata(path.join(name)).and_then(|found| found.modified()) {
                Ok(written) => newest = newest.max(Some(written)),
                // A temporary file that became the image has its time.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(newest)
}
