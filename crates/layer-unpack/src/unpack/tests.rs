//! What is kept until the end has a limit, and the end of the caller is seen there too.

use super::*;
use crate::caller::CallerGuard;
use crate::chunks::Chunks;
use crate::filling::Filler;
use crate::tree::ENTRY_BYTES;
use bytes::Bytes;
use std::fs::{self, File};
use std::iter;
use vm_harness::archive::Tar;

fn here() -> Files {
    Files::Here(Filler::default())
}

/// An unpacker below a directory that has so many bytes left for directories.
fn unpacker<'a>(root: &std::path::Path, left: usize, caller: &'a CallerWatch) -> Unpacker<'a> {
    Unpacker {
        tree: Tree::new(File::open(root).unwrap().into()).unwrap(),
        files: here(),
        endings: Endings::with_room(left),
        skipped_xattrs: 0,
        hides: false,
        caller,
    }
}

/// Short paths of directories, through symbolic links as many as an archive has entries, once cost
/// several times the limit.
#[test]
fn privileged_each_directory_counts_with_what_its_place_costs() {
    vm_harness::needs_root!();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let waiting = CallerGuard::default();
    let caller = waiting.watch();
    let mut unpacker = unpacker(directory.path(), 2 * (ENTRY_BYTES + 1), &caller);
    let archive = Tar::default().directory("a").directory("b").directory("c");
    let bytes = Bytes::from(archive.bytes());
    let mut archive = Archive::new(Chunks::new([bytes]), 3);
    let mut next = || {
        let entry = archive.next_entry().unwrap().unwrap();
        let path = EntryPath::parse(&entry.path).unwrap();
        unpacker.unpack(entry, &path, &mut archive)
    };
    next().unwrap();
    next().unwrap();
    let error = next().unwrap_err().to_string();
    assert!(error.contains("all directories' paths and ACLs"), "{error}");
}

/// Unpacks an archive for somebody who waits until so many bytes are left.
fn unpack_until(archive: Tar, left: usize) -> Result<Contents, UnpackError> {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let root = File::open(directory.path()).unwrap().into();
    let guard = CallerGuard::default();
    let caller = guard.watch();
    let mut waiting = Some(guard);
    let mut bytes = Bytes::from(archive.bytes());
    let blocks = iter::from_fn(|| {
        let block = (!bytes.is_empty()).then(|| bytes.split_to(512))?;
        if bytes.len() <= left {
            waiting = None;
        }
        Some(block)
    });
    unpack(&mut Chunks::new(blocks), root, 100, here(), &caller)
}

/// The last times and ACLs of a layer with very many directories.
#[test]
fn privileged_the_end_is_not_reached_for_nobody() {
    vm_harness::needs_root!();
    let archive = || Tar::default().directory("a").directory("b");
    assert_eq!(unpack_until(archive(), 0).unwrap().entries, 2);
    // The first of two blocks of zeros is read after the last entry.
    let error = unpack_until(archive(), 512).unwrap_err();
    assert!(matches!(error, UnpackError::Archive(_)), "{error:?}");
}

/// A file in the place of a tree that takes long to remove.
#[test]
fn privileged_a_tree_is_not_replaced_for_nobody() {
    vm_harness::needs_root!();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::create_dir(directory.path().join("a")).unwrap();
    fs::write(directory.path().join("a/file"), "x").unwrap();
    let waiting = CallerGuard::default();
    let caller = waiting.watch();
    drop(waiting);
    let mut unpacker = unpacker(directory.path(), 1 << 20, &caller);
    let bytes = Bytes::from(Tar::default().file("a", "").bytes());
    let mut archive = Archive::new(Chunks::new([bytes]), 1);
    let entry = archive.next_entry().unwrap().unwrap();
    let path = EntryPath::parse(&entry.path).unwrap();
    unpacker.unpack(entry, &path, &mut archive).unwrap_err();
    assert!(directory.path().join("a/file").exists());
}

/// Links lead to where no path of an archive does.
#[test]
fn privileged_a_directory_has_a_path_that_the_kernel_takes() {
    vm_harness::needs_root!();
    let long = vec!["d".repeat(250); 8].join("/");
    let archive = |name: usize| {
        let (below, last) = (format!("s/{long}"), "e".repeat(name));
        let file = |tar: Tar, path: String| tar.pax(&[("path", path.as_bytes())]).file("f", "");
        let link = |tar: Tar, name: &str, target: &str| {
            tar.pax(&[("linkpath", target.as_bytes())]).symlink(name, "x")
        };
        let tar = file(Tar::default(), format!("{long}/f"));
        let tar = link(tar, "s", &long);
        let tar = link(file(tar, format!("{below}/f")), "t", &below);
        tar.pax(&[("path", format!("t/{last}").as_bytes())]).directory("d")
    };
    unpack_until(archive(20), 0).unwrap();
    let error = unpack_until(archive(200), 0).unwrap_err().to_string();
    assert!(error.contains("without symbolic links"), "{error}");
}
