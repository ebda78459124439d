//! Beside the image of a sandbox: what its document is made of, and whether the sandbox lives.
//!
//! Whoever looks after a node has to know both, and in a container it sees neither the arguments of
//! the node's processes nor what Kata keeps. So the record is a small file without a secret, and
//! the process that has the disk holds a lock on it (`flock(2)`) as long as it lives: the wrapper
//! takes the lock and hands it down to QEMU with its descriptor. The kernel lets go of it however
//! they end, and shows it in every container that sees the file. A record that nobody promised to
//! hold says nothing about life.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use foreign_text::bounded::{if_there, read_in};
use linux_sys::lock;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{
    Missing, SharedImageError, directory, failed, make_sandbox, names, open_parents, open_sandbox,
    parent,
};
use crate::image_file;
use crate::namespace::Namespace;
use crate::sandbox_id::SandboxId;

/// The record's name in its sandbox's directory.
pub const NAME: &str = "imagepuller.json";

/// The longest record: two paths and a namespace, and what JSON makes of them. Free to change.
const MAX_RECORD_BYTES: usize = 64 << 10;

/// What a sandbox's configuration is made of; by default of nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Record {
    /// The document's file on the node; `None` where there is none.
    pub document: Option<PathBuf>,
    /// What the sandbox has as long as that file, of its namespace, is not in its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<PathBuf>,
    /// The pod's namespace, where the choice of the document depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// Whether credentials of the kubelet's plugins are put below it.
    pub providers: bool,
    /// Whether a process holds the lock as long as the sandbox lives.
    pub held: bool,
}

/// The lock on a record, held until this and every copy of the descriptor is closed.
#[derive(Debug)]
pub struct Hold(OwnedFd);

impl AsFd for Hold {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether a sandbox lives, as far as its record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its process holds the lock.
    Held,
    /// Its process is gone.
    Released,
    /// There is no record, or nobody promised to hold it.
    Unknown,
}

/// Puts the record of a sandbox beside its image, and holds it.
///
/// It is locked before it gets its name: nobody sees a record that seems to be released.
///
/// # Errors
///
/// [`SharedImageError`].
pub fn put(
    run_root: &Path,
    sandbox: &SandboxId,
    record: &Record,
) -> Result<Hold, SharedImageError> {
    let directory = make_sandbox(run_root, sandbox)?;
    let path = path(run_root, sandbox);
    let text = serde_json::to_vec(record).map_err(|error| failed(&path, io::Error::from(error)))?;
    image_file::replace_held(&directory, NAME.as_ref(), &text)
        .map(Hold)
        .map_err(|fault| failed(&path, fault))
}

/// Where the record of a sandbox is.
#[must_use]
pub fn path(run_root: &Path, sandbox: &SandboxId) -> PathBuf {
    directory(run_root, sandbox).join(NAME)
}

/// The record of a sandbox; `None` where it has none.
///
/// # Errors
///
/// [`SharedImageError`], also for a record that cannot be understood.
pub fn read(run_root: &Path, sandbox: &SandboxId) -> Result<Option<Record>, SharedImageError> {
    let Some((directory, _)) = open_sandbox(run_root, sandbox)? else {
        return Ok(None);
    };
    let path = path(run_root, sandbox);
    match if_there(read_in(&directory, NAME, MAX_RECORD_BYTES)) {
        Ok(None) => Ok(None),
        Ok(Some(text)) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| failed(&path, io::Error::from(error))),
        Err(error) => Err(failed(&path, io::Error::from(error))),
    }
}

/// Whether the sandbox lives.
///
/// # Errors
///
/// [`SharedImageError`].
pub fn life(run_root: &Path, sandbox: &SandboxId) -> Result<Life, SharedImageError> {
    match read(run_root, sandbox)? {
        Some(record) if record.held => {}
        Some(_) | None => return Ok(Life::Unknown),
    }
    Ok(match take(run_root, sandbox)? {
        Some(_) => Life::Released,
        None => Life::Held,
    })
}

