//! The node that is looked at.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::host_file::FileError;
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
        let root = NodeRoot::open(Some(host))?;
        let host = host.to_owned();
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

impl Deref for Node {
    type Target = NodeRoot;

    fn deref(&self) -> &NodeRoot {
        &self.root
    }
}
