//! One verified layer, and the handle that keeps it in the store.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use crate::directory::Root;
use crate::error::Error;

/// The name of a layer's files.
pub(crate) const ROOT: &str = "root";

/// The name of the list of directories without an entry of their own.
pub(crate) const IMPLIED: &str = "implied";

/// The name of the mark of a layer with whiteouts or opaque directories.
pub(crate) const HIDES: &str = "hides";

/// A verified layer. While a handle of it exists, it is not removed.
#[derive(Clone, Debug)]
pub struct Layer {
    path: PathBuf,
    _pin: Arc<()>,
    /// Without it the path would lead elsewhere.
    _root: Root,
}

impl Layer {
    pub(crate) fn new(root: &Root, name: &str, pin: Arc<()>) -> Self {
        Self { path: root.path().join("layers").join(name), _pin: pin, _root: root.clone() }
    }

    /// Its directory, which holds its files and what is known about them.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its files, as a lower directory of an overlay.
    pub fn root(&self) -> PathBuf {
        self.path.join(ROOT)
    }

    /// Whether it hides something of the layers below it. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn hides(&self) -> Result<bool, Error> {
        let mark = self.path.join(HIDES);
        mark.try_exists().map_err(Error::file("examine", &mark))
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

    /// Notes that it was used now: the time of its directory, which no container sees.
    pub(crate) fn touch(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        // Only the order in which layers are given up depends on it.
        if let Err(error) = utimensat(CWD, &self.path, &times, AtFlags::SYMLINK_NOFOLLOW) {
            tracing::debug!(layer = %self.path.display(), %error, "cannot note its use");
        }
    }
}
