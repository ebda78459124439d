//! Layers and a writable directory joined into a root file system.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::container::Container;
use crate::error::Error;
use crate::implied;
use crate::layer::Layer;
use crate::limits::MAX_LAYERS;
use crate::overlay::{self, Refused, Stack};

/// A mount whose caller has not been told yet. Dropped before that, because the caller gave up, it
/// is undone.
#[derive(Debug)]
pub struct Mounted {
    rootfs: PathBuf,
    id: Option<u64>,
    container: Option<Container>,
}

impl Mounted {
    /// Leaves the mount to the caller; says where it is.
    pub fn keep(mut self) -> PathBuf {
        if let Some(container) = self.container.take() {
            container.keep();
        }
        self.rootfs.clone()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // With the container's directories kept, the mount is the caller's.
        let Some(container) = self.container.take() else {
            return;
        };
        // Detached, for somebody may be looking into it; but never what somebody else has mounted
        // there since.
        let is_ours = self.id.is_some() && mount_id(&self.rootfs) == self.id;
        let flags = UnmountFlags::NOFOLLOW | UnmountFlags::DETACH;
        let unmounted = if is_ours { unmount(&self.rootfs, flags) } else { Err(Errno::BUSY) };
        if let Err(error) = unmounted {
            tracing::warn!(rootfs = %self.rootfs.display(), %error, "cannot unmount what nobody \
            waits for");
            // Still in use, then.
            container.keep();
        }
    }
}

/// Mounts the layers of a container, with its own directories on top. Blocks.
///
/// All directories are named by descriptors, so nothing is looked up twice; there is one for each
/// layer meanwhile.
///
/// # Errors
///
/// [`Error::TooManyLayers`], [`Error::Overlay`], [`Error::Full`] or [`Error::File`]; nothing is
/// mounted then, and the container's directories are gone.
pub fn overlay(container: Container, rootfs: PathBuf) -> Result<Mounted, Error> {
    let order = topmost_first(container.layers());
    if order.len() > MAX_LAYERS {
        let count = order.len();
        return Err(Error::TooManyLayers { count });
    }
    let mut lower = implied::prepare(&order, &container.upper())
        .map_err(|error| error.or_full(container.store()))?;
    if order.is_empty() {
        lower.push(open(&container.lower())?);
    }
    let target = open(&rootfs)?;
    let stack = Stack {
        source: container.source(),
        lower,
        upper: open(&container.upper())?,
        work: open(&container.work())?,
    };
    overlay::attach(&stack, &target).map_err(|Refused { errno, says }| Error::Overlay {
        rootfs: rootfs.clone(),
        layers: order.len(),
        reason: says.map_or_else(String::new, |text| format!(" ({text})")),
        source: errno.into(),
    })?;
    Ok(Mounted { id: mount_id(&rootfs), rootfs, container: Some(container) })
}

fn open(path: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map_err(|error| Error::file("open", path)(error.into()))
}

/// The order that overlayfs wants. It takes no directory twice, and some images have a layer twice:
/// what the lower one shows or hides, the upper one does too.
pub(crate) fn topmost_first(layers: &[Layer]) -> Vec<&Layer> {
    let mut seen = HashSet::new();
    layers.iter().rev().filter(|layer| seen.insert(layer.path())).collect()
}

/// What tells a mount from others at the same place; none if nothing is there.
fn mount_id(path: &Path) -> Option<u64> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let stat = statx(CWD, path, flags, StatxFlags::MNT_ID).ok()?;
    let is_known = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    is_known.then_some(stat.stx_mnt_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_repeated_layer_counts_where_it_is_uppermost() {
        let root = crate::directory::Root::open(Path::new("/")).unwrap();
        let layer = |name: &str| Layer::new(&root, name, Arc::default());
        let layers = ["base", "same", "app", "same"].map(layer);
        let order: Vec<_> = topmost_first(&layers)
            .into_iter()
            .map(|layer| layer.path().file_name().unwrap())
            .collect();
        assert_eq!(order, ["same", "app", "base"]);
    }
}
