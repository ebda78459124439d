//! A layer that is not verified yet.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use layer_unpack::Unpacked;

use crate::directory::Root;
use crate::error::Error;
use crate::layer::{HIDES, IMPLIED, Layer, ROOT};
use crate::users::Users;
use crate::waste::{discard, throw_away};

/// A layer that must not be used yet. Removed when dropped, unless published.
#[derive(Debug)]
pub struct Staging {
    pub(crate) path: PathBuf,
    pub(crate) root: Root,
    /// The name of the layer that it becomes.
    pub(crate) name: String,
    pub(crate) users: Arc<Users>,
    pub(crate) is_published: bool,
}

impl Staging {
    /// Makes the directory a layer. Only what was verified may come here, which
    /// [`layer_unpack::unpack()`] vouches for with its result. Where another thread was faster its
    /// layer is taken, for one digest has one content.
    ///
    /// # Errors
    ///
    /// [`Error::File`] and [`Error::Full`].
    pub fn publish(mut self, verified: &Unpacked) -> Result<Layer, Error> {
        let mut text = Vec::new();
        for path in &verified.implied {
            text.extend_from_slice(path);
            text.push(0);
        }
        let list = self.path.join(IMPLIED);
        let mut written = fs::write(&list, text).map_err(Error::file("write", &list));
        if verified.hides {
            let mark = self.path.join(HIDES);
            written =
                written.and_then(|()| fs::write(&mark, "").map_err(Error::file("write", &mark)));
        }
        let published = written.and_then(|()| self.rename());
        published.map_err(|error| error.or_full(self.root.path()))
    }

    fn rename(&mut self) -> Result<Layer, Error> {
        let target = self.root.path().join("layers").join(&self.name);
        // Found and kept in one step, or it might be removed in between as an unused layer.
        let mut users = self.users.lock();
        match fs::rename(&self.path, &target) {
            Ok(()) => self.is_published = true,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists
                ) && target.join(ROOT).is_dir() => {}
            Err(error) => return Err(Error::file("publish", target)(error)),
        }
        Ok(users.pin(&self.name, &self.root))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_published || discard(&self.path) {
            return;
        }
        // What is in the way may go later, and this directory is only cleared when the next service
        // starts.
        if let Err(error) = throw_away(self.root.path(), &self.path) {
            tracing::warn!(%error, "an unfinished layer is left");
        }
    }
}
