//! Verified layers on disk, shared by all images, and the writable directories of containers.
//!
//! ```text
//! STORE/lock               held while a service uses the store
//! STORE/layers/sha256-…/   one verified layer, named by the digest of its plain bytes
//! STORE/staging/N/         a layer being unpacked, in use by nobody; emptied at start
//! STORE/containers/N/      upper and work directory of one mount
//! ```
//!
//! A layer gets its name by a rename after all its digests held, so what has a name under `layers` is whole.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{FlockOperation, flock};

use crate::digest::Digest;
use crate::error::Error;

/// The mode of the directory that is the root of a layer without an entry for it.
const ROOT_MODE: u32 = 0o755;

/// A directory of layers.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    /// Keeps a second service out; released by the kernel however this one ends.
    _lock: File,
    next: AtomicU64,
    flights: Mutex<HashMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
}

/// A verified layer.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Its directory.
    pub path: PathBuf,
}

/// A layer that nobody may use yet. Removed when dropped, unless published.
#[derive(Debug)]
pub struct Staging {
    path: PathBuf,
    target: PathBuf,
    is_published: bool,
}

/// The writable part of a mount. Removed when dropped, unless kept.
#[derive(Debug)]
pub struct Container {
    path: PathBuf,
    is_kept: bool,
}

impl Store {
    /// Opens a store, making it where it is missing, and clears what an earlier service left unfinished. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`], also while another service uses the store.
    pub fn open(path: &Path) -> Result<Self, Error> {
        make_directory(path, true)?;
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path);
        let lock = lock.map_err(Error::file("open", &lock_path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            Error::file("lock (is another imagepuller using it?)", &lock_path)(error.into())
        })?;
        let staging = path.join("staging");
        match fs::remove_dir_all(&staging) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::file("clear", &staging)(error));
            }
            _ => {}
        }
        for directory in ["layers", "staging", "containers"] {
            make_directory(&path.join(directory), true)?;
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
            next: AtomicU64::new(0),
            flights: Mutex::default(),
        })
    }

    /// The layer with this digest of its plain bytes, if it is here. Blocks.
    pub fn layer(&self, diff_id: &Digest) -> Option<Layer> {
        let path = self.layer_path(diff_id);
        path.is_dir().then_some(Layer { path })
    }

    fn layer_path(&self, diff_id: &Digest) -> PathBuf {
        self.path.join("layers").join(diff_id.file_name())
    }

    /// What to lock while a layer is fetched, so that it is fetched once however many ask for it.
    pub fn flight(&self, diff_id: &Digest) -> Arc<tokio::sync::Mutex<()>> {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|_, flight| flight.strong_count() > 0);
        if let Some(flight) = flights.get(diff_id).and_then(Weak::upgrade) {
            return flight;
        }
        let flight = Arc::default();
        flights.insert(diff_id.clone(), Arc::downgrade(&flight));
        flight
    }

    /// An empty directory to unpack a layer into, and its handle. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn stage(&self, diff_id: &Digest) -> Result<(Staging, OwnedFd), Error> {
        let path = self.make_numbered("staging")?;
        let staging = Staging {
            path: path.clone(),
            target: self.layer_path(diff_id),
            is_published: false,
        };
        let handle = File::open(&path).map_err(Error::file("open", &path))?;
        Ok((staging, handle.into()))
    }

    /// Upper and work directory for one mount. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn container(&self) -> Result<Container, Error> {
        let container = Container {
            path: self.make_numbered("containers")?,
            is_kept: false,
        };
        make_directory(&container.upper(), false)?;
        make_directory(&container.work(), false)?;
        Ok(container)
    }

    /// The bytes that the file system has left. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn free_bytes(&self) -> Result<u64, Error> {
        let stat = rustix::fs::statvfs(&self.path);
        let stat = stat.map_err(|error| Error::file("measure", &self.path)(error.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Where the store is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn make_numbered(&self, below: &str) -> Result<PathBuf, Error> {
        loop {
            // Numbers of an earlier service may still be mounted.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let path = self.path.join(below).join(number.to_string());
            match DirBuilder::new().mode(ROOT_MODE).create(&path) {
                Ok(()) => {
                    set_mode(&path)?;
                    return Ok(path);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::file("create", &path)(error)),
            }
        }
    }
}

impl Staging {
    /// Makes the directory a layer. Only what was verified may come here, which [`crate::layer::unpack()`] vouches for with
    /// its result.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn publish(mut self, _verified: crate::layer::Unpacked) -> Result<Layer, Error> {
        fs::rename(&self.path, &self.target).map_err(Error::file("publish", &self.target))?;
        self.is_published = true;
        Ok(Layer {
            path: self.target.clone(),
        })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_published {
            remove(&self.path);
        }
    }
}

impl Container {
    /// What the container writes.
    pub fn upper(&self) -> PathBuf {
        self.path.join("upper")
    }

    /// Overlayfs's own work directory.
    pub fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// Leaves the directories to the mount that now uses them.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if !self.is_kept {
            remove(&self.path);
        }
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove");
    }
}

/// Makes a directory; of the store itself only root may see anything, of a mount's directories everyone.
fn make_directory(path: &Path, is_private: bool) -> Result<(), Error> {
    let mode = if is_private { 0o700 } else { ROOT_MODE };
    let made = DirBuilder::new()
        .recursive(is_private)
        .mode(mode)
        .create(path);
    made.map_err(Error::file("create", path))?;
    if is_private { Ok(()) } else { set_mode(path) }
}

/// The mode of a root, whatever the umask is.
fn set_mode(path: &Path) -> Result<(), Error> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(ROOT_MODE);
    fs::set_permissions(path, mode).map_err(Error::file("set the mode of", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Unpacked;

    const VERIFIED: Unpacked = Unpacked {
        entries: 0,
        plain_bytes: 0,
    };

    fn digest() -> Digest {
        Digest::parse(&format!("sha256:{}", "0".repeat(64))).unwrap()
    }

    #[test]
    fn a_layer_has_a_name_only_after_it_was_published() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("a/b")).unwrap();
        let (staging, _) = store.stage(&digest()).unwrap();
        fs::write(staging.path.join("file"), "content").unwrap();
        assert!(store.layer(&digest()).is_none());
        let dropped = staging.path.clone();
        drop(staging);
        assert!(!dropped.exists());
        let (staging, _) = store.stage(&digest()).unwrap();
        staging.publish(VERIFIED).unwrap();
        assert!(store.layer(&digest()).is_some());
    }

    #[test]
    fn a_store_has_one_user_and_forgets_what_was_unfinished() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        assert!(
            Store::open(directory.path())
                .unwrap_err()
                .to_string()
                .contains("another imagepuller")
        );
        let (staging, _) = store.stage(&digest()).unwrap();
        std::mem::forget(staging);
        drop(store);
        let store = Store::open(directory.path()).unwrap();
        assert_eq!(
            fs::read_dir(directory.path().join("staging"))
                .unwrap()
                .count(),
            0
        );
        let kept = store.container().unwrap();
        assert!(kept.upper().is_dir() && kept.work().is_dir());
        kept.keep();
        assert!(store.container().is_ok());
        assert_eq!(
            fs::read_dir(directory.path().join("containers"))
                .unwrap()
                .count(),
            1
        );
    }

    #[test]
    fn one_layer_has_one_flight() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let first = store.flight(&digest());
        assert!(Arc::ptr_eq(&first, &store.flight(&digest())));
        drop(first);
        let _ = store.flight(&digest());
        assert!(store.flights.lock().unwrap().len() <= 1);
    }
}
