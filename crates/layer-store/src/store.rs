//! The directory of a store, how it is laid out, and what an earlier service left in it.
//!
//! ```text
//! STORE/                    0700: nothing below can be reached by anybody but root
//! STORE/lock                held while a service uses the store
//! STORE/layers/sha256-…/    one verified layer, named by the digest of its plain bytes;
//!                           the time of this directory is the layer's last use
//!     root/                 its files
//!     implied               paths of directories without an entry of their own,
//!                           each with a zero byte after it
//! STORE/layers/keyed-…/     the same of a layer that was encrypted, see `LayerName`
//! STORE/images/sha256-…/    what leads from the digest of a reference to the layers of an image
//!     sha256-…              a manifest, index or configuration, byte for byte
//!     layers                names of its layers, a line each, lowest first
//!     signatures            what let it run under an image policy
//! STORE/staging/N/          a layer or an image's documents in the making, not in use
//! STORE/containers/NAME/    one mount, whose source is imagepuller-NAME
//!     layers                names of the layers below it, a line each, lowest first;
//!                           written before it is mounted
//!     upper/ work/          what overlayfs writes
//!     lower/                empty; only of an image without layers
//! STORE/waste/NAME          to be removed, not in use
//! ```
//!
//! Names are given and taken by renames, so each of them can be trusted however the service ended:
//!
//! - What has a name under `layers` is whole: it gets it after all its digests held, and loses it
//!   before the first of its files is removed.
//! - What is under `images` is believed by nobody before it was held to its digest again, or, a
//!   signature, to its key. It goes with the last layer of its image.
//! - What is under `staging` when a service starts is waste.
//! - What is under `containers` is in use while `mountinfo` shows its name, and otherwise waste.
//!
//! A store is its directory, not its path. What somebody mounts over it becomes another store, and
//! the first one keeps what its containers use, until they end.
//!
//! Nothing is written through to a disk: a store that is to outlive a power failure is not meant
//! here.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{FlockOperation, flock, statfs};

use crate::container::{self, Container};
use crate::directory::{Root, entries, make_private, make_public, name_of, set_mode};
use crate::documents::IMAGES;
use crate::error::Error;
use crate::layer::{Layer, ROOT};
use crate::name::LayerName;
use crate::room::Room;
use crate::staging::Staging;
use crate::users::Users;
use crate::waste::{is_missing, throw_away, unused_name};

/// What `statfs(2)` calls an overlay.
const OVERLAYFS_SUPER_MAGIC: i64 = 0x794c_7630;

/// A directory of layers.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    root: Root,
    /// Keeps a second service out; released by the kernel however this one ends.
    _lock: File,
    next: AtomicU64,
    flights: Mutex<HashMap<LayerName, Weak<tokio::sync::Mutex<()>>>>,
    pub(crate) users: Arc<Users>,
    /// Held while waste is removed: two of them would trip over each other.
    pub(crate) cleaning: Mutex<()>,
}

