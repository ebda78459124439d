//! Directories that change while there are things in them, and ways to them that change.
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use tar::{EntryType, Header};
use vm_harness::archive::Tar;

use crate::support::{Layer, unpacked};

fn group(mode: u32, gid: u64) -> impl FnOnce(&mut Header) {
    move |header| {
        header.set_mode(mode);
        header.set_gid(gid);
    }
}

fn seen(layer: &Layer, path: &str) -> (u32, u32) {
    let stat = layer.root.join(path).symlink_metadata().unwrap();
    (stat.mode() & 0o7777, stat.gid())
}

/// A file gets the group of a set-group-ID directory, whichever name the directory was reached by
/// and whenever it got that.
#[test]
fn privileged_groups_are_those_of_the_entries() {
    vm_harness::needs_root!();
    let tar = Tar::default()
        .directory("d")
        .symlink("link", "d")
        .file("link/before", "x")
        .file("d/before-too", "x")
        .directory_with("d", group(0o2775, 50))
        .file("link/after", "x")
        .file("d/after-too", "x")
        .directory("link/directory")
        .symlink("link/symlink", "x")
        .entry(EntryType::Fifo, "link/pipe", "", b"")
        .file_with("link/own", b"x", group(0o2640, 50))
        .directory_with("d", group(0o755, 0))
        .file_with("link/last", b"x", group(0o640, 50))
        .file_with("d/last-too", b"x", group(0o604, 0));
    let layer = unpacked(tar);
    for name in ["before", "before-too", "after", "after-too", "pipe"] {
        assert_eq!(seen(&layer, &format!("d/{name}")), (0o644, 0), "{name}");
    }
    assert_eq!(seen(&layer, "d/directory"), (0o755, 0));
    assert_eq!(seen(&layer, "d/symlink"), (0o777, 0));
    assert_eq!(seen(&layer, "d/own"), (0o2640, 50));
    assert_eq!(seen(&layer, "d/last"), (0o640, 50));
    assert_eq!(seen(&layer, "d/last-too"), (0o604, 0));
    assert_eq!(seen(&layer, "d"), (0o755, 0));
}

/// What was a way to a directory leads elsewhere later, and what was put there stays there.
#[test]
fn privileged_ways_may_change() {
    vm_harness::needs_root!();
    let tar = Tar::default()
        .directory("a")
        .directory("b")
        .directory("a/d")
        .directory("b/d")
        .symlink("way", "a")
        .file("way/first", "x")
        .symlink("way", "b")
        .file("way/second", "x")
        .directory("way")
        .file("way/third", "x")
        .file("way", "a file")
        .symlink("far", "way2/d")
        .symlink("way2", "a")
        .file("far/in-a", "x")
        .symlink("way2", "b")
        .file("far/in-b", "x");
    let layer = unpacked(tar);
    for path in ["a/first", "b/second", "a/d/in-a", "b/d/in-b"] {
        assert!(layer.root.join(path).is_file(), "{path}");
    }
    assert_eq!(fs::read(layer.root.join("way")).unwrap(), b"a file");
    let count = |path: &str| fs::read_dir(layer.root.join(path)).unwrap().count();
    assert_eq!((count("a"), count("b")), (2, 2));
}
