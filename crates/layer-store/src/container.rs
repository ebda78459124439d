//! The writable part of one mount, and the list of the layers below it.
//!
//! A container's name is random and is also the source of its mount in `mountinfo`. So a mount can
//! be recognised in any mount namespace and after any restart. Mount identifiers and device numbers
//! are given anew and promise neither.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directory::{Root, make_private, make_public};
use crate::error::Error;
use crate::layer::Layer;
use crate::users::Users;
use crate::waste::discard;

/// The name of the list of layers, one name on each line.
const LAYERS: &str = "layers";

/// What the source of a mount begins with; the container's name follows.
pub(crate) const SOURCE_PREFIX: &str = "imagepuller-";

/// The writable part of a mount. Removed when dropped, unless kept.
#[derive(Debug)]
pub struct Container {
    name: String,
    root: Root,
    path: PathBuf,
    layers: Vec<Layer>,
    users: Arc<Users>,
    is_kept: bool,
}

impl Container {
    /// Makes the directories for layers, lowest first. Blocks.
    pub(crate) fn create(
        root: &Root,
        name: String,
        layers: Vec<Layer>,
        users: Arc<Users>,
    ) -> Result<Self, Error> {
        users.lock().note(&name, Some(layers.clone()), true);
        let container = Self {
            path: root.path().join("containers").join(&name),
            root: root.clone(),
            name,
            layers,
            users,
            is_kept: false,
        };
        let fill = || -> Result<(), Error> {
            make_private(&container.path)?;
            container.record()?;
            make_public(&container.upper())?;
            make_public(&container.work())?;
            if container.layers.is_empty() {
                make_public(&container.lower())?;
            }
            Ok(())
        };
        fill().map_err(|error| error.or_full(root.path()))?;
        Ok(container)
    }

    /// Writes down what lies below, before anything is mounted: a later service reads it.
    fn record(&self) -> Result<(), Error> {
        let names = self.layers.iter().filter_map(|layer| layer.path().file_name());
        let lines: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        let list = self.path.join(LAYERS);
        fs::write(&list, lines.join("\n")).map_err(Error::file("write", &list))
    }

    /// What the container writes.
    pub fn upper(&self) -> PathBuf {
        self.path.join("upper")
    }

    /// Overlayfs's own work directory.
    pub fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// An empty directory, there only for an image without layers: overlayfs wants a lower one.
    pub(crate) fn lower(&self) -> PathBuf {
        self.path.join("lower")
    }

    /// What lies below, lowest first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The mount's source.
    pub(crate) fn source(&self) -> String {
        format!("{SOURCE_PREFIX}{}", self.name)
    }

    pub(crate) fn store(&self) -> &Path {
        self.root.path()
    }

    /// Leaves the directories, and the layers below, to the mount that now uses them.
    pub fn keep(mut self) {
        self.leave();
    }

    fn leave(&mut self) {
        self.is_kept = true;
        self.users.lock().mounted(&self.name);
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if discard(&self.path) {
            self.users.lock().end(&self.name);
        } else {
            // Whatever is in the way may go later.
            self.leave();
        }
    }
}

/// The names of the layers below a container. Blocks.
pub(crate) fn recorded(container: &Path) -> std::io::Result<Vec<String>> {
    let text = fs::read_to_string(container.join(LAYERS))?;
    Ok(text.lines().map(str::to_owned).collect())
}
