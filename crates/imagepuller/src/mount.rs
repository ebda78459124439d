//! Layers and a writable directory joined into a root file system.

use std::collections::HashSet;
use std::ffi::CString;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::error::Error;
use crate::store::{Container, Layer};

/// A mount whose caller has not been told yet. Dropped before that, because the caller gave up, it is undone.
#[derive(Debug)]
pub struct Mounted {
    rootfs: PathBuf,
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
        if self.container.is_some()
            && let Err(error) = unmount(&self.rootfs, UnmountFlags::NOFOLLOW)
        {
            tracing::warn!(rootfs = %self.rootfs.display(), %error, "cannot unmount what nobody waits for");
        }
    }
}

/// Mounts layers, lowest first, with the container's directories on top. Blocks.
///
/// The directories are named by descriptors, which keeps 128 layers within the one page that the options may have, and
/// leaves nothing to be looked up twice.
///
/// # Errors
///
/// [`Error::File`]; nothing is mounted then, and the container's directories are gone.
pub fn overlay(layers: &[Layer], container: Container, rootfs: PathBuf) -> Result<Mounted, Error> {
    let open = |path: &Path| {
        let flags = (OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW).bits();
        let flags = i32::try_from(flags).map_err(|error| Error::Internal(error.to_string()))?;
        OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .map_err(Error::file("open", path))
    };
    let lower = topmost_first(layers)
        .into_iter()
        .map(|layer| open(&layer.path))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(base) = layers.first() {
        copy_root(&base.path, &container.upper())?;
    }
    let (upper, work) = (open(&container.upper())?, open(&container.work())?);
    let mut options = String::from("lowerdir=");
    for (at, layer) in lower.iter().enumerate() {
        let separator = if at == 0 { "" } else { ":" };
        let _ = write!(options, "{separator}{}", by_descriptor(layer));
    }
    let _ = write!(
        options,
        ",upperdir={},workdir={}",
        by_descriptor(&upper),
        by_descriptor(&work)
    );
    let options = CString::new(options).map_err(|error| Error::Internal(error.to_string()))?;
    let target = open(&rootfs)?;
    mount(
        c"overlay",
        by_descriptor(&target),
        c"overlay",
        MountFlags::empty(),
        options.as_c_str(),
    )
    .map_err(|error| Error::file("mount an overlay of the layers at", &rootfs)(error.into()))?;
    Ok(Mounted {
        rootfs,
        container: Some(container),
    })
}

/// The order that overlayfs wants. It takes no directory twice, and some images have a layer twice: what the lower one
/// shows or hides, the upper one does too.
fn topmost_first(layers: &[Layer]) -> Vec<&Layer> {
    let mut seen = HashSet::new();
    layers
        .iter()
        .rev()
        .filter(|layer| seen.insert(&layer.path))
        .collect()
}

fn by_descriptor(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The root of an overlay is the upper directory's, so it takes over what the lowest layer says about the image's root.
fn copy_root(from: &Path, to: &Path) -> Result<(), Error> {
    let metadata = fs::metadata(from).map_err(Error::file("examine", from))?;
    std::os::unix::fs::chown(to, Some(metadata.uid()), Some(metadata.gid()))
        .map_err(Error::file("set the owner of", to))?;
    let mode = fs::Permissions::from_mode(metadata.mode() & 0o7777);
    fs::set_permissions(to, mode).map_err(Error::file("set the mode of", to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileged_a_mount_that_nobody_waits_for_is_undone() {
        if !crate::layer::tests::is_root("privileged_a_mount_that_nobody_waits_for_is_undone") {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open(&directory.path().join("store")).unwrap();
        let layers = ["lower", "upper"].map(|name| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("file"), name).unwrap();
            Layer { path }
        });
        let rootfs = directory.path().join("rootfs");
        fs::create_dir(&rootfs).unwrap();
        let mount = || overlay(&layers, store.container().unwrap(), rootfs.clone()).unwrap();
        let containers = || {
            fs::read_dir(directory.path().join("store/containers"))
                .unwrap()
                .count()
        };

        let mounted = mount();
        assert_eq!(fs::read(rootfs.join("file")).unwrap(), b"upper");
        drop(mounted);
        assert!(!rootfs.join("file").exists());
        assert_eq!(containers(), 0);

        assert_eq!(mount().keep(), rootfs);
        assert!(rootfs.join("file").exists());
        assert_eq!(containers(), 1);
        unmount(&rootfs, UnmountFlags::empty()).unwrap();
    }

    #[test]
    fn a_repeated_layer_counts_where_it_is_uppermost() {
        let layer = |name: &str| Layer { path: name.into() };
        let layers = ["base", "same", "app", "same"].map(layer);
        let order: Vec<_> = topmost_first(&layers)
            .into_iter()
            .map(|layer| layer.path.to_str().unwrap())
            .collect();
        assert_eq!(order, ["same", "app", "base"]);
    }
}
