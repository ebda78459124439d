//! Several pulls at once, and a pull that nobody waits for any more.

use std::fs;
use std::sync::Arc;

use crate::support::{LIMIT, Puller, Site, documents, mount_points};
use futures_util::future::join_all;
use imagepuller::pull::{Options, Puller as InProcess};
use layer_store::store::Store;
use rustix::mount::{UnmountFlags, unmount};

/// Two pulls into one bundle both looked before either mounted, and both succeeded with one overlay
/// upon the other.
#[test]
fn privileged_a_bundle_takes_one_image() {
    vm_harness::needs_root!();
    let site = Site::start();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let document = directory.path().join("imagepuller.toml");
    fs::write(&document, site.document("localhost")).unwrap();
    let store = Arc::new(Store::open(&directory.path().join("store")).unwrap());
    let puller = Arc::new(InProcess::new(store, documents(document), Options::default()));
    let image = site.image();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    for round in 0..20 {
        let bundle = directory.path().join(round.to_string());
        let path = bundle.to_str().unwrap();
        let results =
            runtime.block_on(join_all([(); 8].map(|()| puller.pull(&image, path, LIMIT))));
        let rootfs = bundle.join("rootfs");
        let points = mount_points();
        let count = points.iter().filter(|point| **point == rootfs.to_string_lossy()).count();
        for _ in 0..count {
            unmount(&rootfs, UnmountFlags::DETACH).unwrap();
        }
        let pulled = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!((pulled, count), (1, 1), "{results:?}");
    }
}

/// A small blob that becomes gigabytes: zstd blocks of one repeated byte, as the content of an
/// entry that is read and not written (RFC 8878, "Blocks").
fn bomb(size: usize) -> Vec<u8> {
    let block = |kind: usize, size: usize| (size << 3 | kind << 1).to_le_bytes();
    let mut header = tar::Header::new_gnu();
    header.set_path(".wh..wh.bomb").unwrap();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0);
    header.set_size(1 << 50);
    header.set_cksum();
    let mut blob = vec![0x28, 0xb5, 0x2f, 0xfd, 0, (17 - 10) << 3];
    blob.extend_from_slice(&block(0, 512)[..3]);
    blob.extend_from_slice(header.as_bytes());
    while blob.len() + 4 <= size {
        blob.extend_from_slice(&block(1, 128 << 10)[..3]);
        blob.push(0);
    }
    blob.resize(size, 0);
    blob
}

/// The threads of a pull went on after its caller had given up, and an end of the service waited
/// for them.
#[test]
fn privileged_work_that_nobody_waits_for_ends() {
    vm_harness::needs_root!();
    let site = Site::start();
    let document = site.document("localhost");
    let mut puller = Puller::start_with(&site.scratch, &document, &["--linger", "0"]);
    let size = |digest: &String| fs::metadata(site.registry.blob(digest)).unwrap().len();
    let largest = site.layout.layers.iter().max_by_key(|digest| size(digest));
    let blob = site.registry.blob(largest.unwrap());
    let bytes = bomb(usize::try_from(fs::metadata(&blob).unwrap().len()).unwrap());
    fs::write(&blob, bytes).unwrap();
    let mut client = puller.client(&site.image(), "bundle");
    let output = client.args(["--timeout", "2"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    // On a busy machine the client's own timer may be first.
    let passed = ["deadline of 2 s passed", "deadline elapsed"];
    assert!(passed.iter().any(|words| error.contains(words)), "{error}");
    puller.wait_for_unfinished();
    assert!(puller.terminate().success());
}
