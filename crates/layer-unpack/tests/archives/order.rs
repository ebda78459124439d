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

fn time(seconds: u64) -> impl FnOnce(&mut Header) {
    move |header| header.set_mtime(seconds)
}

fn times(layer: &Layer, paths: &[&str]) -> Vec<i64> {
    let time = |path: &&str| layer.root.join(path).symlink_metadata().unwrap().mtime();
    paths.iter().map(time).collect()
}

/// A directory with two names once got the time of the entry whose name comes first in the
/// alphabet. And one that was replaced by its other name gave its time to where the new link leads.
#[test]
fn privileged_the_last_entry_of_a_directory_gives_its_time() {
    vm_harness::needs_root!();
    let tar = Tar::default()
        .directory_with("d", time(1))
        .symlink("a", "d")
        .directory_with("a/x", time(2))
        .directory_with("d/x", time(3))
        .directory_with("z", time(4))
        .directory_with("a/y", time(5))
        .symlink("d/y", "../z")
        .directory_with("./", time(6));
    let layer = unpacked(tar);
    assert_eq!(times(&layer, &["d", "d/x", "z", ""]), [1, 3, 4, 6]);
}

/// The way down is kept open for what comes next, to a certain depth.
#[test]
fn privileged_deep_directories_and_their_neighbours_get_their_times() {
    vm_harness::needs_root!();
    let mut paths = Vec::new();
    let mut parent = String::new();
    for _ in 0..40 {
        paths.extend(["a", "m", "m.", "z"].map(|name| format!("{parent}{name}")));
        parent += "m/";
    }
    let mut tar = Tar::default();
    for (at, path) in paths.iter().enumerate() {
        tar = tar.directory_with(path, time(at as u64));
    }
    for path in &paths {
        tar = tar.file(format!("{path}/file"), "x");
    }
    let layer = unpacked(tar);
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    let expected: Vec<_> = (0..paths.len() as i64).collect();
    assert_eq!(times(&layer, &paths), expected);
}
