//! A directory made of layers is what the kernel shows of the same layers: both are compared, entry
//! by entry.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use layer_store::flatten::flatten;
use layer_store::layer::Layer;
use layer_store::mount;
use layer_store::store::Store;
use proptest::prelude::*;
use vm_harness::archive::Tar;

use crate::fixture::publish;

/// Names that meet each other often.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// One step of a layer.
#[derive(Clone, Debug)]
enum Step {
    File(String, u8),
    Directory(String, u32),
    Symlink(String),
    Whiteout(String),
    Opaque(String),
}

fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(&NAMES[..]), 1..4)
        .prop_map(|parts| parts.join("/"))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (path(), any::<u8>()).prop_map(|(path, byte)| Step::File(path, byte)),
        3 => (path(), 0..4u32).prop_map(|(path, mode)| Step::Directory(path, 0o700 | mode)),
        1 => path().prop_map(Step::Symlink),
        2 => path().prop_map(Step::Whiteout),
        1 => path().prop_map(Step::Opaque),
    ]
}

/// The archive of a layer; what a path goes through is a directory in it, as in the archives of
/// real builders.
fn archive(steps: &[Step]) -> Tar {
    let mut kinds: BTreeMap<&str, bool> = BTreeMap::new();
    let mut tar = Tar::default();
    for step in steps {
        let (path, is_directory) = match step {
            Step::File(path, _) | Step::Symlink(path) => (path.as_str(), false),
            Step::Directory(path, _) | Step::Opaque(path) => (path.as_str(), true),
            Step::Whiteout(path) => (path.as_str(), false),
        };
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        if above.clone().any(|above| kinds.get(above) == Some(&false))
            || kinds.get(path).is_some_and(|known| *known != is_directory)
            || kinds.contains_key(path) && !is_directory
            || !is_directory && kinds.keys().any(|known| known.starts_with(&format!("{path}/")))
        {
            continue;
        }
        for above in above {
            kinds.insert(above, true);
        }
        kinds.insert(path, is_directory);
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        tar = match step {
            Step::File(_, byte) => tar.file(path, vec![*byte; usize::from(*byte)]),
            Step::Directory(_, mode) => tar.directory_with(path, |header| {
                header.set_mode(*mode);
                header.set_uid(u64::from(*mode));
                header.set_mtime(1_600_000_000 + u64::from(*mode));
            }),
            Step::Symlink(_) => tar.symlink(path, "target"),
            Step::Whiteout(_) => tar.file(format!("{parent}/.wh.{name}"), ""),
            Step::Opaque(_) => tar.file(format!("{path}/.wh..wh..opq"), ""),
        };
    }
    tar
}

/// Everything about every entry below a directory that a container can see.
fn look(root: &Path) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        let found = match fs::symlink_metadata(&path) {
            // Where an overlay has nothing to merge it lists the whiteouts of a layer, though
            // nothing is there.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            found => found.unwrap(),
        };
        let kind = found.file_type();
        assert!(!kind.is_char_device(), "a whiteout is left at {}", path.display());
        let content = if kind.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            paths.extend(entries.map(|entry| entry.unwrap().path()));
            let mut value = [0; 8];
            let opaque = rustix::fs::lgetxattr(&path, "trusted.overlay.opaque", &mut value);
            assert!(opaque.is_err(), "a mark is left at {}", path.display());
            String::new()
        } else if kind.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            format!("{:?}", fs::read(&path).unwrap().iter().collect::<Vec<_>>())
        };
        // A directory without an entry anywhere has the time at which it was made.
        let is_new = found.mtime() > 1_750_000_000;
        let time = if is_new { 0 } else { found.mtime() };
        let shown = format!("{kind:?} {:o} {} {time} {content}", found.mode(), found.uid());
        let name = path.strip_prefix(root).unwrap().display().to_string();
        seen.insert(name, shown);
    }
    seen
}

/// What the kernel shows of layers, and what they are made into.
fn both(layers: &[Tar]) -> [BTreeMap<String, String>; 2] {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::open(&directory.path().join("store")).unwrap();
    let publish_all = || -> Vec<Layer> {
        let layers = layers.iter().cloned();
        layers.map(|tar| publish(tar, &store)).collect()
    };
    let rootfs = directory.path().join("rootfs");
    fs::create_dir(&rootfs).unwrap();
    let container = store.container(publish_all()).unwrap();
    let mounted = mount::overlay(container, rootfs.clone()).unwrap();
    let shown = look(&rootfs);
    drop(mounted);
    let flat = directory.path().join("flat");
    flatten(&publish_all(), &flat).unwrap();
    [shown, look(&flat)]
}

#[test]
fn privileged_any_layers_become_what_the_kernel_shows_of_them() {
    vm_harness::needs_root!();
    let config =
        ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() };
    let layers = proptest::collection::vec(proptest::collection::vec(step(), 0..8), 1..5);
    proptest!(config, |(layers in layers)| {
        let archives: Vec<_> = layers.iter().map(|steps| archive(steps)).collect();
        let [shown, flat] = both(&archives);
        prop_assert_eq!(shown, flat, "{:?}", layers);
    });
}

#[test]
fn privileged_links_attributes_and_depth_survive() {
    vm_harness::needs_root!();
    let deep = ["d"; 400].join("/");
    let lower = Tar::default()
        .pax(&[("path", format!("{deep}/old").as_bytes())])
        .file("x", "old")
        .file("file", "x")
        .hard_link("link", "file");
    let upper = Tar::default()
        .pax(&[("path", format!("{deep}/new").as_bytes())])
        .file("x", "new")
        .pax(&[("SCHILY.xattr.user.kept", b"yes")])
        .directory("d");
    let [shown, flat] = both(&[lower, upper]);
    assert_eq!(shown, flat);
    assert_eq!(flat.keys().filter(|name| name.ends_with("/new")).count(), 1);
}
