//! Paths of a node whose root is a directory here, as the node agent sees its node.

use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use linux_sys::rooted::open_scoped;
use rustix::fs::{Mode, OFlags, ResolveFlags, open};

/// By which path the `path` of the node whose root is `root` is reached from here. Links are
/// followed as the node follows them: an absolute one starts at its root, not at this process's.
///
/// A path that leads nowhere stays what it is, below `root`, so that opening it says so; `None`
/// where it would lead somewhere here that it does not on the node.
pub(super) fn seen(root: &Path, path: &Path) -> Option<PathBuf> {
    if root == Path::new("/") {
        return Some(path.to_owned());
    }
    resolve(root, path).ok().or_else(|| {
        let joined = root.join(path.strip_prefix("/").unwrap_or(path));
        (!joined.exists()).then_some(joined)
    })
}

fn resolve(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
    let scope = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let found = open_scoped(&root, path, flags, scope)?;
    std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd()))
}
