//! The transport `file`: images of sandboxes as files below `/run`, and their removal.
//!
//! They are where Kata itself keeps the initdata of a sandbox:
//! `/run/kata-containers/shared/initdata/SANDBOX/`. Kata's own file there has another name and is
//! left alone, and so is the directory while it is not empty.

mod in_place;
mod kept;
pub mod record;

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, unlinkat};
use rustix::io::Errno;

use crate::host_file::{FileError, FileFault};
use crate::image_file::{self, Keep, TEMPORARY_PREFIX};
use crate::run_directory::{Missing, open_run_root, step};
use crate::sandbox_id::SandboxId;

pub use in_place::{InPlace, OpenError};
pub use kept::{Kept, all, remove_all, remove_released, remove_unfinished};

/// The directories from `/run` to those of the sandboxes.
const PARENTS: [&str; 3] = ["kata-containers", "shared", "initdata"];

/// The name of the configuration's image in its sandbox's directory.
pub const FILE_NAME: &str = "imagepuller.img";

/// The most sandboxes that a sweep looks at, far more than a node can run. Free to change.
const MAX_SANDBOXES: usize = 100_000;

/// The mode of the parents where they are made: other files of Kata are below them.
const PARENT_MODE: Mode = Mode::from_raw_mode(0o755);

/// The image of a sandbox cannot be put, found, changed or removed.
#[derive(Debug, thiserror::Error)]
#[error("keep the configuration image at {0}")]
pub struct SharedImageError(pub FileError);

impl SharedImageError {
    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        self.0.remedy()
    }
}

/// Where the image of a sandbox is.
#[must_use]
pub fn path(run_root: &Path, sandbox: &SandboxId) -> PathBuf {
    directory(run_root, sandbox).join(FILE_NAME)
}

pub(crate) fn directory(run_root: &Path, sandbox: &SandboxId) -> PathBuf {
    parent(run_root).join(sandbox.as_str())
}

pub(crate) fn parent(run_root: &Path) -> PathBuf {
    PARENTS.iter().fold(run_root.into(), |path, name| path.join(name))
}

/// Puts the image of a sandbox into its file, mode 0600, entirely or not at all, and returns the
/// path.
///
/// Directories that are missing are made; the sandbox's gets mode 0700. No directory below
/// `run_root` may be a link, belong to another user or be writable for others: a user who can
/// exchange one can read the credentials.
///
/// # Errors
///
/// [`SharedImageError`].
pub fn put(
    run_root: &Path,
    sandbox: &SandboxId,
    image: &[u8],
) -> Result<PathBuf, SharedImageError> {
    let directory = make_sandbox(run_root, sandbox)?;
    let path = path(run_root, sandbox);
    image_file::replace(&directory, FILE_NAME.as_ref(), image, Keep::UntilReboot)
        .map_err(|fault| failed(&path, fault))?;
    Ok(path)
}

/// Removes the image of a sandbox and its record, what a killed process left, and the directory if
/// it is empty then. Says whether there was any of the first two.
///
/// # Errors
///
/// [`SharedImageError`].
pub fn remove(run_root: &Path, sandbox: &SandboxId) -> Result<bool, SharedImageError> {
    remove_files(run_root, sandbox, &[FILE_NAME, record::NAME])
}

/// Removes the files `names` of a sandbox, what a killed process left, and the directory if it is
/// empty then. Says whether one of them was there.
fn remove_files(
    run_root: &Path,
    sandbox: &SandboxId,
    files: &[&str],
) -> Result<bool, SharedImageError> {
    let path = directory(run_root, sandbox);
    let Some((directory, parents)) = open_sandbox(run_root, sandbox)? else {
        return Ok(false);
    };
    let mut names = names(&directory).map_err(|fault| failed(&path, fault))?;
    // Who is killed half-way leaves what tells that the sandbox is gone.
    names.sort_by_key(|name| name == record::NAME);
    let (mut removed, mut fault) = (false, None);
    for name in names.iter().map(String::as_str) {
        let is_file = files.contains(&name);
        if is_file || name.starts_with(TEMPORARY_PREFIX) {
            // What cannot be removed does not keep the rest.
            match unlink(&directory, name) {
                Ok(was_there) => removed |= was_there && is_file,
                Err(errno) => fault = fault.or(Some(errno)),
            }
        }
    }
    if let Some(errno) = fault {
        return Err(failed(&path, errno));
    }
    remove_if_empty(&parents, sandbox).map_err(|errno| failed(&path, errno))?;
    Ok(removed)
}

fn remove_if_empty(parents: &OwnedFd, sandbox: &SandboxId) -> Result<(), Errno> {
    match unlinkat(parents, sandbox.as_str(), AtFlags::REMOVEDIR) {
        // Kata's own files, and others.
        Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Opens the directory of a sandbox, made where it is missing.
fn make_sandbox(run_root: &Path, sandbox: &SandboxId) -> Result<OwnedFd, SharedImageError> {
    let parents = open_parents(run_root, Missing::Make(PARENT_MODE))?;
    let path = directory(run_root, sandbox);
    let made = step(&parents, sandbox.as_str(), Missing::Make(Mode::RWXU));
    made.map_err(|fault| failed(&path, fault))
}

/// Opens the directory of a sandbox and the one above it; `None` where there is none.
fn open_sandbox(
    run_root: &Path,
    sandbox: &SandboxId,
) -> Result<Option<(OwnedFd, OwnedFd)>, SharedImageError> {
    let path = directory(run_root, sandbox);
    let opened = open_parents(run_root, Missing::Refuse).and_then(|parents| {
        let directory = step(&parents, sandbox.as_str(), Missing::Refuse);
        Ok((directory.map_err(|fault| failed(&path, fault))?, parents))
    });
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.0.fault.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

fn open_parents(run_root: &Path, missing: Missing) -> Result<OwnedFd, SharedImageError> {
    let root = open_run_root(run_root).map_err(|fault| failed(run_root, fault))?;
    let mut path = run_root.to_owned();
    PARENTS.into_iter().try_fold(root, |above, name| {
        path.push(name);
        step(&above, name, missing).map_err(|fault| failed(&path, fault))
    })
}

fn names(directory: &OwnedFd) -> Result<Vec<String>, FileFault> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        if names.len() == MAX_SANDBOXES {
            return Err(FileFault::TooManyEntries(MAX_SANDBOXES));
        }
        let entry = entry?;
        // Neither ids nor temporary files have other names.
        if let Ok(name) = entry.file_name().to_str() {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Removes a file; says whether it was there.
fn unlink(directory: &OwnedFd, name: impl AsRef<OsStr>) -> Result<bool, Errno> {
    match unlinkat(directory, name.as_ref(), AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn failed(path: &Path, fault: impl Into<FileFault>) -> SharedImageError {
    SharedImageError(fault.into().at(path))
}

#[cfg(test)]
mod tests;
