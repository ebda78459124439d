//! What sandboxes have kept: our images, and Kata's initdata beside them.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, openat};
use rustix::io::Errno;

use super::{
    FILE_NAME, Missing, SharedImageError, directory, failed, names, open_parents, open_sandbox,
    parent, record, remove_files,
};
use crate::host_file::FileFault;
use crate::image_file::TEMPORARY_PREFIX;
use crate::run_directory::DIRECTORY;
use crate::sandbox_id::SandboxId;

/// What goes with a sandbox that is gone. The last two are Kata's initdata: runtime-rs never
/// removes its own, the Go runtime not where its caller gave up.
const FILES: [&str; 4] = [FILE_NAME, record::NAME, "initdata.image", "data.img"];

/// A sandbox that has such files, or what a killed process left of one.
#[derive(Debug)]
pub struct Kept {
    /// Whose.
    pub sandbox: SandboxId,
    /// How long ago the newest of its files was written, `None` where the clock was set back since;
    /// or why that cannot be seen, [`SharedImageError`].
    pub age: Result<Option<Duration>, SharedImageError>,
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

/// [`remove_all`] where the sandbox's process has [let go](record::Life::Released) of its record;
/// says whether it has. Meanwhile nobody else can take the record for a living sandbox's.
///
/// # Errors
///
/// [`SharedImageError`].
pub fn remove_released(run_root: &Path, sandbox: &SandboxId) -> Result<bool, SharedImageError> {
    if !record::read(run_root, sandbox)?.is_some_and(|record| record.held) {
        return Ok(false);
    }
    let Some(_lock) = record::take(run_root, sandbox)? else {
        return Ok(false);
    };
    remove_all(run_root, sandbox)?;
    Ok(true)
}

/// Removes what a killed process left of a sandbox that never had anything else; says whether that
/// is so.
///
/// # Errors
///
/// [`SharedImageError`].
pub fn remove_unfinished(run_root: &Path, sandbox: &SandboxId) -> Result<bool, SharedImageError> {
    let path = directory(run_root, sandbox);
    let Some((opened, _)) = open_sandbox(run_root, sandbox)? else {
        return Ok(false);
    };
    let names = names(&opened).map_err(|fault| failed(&path, fault))?;
    let is_unfinished =
        |name: &String| [".", ".."].contains(&name.as_str()) || name.starts_with(TEMPORARY_PREFIX);
    if !names.iter().all(is_unfinished) {
        return Ok(false);
    }
    remove_files(run_root, sandbox, &[])?;
    Ok(true)
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
        if FILES.contains(&name.as_str()) || name.starts_with(TEMPORARY_PREFIX) {
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
