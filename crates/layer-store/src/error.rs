//! Why a layer is not kept or mounted.

use std::io;
use std::path::{Path, PathBuf};

use crate::directory::shown;
use crate::limits::MAX_LAYERS;
use crate::room::Room;

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused something in the store or the bundle.
    #[error("cannot {action} {path}", path = .path.display())]
    File {
        /// A verb, such as `create`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The store is where it cannot work.
    #[error(
        "the image store {store} lies on an overlay file system, which can hold neither whiteouts \
        nor the upper directory of a mount: give it a tmpfs or a disk (ext4, xfs)",
        store = .store.display()
    )]
    OnOverlay {
        /// The directory.
        store: PathBuf,
    },
    /// The store has no room.
    #[error(
        "{need} {store} has {room}: give the pod more memory or the guest a larger image store",
        need = need(*.needed_bytes), store = .store.display()
    )]
    Full {
        /// The directory.
        store: PathBuf,
        /// The least that is missing, where it was known before it was tried.
        needed_bytes: Option<u64>,
        /// What the file system says.
        room: Room,
    },
    /// More layers than an overlay takes.
    #[error("the image has {count} different layers, and Linux joins at most {MAX_LAYERS}")]
    TooManyLayers {
        /// How many there are.
        count: usize,
    },
    /// The kernel refused to join the layers.
    #[error("cannot mount an overlay of {layers} layers at \
    {rootfs}{reason}", rootfs = .rootfs.display())]
    Overlay {
        /// The mount point.
        rootfs: PathBuf,
        /// How many layers there are.
        layers: usize,
        /// What is known about the reason: empty, or to be added to the message.
        reason: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A rule of this program's own does not hold.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Makes an [`Error::File`] out of what the kernel said.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path: shown(&path), source }
    }

    /// Turns an error of a full file system into [`Error::Full`], with the room that is left.
    /// Blocks.
    pub(crate) fn or_full(self, store: &Path) -> Self {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::File { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded) => {
                Self::full(store, None)
            }
            other => other,
        }
    }

    /// An [`Error::Full`] with what the file system says now. Blocks.
    pub(crate) fn full(store: &Path, needed_bytes: Option<u64>) -> Self {
        match Room::of(store) {
            Ok(room) => Self::Full { store: shown(store), needed_bytes, room },
            Err(error) => Self::file("measure", store)(error),
        }
    }
}

fn need(needed_bytes: Option<u64>) -> String {
    match needed_bytes {
        Some(bytes) => format!("the layers need at least {bytes} bytes, but the image store"),
        None => "the layers need more than there is: the image store".to_owned(),
    }
}
