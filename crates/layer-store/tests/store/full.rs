//! A store without room: what it says, and that nothing is left of what did not fit.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use layer_store::Error;
use layer_store::store::Store;
use vm_harness::archive::Tar;

use crate::fixture::{Failed, Small, count, digest_of, publish, try_publish, wait_until};

const MEBIBYTE: usize = 1 << 20;

fn file_of(name: &str, bytes: usize) -> Tar {
    Tar::default().file(name, name.repeat(bytes / name.len()))
}

/// Whether the error says how much there is and what to do.
fn assert_full(failed: Failed) -> String {
    let text = failed.to_string();
    assert!(matches!(failed, Failed::Store(Error::Full { .. })), "{text}");
    assert!(text.contains(" bytes") && text.contains("larger image store"), "{text}");
    text
}

/// A layer that does not fit leaves nothing; one that just fits is taken.
fn fill(small: &Small) {
    let store = Store::open(&small.path.join("store")).unwrap();
    let before = store.room().unwrap();
    assert!(before.free_bytes <= before.total_bytes);
    let error = try_publish(&file_of("large", 17 * MEBIBYTE).bytes(), &store).unwrap_err();
    assert_full(error);
    assert_eq!(count(&small.path.join("store/staging")), 0);
    assert_eq!(count(&small.path.join("store/layers")), 0);
    wait_until(|| store.room().unwrap().free_files == before.free_files);
    assert!(before.free_bytes - store.room().unwrap().free_bytes <= 64 << 10);

    // All but what a directory or a list of blocks may take.
    let free_for_data = usize::try_from(store.room().unwrap().free_bytes).unwrap() - MEBIBYTE / 4;
    let fits = publish(file_of("fits", free_for_data), &store);
    assert_eq!(fs::metadata(fits.root().join("fits")).unwrap().len(), free_for_data as u64);
    // Nothing more fits now, and what is in use is not given up for it.
    let error = try_publish(&file_of("more", 2 * MEBIBYTE).bytes(), &store).unwrap_err();
    assert_full(error);
    let error = store.make_room(2 << 20, 0).unwrap_err();
    let text = assert_full(error.into());
    assert!(text.contains("at least 2097152 bytes"), "{text}");
    assert!(fits.root().is_dir());
    drop(fits);
    // Another test may be starting a program, which holds our open files for a moment.
    wait_until(|| store.make_room(2 << 20, 0).is_ok());
    assert_eq!(count(&small.path.join("store/layers")), 0);
    publish(file_of("more", 2 * MEBIBYTE), &store);
}

#[test]
fn privileged_a_full_tmpfs() {
    vm_harness::needs_root!();
    fill(&Small::tmpfs("size=16m"));
}

#[test]
fn privileged_a_full_ext4() {
    vm_harness::needs_root!();
    fill(&Small::ext4(16, "1024"));
}

/// As many layers go as must, those that were not used for the longest time.
#[test]
fn privileged_room_is_made_of_what_is_longest_unused() {
    vm_harness::needs_root!();
    let small = Small::tmpfs("size=16m");
    let store = Store::open(&small.path.join("store")).unwrap();
    let names = ["a", "b", "c", "d", "e"];
    let tars = names.map(|name| file_of(name, 3 * MEBIBYTE).bytes());
    for tar in &tars {
        try_publish(tar, &store).unwrap();
        sleep(Duration::from_millis(20));
    }
    let layer = |at: usize| store.layer(&digest_of(&tars[at]));
    // Used again, and used now.
    drop(layer(0));
    let held = layer(1);
    store.make_room(0, 6 << 20).unwrap();
    let there = names.map(|name| {
        let at = names.iter().position(|other| *other == name).unwrap();
        let path = small.path.join("store/layers");
        path.join(digest_of(&tars[at]).file_name()).exists()
    });
    assert_eq!(there, [true, true, false, false, true]);
    drop(held);
    // As much as wanted cannot be had, but enough.
    store.make_room(1 << 20, 64 << 20).unwrap();
    assert_eq!(count(&small.path.join("store/layers")), 0);
}

/// There is room for bytes, but for no more files.
fn use_up_files(small: &Small) {
    let store = Store::open(&small.path.join("store")).unwrap();
    let free = store.room().unwrap().free_files.unwrap();
    let many = (0..500).fold(Tar::default(), |tar, number| tar.file(number.to_string(), "x"));
    let error = try_publish(&many.bytes(), &store).unwrap_err();
    let text = assert_full(error);
    assert!(text.contains(" and 0 files free"), "{text}");
    assert_eq!(count(&small.path.join("store/staging")), 0);

    // Another test may be starting a program, which holds our open files for a moment.
    wait_until(|| store.room().unwrap().free_files == Some(free));
    // The directory of the layer, its root, its list.
    let few = (0..free - 3).fold(Tar::default(), |tar, number| tar.file(number.to_string(), "x"));
    let layer = publish(few, &store);
    assert_eq!(store.room().unwrap().free_files, Some(0));
    let error = store.container(vec![layer.clone()]).unwrap_err();
    assert_full(error.into());
    assert_eq!(count(&small.path.join("store/containers")), 0);
    assert_full(store.make_room(0, 0).unwrap_err().into());
    drop(layer);
    store.make_room(0, 0).unwrap();
    wait_until(|| store.room().unwrap().free_files == Some(free));
    assert_eq!(store.collect().unwrap().layers, 0);
}

#[test]
fn privileged_a_tmpfs_without_inodes() {
    vm_harness::needs_root!();
    use_up_files(&Small::tmpfs("size=16m,nr_inodes=200"));
}

#[test]
fn privileged_an_ext4_without_inodes() {
    vm_harness::needs_root!();
    use_up_files(&Small::ext4(16, "128"));
}

/// The kernel's words are those of a full file system, and more memory was recommended for it.
#[test]
fn privileged_an_attribute_too_large_for_the_file_system_is_named() {
    vm_harness::needs_root!();
    let small = Small::ext4(16, "1024");
    let store = Store::open(&small.path.join("store")).unwrap();
    let large = [("SCHILY.xattr.user.large", &[7; 32 << 10][..])];
    let layer = Tar::default().pax(&large).file("decorated", "x").bytes();
    let error = try_publish(&layer, &store).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Failed::Layer(_)), "{text}");
    assert!(text.contains("attribute") && text.contains("decorated"), "{text}");
}

#[test]
fn privileged_an_overlay_is_no_place_for_a_store() {
    vm_harness::needs_root!();
    let small = Small::tmpfs("size=16m");
    let below = Store::open(&small.path.join("below")).unwrap();
    let rootfs = small.path.join("rootfs");
    fs::create_dir(&rootfs).unwrap();
    let layer = publish(Tar::default().file("file", "x"), &below);
    let container = below.container(vec![layer]).unwrap();
    let _mounted = layer_store::mount::overlay(container, rootfs.clone()).unwrap();
    let error = Store::open(&rootfs.join("store")).unwrap_err();
    assert!(error.to_string().contains("overlay file system"), "{error}");
}
