//! Layers and a writable directory joined into a root file system.

use std::collections::HashSet;
use std::ffi::CString;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::error::Error;
use crate::implied;
use crate::store::{Container, Layer};

/// A mount whose caller has not been told yet. Dropped before that, because the caller gave up, it is undone.
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
        // Detached, for somebody may be looking into it; but never what somebody else has mounted there since.
        let is_ours = self.id.is_some() && mount_id(&self.rootfs) == self.id;
        let flags = UnmountFlags::NOFOLLOW | UnmountFlags::DETACH;
        let unmounted = if is_ours {
            unmount(&self.rootfs, flags)
        } else {
            Err(Errno::BUSY)
        };
        if let Err(error) = unmounted {
            tracing::warn!(rootfs = %self.rootfs.display(), %error, "cannot unmount what nobody waits for");
            // Still in use, then.
            container.keep();
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
    let order = topmost_first(layers);
    let visible = implied::prepare(&order, &container.upper())?;
    let lower = order[..visible]
        .iter()
        .map(|layer| open(&layer.root()))
        .collect::<Result<Vec<_>, _>>()?;
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
        id: mount_id(&rootfs),
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
    use crate::layer::tests::{Tar, is_root};
    use crate::store::Store;
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use tar::EntryType;

    #[test]
    fn privileged_a_mount_that_nobody_waits_for_is_undone() {
        if !is_root("privileged_a_mount_that_nobody_waits_for_is_undone") {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("store")).unwrap();
        let layers = ["lower", "upper"].map(|name| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.join("root")).unwrap();
            fs::write(path.join("root/file"), name).unwrap();
            fs::write(path.join("implied"), "").unwrap();
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

        // What came there since is somebody else's, and what it hides is still in use.
        let mounted = mount();
        rustix::mount::mount_bind(directory.path(), &rootfs).unwrap();
        drop(mounted);
        assert!(rootfs.join("lower").is_dir());
        assert_eq!(containers(), 1);
        unmount(&rootfs, UnmountFlags::empty()).unwrap();
        assert!(rootfs.join("file").exists());
        unmount(&rootfs, UnmountFlags::empty()).unwrap();

        assert_eq!(mount().keep(), rootfs);
        assert!(rootfs.join("file").exists());
        assert_eq!(containers(), 2);
        unmount(&rootfs, UnmountFlags::empty()).unwrap();
    }

    /// What a container sees of some directories: mode, owner and time of the uppermost layer that has an entry for them.
    #[test]
    fn privileged_what_layers_say_nothing_about_is_kept() {
        if !is_root("privileged_what_layers_say_nothing_about_is_kept") {
            return;
        }
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::open(&directory.path().join("store")).unwrap();
        let rootfs = directory.path().join("rootfs");
        fs::create_dir(&rootfs).unwrap();
        let shown = |tars: Vec<Tar>, paths: &[&str]| -> Vec<String> {
            let layers: Vec<_> = tars.into_iter().map(|tar| tar.publish(&store)).collect();
            let container = store.container().unwrap();
            let _mounted = overlay(&layers, container, rootfs.clone()).unwrap();
            let look = |path: &&str| match fs::symlink_metadata(rootfs.join(path)) {
                Err(_) => format!("no {path}"),
                Ok(found) => {
                    let (mode, time) = (found.mode() & 0o7777, found.mtime());
                    format!(
                        "{path} {mode:o} {}:{} {}",
                        found.uid(),
                        found.gid(),
                        time % 10
                    )
                }
            };
            paths.iter().map(look).collect()
        };
        let directory = |tar: Tar, path: &str, mode, owner: u64, time: u64| {
            tar.entry_with(EntryType::Directory, path, "", b"", |header| {
                header.set_mode(mode);
                header.set_uid(owner);
                header.set_gid(owner);
                header.set_mtime(1_700_000_000 + time);
            })
        };
        let base = || {
            let tar = directory(Tar::default(), "./", 0o711, 0, 1);
            let tar = directory(tar, "tmp", 0o1777, 0, 2);
            let tar = directory(tar, "home", 0o750, 5, 3);
            let tar = tar.pax(&[("SCHILY.xattr.user.kept", b"yes")]);
            directory(tar, "home/u", 0o700, 1000, 4).file("home/u/old", "x")
        };
        let (tmp, home, user) = ("tmp 1777 0:0 2", "home 750 5:5 3", "home/u 700 1000:1000 4");
        let paths = ["", "tmp", "home", "home/u"];

        let over = Tar::default().file("tmp/x", "x").file("home/u/f", "x");
        assert_eq!(
            shown(vec![base(), over], &paths),
            [" 711 0:0 1", tmp, home, user]
        );
        let hiding = Tar::default().file("home/u/.wh.old", "");
        let between = Tar::default().file("home/u/f", "x");
        let all = shown(
            vec![base(), between, hiding],
            &["home/u", "home/u/old", "home/u/f"],
        );
        assert_eq!(all[..2], [user, "no home/u/old"]);

        // The uppermost entry counts, not the lowest, and not what lies below something hidden.
        let middle = directory(Tar::default(), "home/u", 0o711, 7, 5);
        let middle = directory(middle, ".", 0o700, 0, 6);
        let over = || Tar::default().file("home/u/f", "x");
        assert_eq!(
            shown(vec![base(), middle, over()], &["", "home", "home/u"]),
            [" 700 0:0 6", home, "home/u 711 7:7 5"]
        );
        let hidden = || Tar::default().file(".wh.home", "");
        let all = shown(vec![base(), hidden(), over()], &["home/u", "home/u/old"]);
        assert!(all[0].starts_with("home/u 755 0:0 "), "{all:?}");
        assert_eq!(all[1], "no home/u/old");
        let all = shown(vec![base(), hidden().file("home/u/f", "x")], &["home/u"]);
        assert!(all[0].starts_with("home/u 755 0:0 "), "{all:?}");
        let opaque = directory(Tar::default(), "home", 0o755, 0, 7);
        let opaque = opaque.file("home/.wh..wh..opq", "");
        let all = shown(
            vec![base(), opaque, over()],
            &["home", "home/u", "home/u/old"],
        );
        assert!(all[1].starts_with("home/u 755 0:0 "), "{all:?}");
        assert_eq!(
            (&all[0][..], &all[2][..]),
            ("home 755 0:0 7", "no home/u/old")
        );

        // Everything in the root may be hidden too, but the root stays what it was.
        let opaque = Tar::default().file(".wh..wh..opq", "").file("new", "x");
        let all = shown(vec![base(), opaque], &["", "tmp", "new"]);
        assert_eq!(all[..2], [" 711 0:0 1", "no tmp"]);
        assert!(all[2].starts_with("new 644"), "{all:?}");
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
