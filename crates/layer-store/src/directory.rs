//! The directories of a store: made, listed and closed to others.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, fstat, open, stat};

use crate::error::Error;

/// The mode of the directory that is the root of a layer without an entry for it.
const ROOT_MODE: u32 = 0o755;

/// A store's directory itself: it stays the same when something is mounted over its path.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    directory: Arc<OwnedFd>,
    path: PathBuf,
}

impl Root {
    /// Opens the directory that `path` leads to now.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(path, flags, Mode::empty());
        let directory = directory.map_err(|error| Error::file("open", path)(error.into()))?;
        Ok(Self {
            path: PathBuf::from(format!("{DESCRIPTORS}/{}", directory.as_raw_fd())),
            directory: Arc::new(directory),
        })
    }

    /// A path of the directory that leads there as long as this value or a copy of it lives.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether `path` leads here. Blocks.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let (Ok(own), Ok(there)) = (fstat(&self.directory), stat(path)) else {
            return false;
        };
        (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)
    }
}

/// The directory in which numbers are descriptors.
const DESCRIPTORS: &str = "/proc/self/fd";

/// A path for people: what is below a descriptor is named by where that was opened.
pub(crate) fn shown(path: &Path) -> PathBuf {
    let named = path.strip_prefix(DESCRIPTORS).ok().and_then(|below| {
        let mut parts = below.components();
        let root = fs::read_link(Path::new(DESCRIPTORS).join(parts.next()?)).ok()?;
        let rest = parts.as_path();
        let is_root = rest.as_os_str().is_empty();
        Some(if is_root { root } else { root.join(rest) })
    });
    named.unwrap_or_else(|| path.to_owned())
}

/// Makes a directory that only root may look into, if it is not there.
pub(crate) fn make_private(path: &Path) -> Result<(), Error> {
    make(path, 0o700)
}

/// Makes a directory that is or may become the root of a file system.
pub(crate) fn make_public(path: &Path) -> Result<(), Error> {
    make(path, ROOT_MODE)?;
    // The mode of a root is the same whatever the umask is.
    set_mode(path, ROOT_MODE)
}

fn make(path: &Path, mode: u32) -> Result<(), Error> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(Error::file("create", path)(error))
        }
        _ => Ok(()),
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(path, mode).map_err(Error::file("set the mode of", path))
}

/// The paths of everything in a directory, in order.
pub(crate) fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed: io::Result<Vec<_>> = fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths = listed.map_err(Error::file("list", directory))?;
    paths.sort();
    Ok(paths)
}

/// The name of an entry of a directory; this program's own names are text.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
