//! An image that does not fit.

use vm_harness::archive::Tar;
use vm_harness::layout::{self, Compression};

use crate::support::{Puller, Site, Tmpfs, names, noise, wait_until};

/// 330 of 400 MiB of a guest's memory were once kept for a pull that could never end well.
#[test]
fn privileged_a_pull_that_cannot_fit_gives_back_what_it_brought() {
    vm_harness::needs_root!();
    let small = Tar::default().file("small", "fits").bytes();
    let site = Site::with(|path| {
        let layers = vec![(small.clone(), Compression::Gzip)];
        layout::of_archives(path, layers).unwrap()
    });
    site.push(&site.layout);
    // Its layers fit as they travel, and the first of them unpacked, too.
    let large = Tar::default().file("large", noise(3 << 20, 3)).bytes();
    let growing = Tar::default().file("growing", vec![7; 20 << 20]).bytes();
    let layers = [small, large, growing].map(|layer| (layer, Compression::Gzip));
    let path = site.scratch.path().join("too-large");
    let too_large = layout::of_archives(&path, layers.into()).unwrap();
    let registry = &site.registry;
    registry
        .push(&site.scratch, &too_large.path, "team/large")
        .unwrap();
    let too_large = format!(
        "localhost:{}/team/large@{}",
        registry.port(),
        too_large.manifest
    );

    let directory = tempfile::tempdir_in(site.scratch.path()).unwrap().keep();
    std::mem::forget(Tmpfs::mount(directory.join("store"), c"mode=700,size=12m"));
    let puller = Puller::start_in(directory, Some(&site.document("localhost")));
    let kept = |puller: &Puller| names(&puller.store("layers"));
    for before in [0, 1] {
        puller.refuse(&too_large, 69, &["the layers need more than there is"]);
        assert_eq!(kept(&puller).len(), before);
        wait_until(
            || "waste is left",
            || names(&puller.store("waste")).is_empty(),
        );
        // What an image has that is used stays, also if the one that does not fit has it too.
        puller.pull(&site.image(), &format!("small-{before}"));
        assert_eq!(kept(&puller).len(), 1);
        if before == 1 {
            return;
        }
    }
}
