//! What a container sees, and mounts undone.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use layer_store::Error;
use layer_store::limits::MAX_LAYERS;
use layer_store::mount::overlay;
use layer_store::store::Store;
use rustix::mount::{UnmountFlags, unmount};
use vm_harness::archive::Tar;

use crate::fixture::{Place, allow_descriptors, publish};

#[test]
fn privileged_as_many_layers_as_linux_joins() {
    vm_harness::needs_root!();
    allow_descriptors();
    let directory = Place::new();
    let store = Store::open(&directory.path().join("store")).unwrap();
    let rootfs = directory.path().join("rootfs");
    fs::create_dir(&rootfs).unwrap();
    let mut layers: Vec<_> = (0..=MAX_LAYERS)
        .map(|number| {
            let own = format!("f{number}");
            let text = number.to_string();
            publish(Tar::default().file(&own, &text).file("top", &text), &store)
        })
        .collect();
    let container = store.container(layers.clone()).unwrap();
    let error = overlay(container, rootfs.clone()).unwrap_err();
    assert!(matches!(error, Error::TooManyLayers { count: 501 }), "{error}");
    layers.pop();
    // One that comes twice is one.
    layers.push(layers[7].clone());
    for count in [1, 127, 128, 200, layers.len()] {
        let used = &layers[..count];
        let mounted = overlay(store.container(used.to_vec()).unwrap(), rootfs.clone()).unwrap();
        let top = if count > MAX_LAYERS { 7 } else { count - 1 };
        let read = |name: &str| fs::read_to_string(rootfs.join(name)).unwrap();
        assert_eq!(read("top"), top.to_string());
        for number in 0..count.min(MAX_LAYERS) {
            assert_eq!(read(&format!("f{number}")), number.to_string());
        }
        fs::write(rootfs.join("written"), "x").unwrap();
        drop(mounted);
    }
    let left = fs::read_dir(directory.path().join("store/containers"));
    assert_eq!(left.unwrap().count(), 0);
}

#[test]
fn privileged_a_mount_that_nobody_waits_for_is_undone() {
    vm_harness::needs_root!();
    let directory = Place::new();
    let store = Store::open(&directory.path().join("store")).unwrap();
    let layers = ["lower", "upper"].map(|name| {
        let tar = Tar::default().file("file", name);
        publish(tar, &store)
    });
    let rootfs = directory.path().join("rootfs");
    fs::create_dir(&rootfs).unwrap();
    let mount = || {
        let container = store.container(layers.to_vec()).unwrap();
        overlay(container, rootfs.clone()).unwrap()
    };
    let containers = || fs::read_dir(directory.path().join("store/containers")).unwrap().count();

    let mounted = mount();
    assert_eq!(fs::read(rootfs.join("file")).unwrap(), b"upper");
    drop(mounted);
    assert!(!rootfs.join("file").exists());
    assert_eq!(containers(), 0);

    // What came there since is somebody else's, and what it hides is still in use.
    let mounted = mount();
    rustix::mount::mount_bind(directory.path(), &rootfs).unwrap();
    drop(mounted);
    assert!(rootfs.join("store").is_dir());
    assert_eq!(containers(), 1);
    unmount(&rootfs, UnmountFlags::empty()).unwrap();
    assert!(rootfs.join("file").exists());
    unmount(&rootfs, UnmountFlags::empty()).unwrap();

    assert_eq!(mount().keep(), rootfs);
    assert!(rootfs.join("file").exists());
    assert_eq!(containers(), 2);
    unmount(&rootfs, UnmountFlags::empty()).unwrap();
}

