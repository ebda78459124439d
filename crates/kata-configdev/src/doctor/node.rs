//! The node that is looked at.

use std::io::ErrorKind;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::host_file::{FileError, FileFault};
use crate::node_root::NodeRoot;

/// A node whose root is a directory here.
#[derive(Debug)]
pub struct Node {
    root: NodeRoot,
    /// The directory.
    pub host: PathBuf,
}

impl Node {
    /// Opens the node whose root is `host`.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn open(host: &Path) -> Result<Self, FileError> {
        // Messages name the paths below it, which are told apart by its beginning.
        let host = std::path::absolute(host).map_err(|error| FileFault::from(error).at(host))?;
        let root = NodeRoot::open(Some(&host))?;
        Ok(Self { root, host })
    }

    /// Whether it is the machine that this runs on, so that processes and logs are the node's too.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.host == Path::new("/")
    }

    /// Whether a directory is at `path`, links followed.
    #[must_use]
    pub fn has_directory(&self, path: &Path) -> bool {
        self.root.metadata(path).is_ok_and(|found| found.is_dir())
    }
}

/// Who runs this, where that is not root: what only root reads is not looked at then.
#[must_use]
pub fn other_than_root() -> Option<u32> {
    let user = geteuid();
    (!user.is_root()).then(|| user.as_raw())
}

/// Whether a file is denied to who runs this, and need not be to sandboxes.
#[must_use]
pub fn is_denied(fault: &FileFault) -> bool {
    let is_denied =
        matches!(fault, FileFault::Io(error) if error.kind() == ErrorKind::PermissionDenied);
    is_denied && other_than_root().is_some()
}

impl Deref for Node {
    type Target = NodeRoot;

    fn deref(&self) -> &NodeRoot {
        &self.root
    }
}
