//! A store whose directory is mounted over, or mounted late.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use crate::support::{Puller, Site, Tmpfs, imagepuller, wait_until};
use rustix::mount::{UnmountFlags, unmount};

/// Kata's agent mounts a volume over the image directory before the first pull. After that every
/// pull failed for ever, with "cannot measure .../store".
#[test]
fn privileged_what_is_mounted_over_a_store_is_the_next_one() {
    vm_harness::needs_root!();
    let site = Site::start();
    let puller = Puller::start(&site.scratch, Some(&site.document("localhost")));
    let one = puller.pull(&site.image(), "one");
    let layers = File::open(puller.store("layers")).unwrap();
    let hidden = PathBuf::from(format!("/proc/self/fd/{}", layers.as_raw_fd()));
    let count = |path: &PathBuf| fs::read_dir(path).map_or(0, Iterator::count);
    let place = puller.store("").parent().unwrap().to_owned();
    let over = Tmpfs::mount(place, c"mode=700");

    let two = puller.pull(&site.image(), "two");
    assert_eq!(count(&puller.store("layers")), site.layout.layers.len());
    assert_eq!(count(&hidden), site.layout.layers.len());
    assert_eq!(count(&one), count(&two));

    // Nobody can pull from the hidden one any more: with its last container all of it goes.
    unmount(&one, UnmountFlags::DETACH).unwrap();
    wait_until(|| puller.log(), || count(&hidden) == 0);
    assert_eq!(count(&puller.store("layers")), site.layout.layers.len());

    // And the first one comes back where the second is taken away.
    unmount(&two, UnmountFlags::DETACH).unwrap();
    drop(over);
    puller.pull(&site.image(), "three");
    assert_eq!(count(&hidden), site.layout.layers.len());
}

#[test]
fn privileged_a_pull_waits_for_the_file_system_of_its_store() {
    vm_harness::needs_root!();
    let site = Site::start();
    let puller = Puller::start_before_mount(&site.scratch, &site.document("localhost"));
    let mut waiting = puller.ask(&site.image(), "bundle");
    let is_waiting = || puller.log().contains("waiting for a file system");
    wait_until(|| puller.log(), is_waiting);
    let place = puller.store("").parent().unwrap().to_owned();
    assert!(!place.exists());
    let _mounted = Tmpfs::mount(place, c"mode=700");
    assert!(waiting.wait().unwrap().success(), "{}", puller.log());
    assert!(puller.store("layers").is_dir());
}

#[test]
fn a_store_outside_of_its_file_system_is_a_mistake() {
    let mut serve = imagepuller(["serve", "--listen", "unix:/x", "--config", "/x"]);
    serve.args(["--store", "/run/a", "--store-mount", "/run/b"]);
    let output = serve.output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--store-mount"));
}