/// What a container sees of some directories: mode, owner and time of the uppermost layer that has
/// an entry for them.
#[test]
fn privileged_what_layers_say_nothing_about_is_kept() {
    vm_harness::needs_root!();
    let directory = Place::new();
    let store = Store::open(&directory.path().join("store")).unwrap();
    let rootfs = directory.path().join("rootfs");
    fs::create_dir(&rootfs).unwrap();
    let shown = |tars: Vec<Tar>, paths: &[&str]| -> Vec<String> {
        let layers: Vec<_> = tars.into_iter().map(|tar| publish(tar, &store)).collect();
        let container = store.container(layers).unwrap();
        let _mounted = overlay(container, rootfs.clone()).unwrap();
        let look = |path: &&str| match fs::symlink_metadata(rootfs.join(path)) {
            Err(_) => format!("no {path}"),
            Ok(found) => {
                let (mode, time) = (found.mode() & 0o7777, found.mtime());
                format!("{path} {mode:o} {}:{} {}", found.uid(), found.gid(), time % 10)
            }
        };
        paths.iter().map(look).collect()
    };
    let directory = |tar: Tar, path: &str, mode, owner: u64, time: u64| {
        tar.directory_with(path, |header| {
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
    assert_eq!(shown(vec![base(), over], &paths), [" 711 0:0 1", tmp, home, user]);
    let hiding = Tar::default().file("home/u/.wh.old", "");
    let between = Tar::default().file("home/u/f", "x");
    let all = shown(vec![base(), between, hiding], &["home/u", "home/u/old", "home/u/f"]);
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
    let all = shown(vec![base(), opaque, over()], &["home", "home/u", "home/u/old"]);
    assert!(all[1].starts_with("home/u 755 0:0 "), "{all:?}");
    assert_eq!((&all[0][..], &all[2][..]), ("home 755 0:0 7", "no home/u/old"));

    // Everything in the root may be hidden too, but the root stays what it was.
    let opaque = Tar::default().file(".wh..wh..opq", "").file("new", "x");
    let all = shown(vec![base(), opaque], &["", "tmp", "new"]);
    assert_eq!(all[..2], [" 711 0:0 1", "no tmp"]);
    assert!(all[2].starts_with("new 644"), "{all:?}");
}

/// Access control lists are taken over like owner and mode, and are not spread to what is below by
/// inheritance.
#[test]
fn privileged_lists_of_directories_without_an_entry() {
    vm_harness::needs_root!();
    let directory = Place::new();
    let store = Store::open(&directory.path().join("store")).unwrap();
    let rootfs = directory.path().join("rootfs");
    fs::create_dir(&rootfs).unwrap();
    // Version 2; owner rwx, user 1000 r, group r-x, mask rwx, others nothing: see
    // linux/posix_acl_xattr.h.
    let list: Vec<u8> = [(1, 7, u32::MAX), (2, 4, 1000), (4, 5, u32::MAX)]
        .into_iter()
        .chain([(0x10, 7, u32::MAX), (0x20, 0, u32::MAX)])
        .flat_map(|(tag, rights, id): (u16, u16, u32)| {
            let (tag, rights) = (tag.to_le_bytes(), rights.to_le_bytes());
            [&tag[..], &rights, &id.to_le_bytes()].concat()
        })
        .collect();
    let list = [&2u32.to_le_bytes()[..], &list].concat();
    let kinds = ["system.posix_acl_access", "system.posix_acl_default"];
    let records = kinds.map(|kind| (format!("SCHILY.xattr.{kind}"), &list[..]));
    let [access, default] = &records;
    let base = Tar::default()
        .pax(&[(&access.0, access.1), (&default.0, default.1)])
        .directory("home")
        .directory("home/u");
    let over = Tar::default().file("home/u/f", "x");
    let layers = [base, over].map(|tar| publish(tar, &store));
    let container = store.container(layers.to_vec()).unwrap();
    let _mounted = overlay(container, rootfs.clone()).unwrap();
    let read = |path: &str, kind| {
        let mut value = vec![0; 200];
        let length = rustix::fs::getxattr(rootfs.join(path), kind, &mut value[..]).ok()?;
        value.truncate(length);
        Some(value)
    };
    for kind in kinds {
        assert_eq!(read("home", kind).as_ref(), Some(&list), "{kind}");
        assert_eq!(read("home/u", kind), None, "{kind}");
    }
    let mode = |path| fs::metadata(rootfs.join(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("home"), mode("home/u")), (0o770, 0o755));
}
