//! Verified layers on disk, shared by all images, and the writable directories of containers.
//!
//! ```text
//! STORE/lock               held while a service uses the store
//! STORE/layers/sha256-…/   one verified layer, named by the digest of its plain bytes
//!     root/                its files
//!     implied              paths of directories without an entry of their own, each with a zero byte after it
//! STORE/staging/N/         a layer being unpacked, in use by nobody; emptied at start
//! STORE/abandoned-N/       a `staging` that could not be emptied; in use by nobody
//! STORE/containers/N/      upper and work directory of one mount
//! ```
//!
//! A layer gets its name by a rename after all its digests held, so what has a name under `layers` is whole, however the
//! service ended. Nothing is written through to a disk: a store that is to outlive a power failure is not meant here.

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
use crate::layer::Unpacked;
use crate::removal;

/// The mode of the directory that is the root of a layer without an entry for it.
const ROOT_MODE: u32 = 0o755;

/// The name of a layer's files.
const ROOT: &str = "root";

/// The name of the list of directories without an entry of their own.
const IMPLIED: &str = "implied";

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
    /// Its directory, which holds its files and what is known about them.
    pub path: PathBuf,
}

impl Layer {
    /// Its files, as a lower directory of an overlay.
    pub fn root(&self) -> PathBuf {
        self.path.join(ROOT)
    }

    /// Its directories without an entry of their own; the empty path is the root. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn implied(&self) -> Result<Vec<Vec<u8>>, Error> {
        let list = self.path.join(IMPLIED);
        let text = fs::read(&list).map_err(Error::file("read", &list))?;
        let paths = text.split_inclusive(|&byte| byte == 0);
        Ok(paths.map(|path| path[..path.len() - 1].to_vec()).collect())
    }
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
        clear_staging(path)?;
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
        let layer = Layer { path };
        layer.root().is_dir().then_some(layer)
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
        let root = path.join(ROOT);
        make_directory(&root, false)?;
        let handle = File::open(&root).map_err(Error::file("open", &root))?;
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
    /// its result. Where another thread was faster its layer is taken, for one digest has one content.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn publish(mut self, verified: &Unpacked) -> Result<Layer, Error> {
        let mut text = Vec::new();
        for path in &verified.implied {
            text.extend_from_slice(path);
            text.push(0);
        }
        let list = self.path.join(IMPLIED);
        fs::write(&list, text).map_err(Error::file("write", &list))?;
        let layer = Layer {
            path: self.target.clone(),
        };
        match fs::rename(&self.path, &self.target) {
            Ok(()) => self.is_published = true,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists
                ) && layer.root().is_dir() => {}
            Err(error) => return Err(Error::file("publish", &self.target)(error)),
        }
        Ok(layer)
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
    if let Err(error) = removal::remove_path(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove");
    }
}

/// Removes what an earlier service left unfinished, or at least gets it out of the way: nobody uses it, and no image of
/// that time may keep the service from starting.
fn clear_staging(store: &Path) -> Result<(), Error> {
    let staging = store.join("staging");
    let error = match removal::remove_path(&staging) {
        Err(error) if error.kind() != ErrorKind::NotFound => error,
        _ => return Ok(()),
    };
    let aside = (0u64..)
        .map(|number| store.join(format!("abandoned-{number}")))
        .find(|path| fs::symlink_metadata(path).is_err());
    let Some(aside) = aside else {
        return Err(Error::file("clear", &staging)(error));
    };
    fs::rename(&staging, &aside).map_err(Error::file("move aside", &staging))?;
    tracing::warn!(path = %aside.display(), %error, "cannot remove what an earlier service left unfinished");
    Ok(())
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

    fn verified() -> Unpacked {
        Unpacked {
            entries: 0,
            plain_bytes: 0,
            implied: [&b""[..], b"home/u"].map(<[u8]>::to_vec).into(),
        }
    }

    fn digest_of(digit: &str) -> Digest {
        Digest::parse(&format!("sha256:{}", digit.repeat(64))).unwrap()
    }

    fn digest() -> Digest {
        digest_of("0")
    }

    #[test]
    fn a_layer_has_a_name_only_after_it_was_published() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("a/b")).unwrap();
        let (staging, _) = store.stage(&digest()).unwrap();
        fs::write(staging.path.join("root/file"), "content").unwrap();
        assert!(store.layer(&digest()).is_none());
        let dropped = staging.path.clone();
        drop(staging);
        assert!(!dropped.exists());
        let (staging, _) = store.stage(&digest()).unwrap();
        staging.publish(&verified()).unwrap();
        let layer = store.layer(&digest()).unwrap();
        assert!(layer.root().is_dir());
        assert_eq!(layer.implied().unwrap(), [&b""[..], b"home/u"]);
    }

    /// The thread of a pull that was given up outlives it and may end together with that of the next: the second was
    /// refused the name, and that was reported as an internal error.
    #[test]
    fn a_layer_may_be_published_twice() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let stagings = [(), ()].map(|()| store.stage(&digest()).unwrap().0);
        for staging in stagings {
            fs::write(staging.path.join("root/file"), "content").unwrap();
            let layer = staging.publish(&verified()).unwrap();
            assert_eq!(fs::read(layer.root().join("file")).unwrap(), b"content");
        }
        let left = fs::read_dir(directory.path().join("staging")).unwrap();
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn privileged_what_cannot_be_removed_does_not_keep_the_service_from_starting() {
        let name = "privileged_what_cannot_be_removed_does_not_keep_the_service_from_starting";
        if !crate::layer::tests::is_root(name) {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        drop(Store::open(directory.path()).unwrap());
        let busy = directory.path().join("staging/0");
        fs::create_dir(&busy).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", &busy, "tmpfs", flags, None::<&std::ffi::CStr>).unwrap();
        let store = Store::open(directory.path());
        let aside = directory.path().join("abandoned-0/0");
        rustix::mount::unmount(&aside, rustix::mount::UnmountFlags::empty()).unwrap();
        store.unwrap().stage(&digest()).unwrap();
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
        let other = store.flight(&digest_of("1"));
        assert!(!Arc::ptr_eq(&first, &other));
        assert_eq!(store.flights.lock().unwrap().len(), 2);
        // A lock is a flight too, and one that nobody holds any more is forgotten.
        let locked = first.try_lock_owned().unwrap();
        drop(other);
        assert!(store.flight(&digest()).try_lock().is_err());
        assert_eq!(store.flights.lock().unwrap().len(), 1);
        drop(locked);
        let _other = store.flight(&digest_of("1"));
        assert_eq!(store.flights.lock().unwrap().len(), 1);
    }
}
