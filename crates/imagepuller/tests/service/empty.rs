//! An image without a layer, which the specification allows.

use std::fs;

use vm_harness::layout;

use crate::support::{Puller, Site, imagepuller, is_mounted};

#[test]
fn privileged_an_image_without_a_layer_is_an_empty_root() {
    vm_harness::needs_root!();
    let site = Site::with(|path| layout::of_archives(path, Vec::new()).unwrap());
    site.push(&site.layout);
    let puller = Puller::start(&site.scratch, Some(&site.document("localhost")));
    for bundle in ["first", "second"] {
        let rootfs = puller.pull(&site.image(), bundle);
        assert!(is_mounted(&rootfs));
        assert_eq!(fs::read_dir(&rootfs).unwrap().count(), 0);
        fs::write(rootfs.join("file"), "each has its own").unwrap();
    }
    let output = site.scratch.path().join("output");
    let pulled = imagepuller(["pull", "--config"])
        .arg(puller.document())
        .arg("--output")
        .arg(&output)
        .arg(site.image())
        .output()
        .unwrap();
    assert!(pulled.status.success(), "{pulled:?}");
    assert_eq!(fs::read_dir(output.join("rootfs")).unwrap().count(), 0);
}
