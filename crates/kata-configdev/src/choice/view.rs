//! From where the files of a node are looked at.

use std::path::{Path, PathBuf};

use crate::document_pattern::{self, PatternFault};
use crate::host_file::FileFault;
use crate::node_root::NodeRoot;

/// How the paths of the settings are reached.
#[derive(Clone, Copy)]
pub(super) enum View<'n> {
    /// On the node itself, as they are.
    Here,
    /// On a node whose `/` is a directory here.
    Of(&'n NodeRoot),
}

impl View<'_> {
    /// Where the administrator's `path` is; links are followed.
    pub(super) fn seen(self, path: &Path) -> Result<PathBuf, FileFault> {
        match self {
            Self::Here => Ok(path.to_owned()),
            Self::Of(node) => node.seen(path),
        }
    }

    /// The path without a link in it, for comparison; `None` where nothing is there.
    pub(super) fn real(self, path: &Path) -> Option<PathBuf> {
        match self {
            Self::Here => path.canonicalize().ok(),
            Self::Of(node) => node.real(path).ok(),
        }
    }

    /// The file that the path of a document stands for, which may be a pattern.
    pub(super) fn resolve(self, path: &Path) -> Result<PathBuf, PatternFault> {
        match self {
            Self::Here => document_pattern::resolve(path),
            Self::Of(node) => document_pattern::resolve_on(node, path),
        }
    }
}