impl Store {
    /// Opens a store, making it where it is missing, and sorts what an earlier service left.
    /// Blocks, but not for long: waste is removed later, see [`Store::tidy`].
    ///
    /// # Errors
    ///
    /// [`Error::File`], also while another service uses the store; [`Error::OnOverlay`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(Error::file("create", path))?;
        set_mode(path, 0o700)?;
        let stat = statfs(path).map_err(|error| Error::file("examine", path)(error.into()))?;
        if stat.f_type == OVERLAYFS_SUPER_MAGIC {
            let store = path.to_owned();
            return Err(Error::OnOverlay { store });
        }
        let root = Root::open(path)?;
        let lock_path = root.path().join("lock");
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
        let store = Self {
            path: path.to_owned(),
            root,
            _lock: lock,
            next: AtomicU64::new(0),
            flights: Mutex::default(),
            users: Arc::default(),
            cleaning: Mutex::default(),
        };
        for directory in ["waste", "layers", "containers", IMAGES] {
            make_private(&store.root().join(directory))?;
        }
        let staging = store.root().join("staging");
        if !is_missing(&staging) {
            throw_away(store.root(), &staging)?;
        }
        make_private(&staging)?;
        store.resume()?;
        Ok(store)
    }

    /// Takes over the containers of an earlier service, as far as they are still mounted.
    fn resume(&self) -> Result<(), Error> {
        for path in entries(&self.root().join("containers"))? {
            let name = name_of(&path);
            let mut users = self.users.lock();
            let layers = match container::recorded(&path) {
                Ok(names) => {
                    let pin = |name: &String| users.pin(name, &self.root);
                    Some(names.iter().map(pin).collect())
                }
                Err(error) => {
                    // Killed before it was mounted, most likely. If not, no layer is removed while
                    // that mount is there.
                    tracing::debug!(container = name, %error, "cannot tell which layers it uses");
                    None
                }
            };
            users.note(&name, layers, false);
        }
        if let Err(error) = self.sweep() {
            tracing::warn!(%error, "cannot tell which containers are still mounted");
        }
        Ok(())
    }

    /// The layer with this name, if it is here. Blocks.
    pub fn layer(&self, name: impl Into<LayerName>) -> Option<Layer> {
        let name = name.into().file_name();
        let path = self.root().join("layers").join(&name);
        let mut users = self.users.lock();
        let layer = path.join(ROOT).is_dir().then(|| users.pin(&name, &self.root))?;
        layer.touch();
        Some(layer)
    }

    /// Whether there is no layer at all. Blocks.
    pub fn is_empty(&self) -> bool {
        entries(&self.root().join("layers")).is_ok_and(|layers| layers.is_empty())
    }

    /// What to lock while a layer is fetched, so that it is fetched once however many ask for it.
    pub fn flight(&self, name: impl Into<LayerName>) -> Arc<tokio::sync::Mutex<()>> {
        let name = name.into();
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|_, flight| flight.strong_count() > 0);
        if let Some(flight) = flights.get(&name).and_then(Weak::upgrade) {
            return flight;
        }
        let flight = Arc::default();
        flights.insert(name, Arc::downgrade(&flight));
        flight
    }

    /// The layers whose lock somebody holds, or waits for.
    pub fn in_flight(&self) -> Vec<LayerName> {
        let flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        let held = flights.iter().filter(|(_, flight)| flight.strong_count() > 0);
        held.map(|(name, _)| name.clone()).collect()
    }

    /// An empty directory to unpack a layer into, and its handle. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`] and [`Error::Full`].
    pub fn stage(&self, name: impl Into<LayerName>) -> Result<(Staging, OwnedFd), Error> {
        let staging = Staging {
            path: self.unused_staging(),
            root: self.root.clone(),
            name: name.into().file_name(),
            users: self.users.clone(),
            is_published: false,
        };
        let root = staging.path.join(ROOT);
        let made = make_private(&staging.path).and_then(|()| make_public(&root));
        made.map_err(|error| error.or_full(self.root()))?;
        let handle = File::open(&root).map_err(Error::file("open", &root))?;
        Ok((staging, handle.into()))
    }

    /// A path for something in the making.
    pub(crate) fn unused_staging(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.root().join("staging").join(number.to_string())
    }

    /// Upper and work directory for one mount of layers, lowest first. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`] and [`Error::Full`].
    pub fn container(&self, layers: Vec<Layer>) -> Result<Container, Error> {
        Container::create(&self.root, unused_name()?, layers, self.users.clone())
    }

    /// What the file system has left. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn room(&self) -> Result<Room, Error> {
        Room::of(self.root()).map_err(Error::file("measure", &self.path))
    }

    /// The error for a full store, with the room that is left now. Blocks.
    pub fn full(&self) -> Error {
        Error::full(self.root(), None)
    }

    /// Whether its path leads to it, and not to what somebody mounted over it. Blocks.
    pub fn is_at_its_path(&self) -> bool {
        self.root.is_at(&self.path)
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its directory, whatever is mounted over its path.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }
}

#[cfg(test)]
mod tests;
