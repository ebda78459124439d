//! Disks and shares without a VM.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::io::{FdFlags, fcntl_getfd};
use tempfile::TempDir;

use super::*;

/// A node whose files are on a disk, with these further settings.
fn node(max_total: Option<&str>) -> (TempDir, Scratch) {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let settings = Scratch {
        size: "512M".parse().ok(),
        directory: directory.path().join("scratch"),
        max_total: max_total.map(|text| text.parse().unwrap()),
    };
    (directory, settings)
}

fn make(node: &(TempDir, Scratch)) -> Result<ScratchDisk, ScratchError> {
    let device = Device::of_machine("q35").unwrap();
    ScratchDisk::make(&node.1, node.0.path(), device).map(Option::unwrap)
}

#[test]
fn a_disk_is_a_sparse_file_without_a_name() {
    let node = node(None);
    let disk = make(&node).unwrap();
    let metadata = disk.file.metadata().unwrap();
    assert_eq!(metadata.len(), 512 << 20);
    assert_eq!((metadata.nlink(), metadata.mode() & 0o7777), (0, 0o600));
    assert!(metadata.blocks() < 100);
    let mut start = [0; 16];
    disk.file.read_exact_at(&mut start, 0).unwrap();
    assert_eq!(&start, b"kcscrtch\0\0\0\0\0\0\0\0");
    assert_eq!(std::fs::read_dir(&node.1.directory).unwrap().count(), 0);
    disk.keep_across_exec().unwrap();
    for file in [&disk.file, &disk.share] {
        assert_eq!(fcntl_getfd(file).unwrap(), FdFlags::empty());
    }
    let descriptor = disk.file.as_raw_fd();
    assert_eq!(
        disk.arguments(),
        [
            "-add-fd",
            &format!("fd={descriptor},set=1000001,opaque=imagepuller-scratch"),
            "-blockdev",
            "driver=raw,node-name=imagepuller-scratch,file.driver=file,\
             file.filename=/dev/fdset/1000001",
            "-device",
            "virtio-blk-pci,id=imagepuller-scratch,drive=imagepuller-scratch,\
             serial=imagepuller-scratch,config-wce=off,werror=report,rerror=report,bus=pcie.0",
        ]
    );
}

#[test]
fn only_living_disks_count() {
    let node = node(Some("1G"));
    let one = make(&node).unwrap();
    let two = make(&node).unwrap();
    let error = make(&node).unwrap_err().to_string();
    assert!(
        error.contains("have 1073741824 of the 1073741824"),
        "{error}"
    );
    // As after the death of its last process; a copy keeps it alive.
    let copy = one.share.try_clone().unwrap();
    drop(one);
    make(&node).unwrap_err();
    drop(copy);
    let three = make(&node).unwrap();
    make(&node).unwrap_err();
    drop((two, three));
    let shares = node.0.path().join("kata-configdev/scratch");
    drop(make(&node).unwrap());
    assert_eq!(
        std::fs::read_dir(shares).unwrap().count(),
        2,
        "lock and one"
    );
}

#[test]
fn places_that_cannot_hold_it_are_refused() {
    let mut node = node(None);
    let directory = node.1.directory.clone();
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
    let error = make(&node).unwrap_err();
    assert!(error.to_string().contains("mode 0777"), "{error}");
    node.1.directory = tempfile::tempdir_in("/dev/shm").unwrap().path().into();
    let error = make(&node).unwrap_err();
    assert!(matches!(error, ScratchError::InMemory(_)), "{error}");
    std::fs::remove_dir(&node.1.directory).unwrap();
    node.1.directory = directory.join("other");
    node.1.size = "64T".parse().ok();
    let error = make(&node).unwrap_err();
    assert!(matches!(error, ScratchError::NoRoom { .. }), "{error}");
    assert!(error.remedy().contains("scratch.size"));
}
