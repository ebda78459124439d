//! Paths of a node whose root is a directory here, as the node agent sees its node.

use std::path::{Path, PathBuf};

use linux_sys::rooted::Root;

/// By which path the `path` of the node whose root is `root` is reached from here. Links are
/// followed as the node follows them: an absolute one starts at its root, not at this process's.
///
/// A path that leads nowhere stays what it is, below `root`, so that opening it says so; `None`
/// where it would lead somewhere here that it does not on the node.
pub(super) fn seen(root: &Path, path: &Path) -> Option<PathBuf> {
    if root == Path::new("/") {
        return Some(path.to_owned());
    }
    Root::open(root).and_then(|root| root.seen(path)).ok().or_else(|| {
        let joined = root.join(path.strip_prefix("/").unwrap_or(path));
        (!joined.exists()).then_some(joined)
    })
}
