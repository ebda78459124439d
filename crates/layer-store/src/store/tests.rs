//! Names in a store, and what a service finds that an earlier one left.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use layer_unpack::Unpacked;
use oci_image::digest::Digest;

fn verified() -> Unpacked {
    Unpacked {
        entries: 0,
        plain_bytes: 0,
        hides: false,
        implied: [&b""[..], b"home/u"].map(<[u8]>::to_vec).into(),
    }
}

fn digest_of(digit: &str) -> Digest {
    Digest::parse(&format!("sha256:{}", digit.repeat(64))).unwrap()
}

fn digest() -> Digest {
    digest_of("0")
}

fn count(path: &Path) -> usize {
    fs::read_dir(path).unwrap().count()
}

#[test]
fn a_layer_has_a_name_only_after_it_was_published() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("a/b")).unwrap();
    let (staging, _) = store.stage(&digest()).unwrap();
    fs::write(staging.path.join("root/file"), "content").unwrap();
    assert!(store.layer(&digest()).is_none());
    let dropped = staging.path.clone();
    drop(staging);
    assert!(!dropped.exists());
    let (staging, _) = store.stage(&digest()).unwrap();
    staging.publish(&verified()).unwrap();
    let layer = store.layer(&digest()).unwrap();
    assert!(layer.root().is_dir());
    assert_eq!(layer.implied().unwrap(), [&b""[..], b"home/u"]);
}

/// The thread of a pull that was given up outlives it and may end together with that of the next:
/// the second was refused the name, and that was reported as an internal error.
#[test]
fn a_layer_may_be_published_twice() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let stagings = [(), ()].map(|()| store.stage(&digest()).unwrap().0);
    for staging in stagings {
        fs::write(staging.path.join("root/file"), "content").unwrap();
        let layer = staging.publish(&verified()).unwrap();
        assert_eq!(fs::read(layer.root().join("file")).unwrap(), b"content");
    }
    assert_eq!(count(&directory.path().join("staging")), 0);
}

#[test]
fn privileged_what_cannot_be_removed_does_not_keep_the_service_from_starting() {
    vm_harness::needs_root!();
    let directory = tempfile::tempdir().unwrap();
    drop(Store::open(directory.path()).unwrap());
    let busy = directory.path().join("staging/0");
    fs::create_dir(&busy).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", &busy, "tmpfs", flags, None::<&std::ffi::CStr>).unwrap();
    let store = Store::open(directory.path());
    let waste = directory.path().join("waste");
    let opened = store.as_ref().map(|store| {
        store.tidy();
        store.tidy();
    });
    let left = count(&waste);
    let aside = fs::read_dir(&waste).unwrap().next().unwrap().unwrap();
    let aside = aside.path().join("0");
    rustix::mount::unmount(&aside, rustix::mount::UnmountFlags::empty()).unwrap();
    opened.unwrap();
    assert_eq!(left, 1);
    let store = store.unwrap();
    store.stage(&digest()).unwrap();
    store.tidy();
    assert_eq!(count(&waste), 0);
}

/// What was in the way of removing it once lay in `staging` until the next service started.
#[test]
fn privileged_what_cannot_be_removed_yet_is_removed_later() {
    vm_harness::needs_root!();
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let (staging, _) = store.stage(&digest()).unwrap();
    let busy = staging.path.join("root/busy");
    fs::create_dir(&busy).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", &busy, "tmpfs", flags, None::<&std::ffi::CStr>).unwrap();
    drop(staging);
    let waste = directory.path().join("waste");
    let left = (count(&directory.path().join("staging")), count(&waste));
    let mut places = [directory.path().join("staging"), waste.clone()]
        .into_iter()
        .flat_map(|place| fs::read_dir(place).unwrap());
    let busy = places.next().unwrap().unwrap().path().join("root/busy");
    rustix::mount::unmount(&busy, rustix::mount::UnmountFlags::empty()).unwrap();
    assert_eq!(left, (0, 1));
    store.tidy();
    assert_eq!(count(&waste), 0);
}

#[test]
fn a_store_has_one_user_and_forgets_what_was_unfinished() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    assert!(Store::open(directory.path()).unwrap_err().to_string().contains("another imagepuller"));
    let (staging, _) = store.stage(&digest()).unwrap();
    std::mem::forget(staging);
    let containers = directory.path().join("containers");
    let container = store.container(Vec::new()).unwrap();
    assert!(container.upper().is_dir() && container.work().is_dir());
    container.keep();
    assert_eq!(count(&containers), 1);
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(count(&directory.path().join("staging")), 0);
    assert_eq!(count(&containers), 0);
    let waste = directory.path().join("waste");
    assert_eq!(count(&waste), 2);
    store.tidy();
    assert_eq!(count(&waste), 0);
}

#[test]
fn nobody_else_can_reach_anything() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    fs::create_dir(&path).unwrap();
    set_mode(&path, 0o777).unwrap();
    let _store = Store::open(&path).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o700);
    for entry in fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()) & 0o077, 0);
    }
}

#[test]
fn one_layer_has_one_flight() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let first = store.flight(&digest());
    assert!(Arc::ptr_eq(&first, &store.flight(&digest())));
    let other = store.flight(&digest_of("1"));
    assert!(!Arc::ptr_eq(&first, &other));
    assert_eq!(store.flights.lock().unwrap().len(), 2);
    // A lock is a flight too, and one that nobody holds any more is forgotten.
    let locked = first.try_lock_owned().unwrap();
    drop(other);
    assert!(store.flight(&digest()).try_lock().is_err());
    assert_eq!(store.flights.lock().unwrap().len(), 1);
    drop(locked);
    let _other = store.flight(&digest_of("1"));
    assert_eq!(store.flights.lock().unwrap().len(), 1);
}
