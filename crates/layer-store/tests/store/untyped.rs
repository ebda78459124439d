//! A file system whose directories do not say what their entries are.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use layer_store::flatten::flatten;
use layer_store::store::Store;
use rustix::fs::{Dir, FileType};
use vm_harness::archive::Tar;

use crate::fixture::{Small, publish};

/// Every directory was taken for a file there, and replaced what lower layers had in it.
#[test]
fn privileged_layers_are_flattened_without_types() {
    vm_harness::needs_root!();
    let small = Small::ext4_with(16, &["-O", "^filetype"]);
    let store = Store::open(&small.path.join("store")).unwrap();
    let listed = Dir::read_from(fs::File::open(&small.path).unwrap()).unwrap();
    let is_typed = |entry: rustix::io::Result<rustix::fs::DirEntry>| {
        entry.unwrap().file_type() != FileType::Unknown
    };
    assert!(!listed.into_iter().any(is_typed), "this file system notes types");

    let lower = Tar::default()
        .directory("d")
        .file("d/lower", "1")
        .file("d/hidden", "1")
        .directory("e")
        .directory("e/deep")
        .file("e/deep/.wh.nothing", "");
    let upper = Tar::default()
        .directory("d")
        .file("d/upper", "2")
        .file("d/.wh.hidden", "")
        .directory("new")
        .file("new/.wh.nothing", "");
    let layers = [publish(lower, &store), publish(upper, &store)];
    let target = small.path.join("flat");
    flatten(&layers, &target).unwrap();
    assert_eq!(fs::read(target.join("d/lower")).unwrap(), b"1");
    assert_eq!(fs::read(target.join("d/upper")).unwrap(), b"2");
    for whiteout in ["d/hidden", "e/deep/nothing", "new/nothing"] {
        assert!(fs::symlink_metadata(target.join(whiteout)).is_err(), "{whiteout}");
    }
    assert_eq!(fs::metadata(target.join("d")).unwrap().mode() & 0o170_000, 0o040_000);
}