/// Takes the lock of a sandbox whose process is gone; `None` where it lives, has just gone
/// altogether, or has just got another record.
pub(super) fn take(
    run_root: &Path,
    sandbox: &SandboxId,
) -> Result<Option<OwnedFd>, SharedImageError> {
    let Some((directory, _)) = open_sandbox(run_root, sandbox)? else {
        return Ok(None);
    };
    let path = path(run_root, sandbox);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(&directory, NAME, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(&path, errno)),
    };
    take_named(&directory, file).map_err(|error| failed(&path, error))
}

/// Locks the record `file`, if nobody holds it and it still has its name in `directory`: the lock
/// on one that was replaced says nothing about the sandbox.
fn take_named(directory: &OwnedFd, file: OwnedFd) -> io::Result<Option<OwnedFd>> {
    let is_locked = lock::exclusive(&file, Duration::ZERO)?;
    let is_taken = is_locked && lock::is_named(&file, directory, NAME)?;
    Ok(is_taken.then_some(file))
}

/// The sandboxes that have a record, by id.
///
/// # Errors
///
/// [`SharedImageError`] where the sandboxes cannot be listed.
pub fn all(run_root: &Path) -> Result<Vec<(SandboxId, Record)>, SharedImageError> {
    let parents = match open_parents(run_root, Missing::Refuse) {
        Ok(parents) => parents,
        Err(error) if error.0.fault.is_absent() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = names(&parents).map_err(|fault| failed(&parent(run_root), fault))?;
    let sandboxes = names.iter().filter_map(|name| SandboxId::parse(name).ok());
    // One that cannot be read belongs to nobody who could be updated; a sweep names it.
    let mut found: Vec<_> = sandboxes
        .filter_map(|sandbox| {
            let record = read(run_root, &sandbox).ok().flatten()?;
            Some((sandbox, record))
        })
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_held_until_the_last_copy_is_closed() {
        let run = tempfile::tempdir().unwrap();
        let sandbox = SandboxId::parse("box-1").unwrap();
        let life = || life(run.path(), &sandbox).unwrap();
        assert_eq!(life(), Life::Unknown);
        let mut record = Record {
            document: Some("/etc/d.toml".into()),
            providers: true,
            held: true,
            ..Record::default()
        };
        let hold = put(run.path(), &sandbox, &record).unwrap();
        assert_eq!(all(run.path()).unwrap(), [(sandbox.clone(), record.clone())]);
        let copy = hold.as_fd().try_clone_to_owned().unwrap();
        assert_eq!(life(), Life::Held);
        assert!(!super::super::remove_released(run.path(), &sandbox).unwrap());
        drop(hold);
        assert_eq!(life(), Life::Held);
        // What has the lock cannot change the record.
        assert!(rustix::io::write(&copy, b"x").is_err());
        drop(copy);
        assert_eq!(life(), Life::Released);
        assert!(super::super::remove_released(run.path(), &sandbox).unwrap());
        assert!(!directory(run.path(), &sandbox).exists());

        record.held = false;
        drop(put(run.path(), &sandbox, &record).unwrap());
        assert_eq!(life(), Life::Unknown);
        assert!(!super::super::remove_released(run.path(), &sandbox).unwrap());
        std::fs::write(path(run.path(), &sandbox), "{").unwrap();
        assert!(read(run.path(), &sandbox).is_err());
        assert_eq!(all(run.path()).unwrap(), []);
    }

    /// Who opened a record before it was replaced got its lock, and took the sandbox for dead.
    #[test]
    fn the_lock_of_a_replaced_record_says_nothing() {
        let run = tempfile::tempdir().unwrap();
        let sandbox = SandboxId::parse("box-1").unwrap();
        let record = Record { held: true, ..Record::default() };
        let old = put(run.path(), &sandbox, &record).unwrap();
        let (directory, _) = open_sandbox(run.path(), &sandbox).unwrap().unwrap();
        let open = || {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            openat(&directory, NAME, flags, Mode::empty()).unwrap()
        };
        let opened = open();
        let new = put(run.path(), &sandbox, &record).unwrap();
        drop(old);
        assert!(take_named(&directory, opened).unwrap().is_none());
        drop(new);
        assert!(take_named(&directory, open()).unwrap().is_some());
    }
}
