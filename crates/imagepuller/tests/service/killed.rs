//! A service that is killed at any moment, and the one after it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::support::{Puller, Site, Tmpfs, is_mounted, names, wait_until};
use rustix::mount::{UnmountFlags, unmount};
use vm_harness::archive::Tar;
use vm_harness::layout::{self, Compression};

/// How often, unless `CONFIGDEV_KILL_ROUNDS` says another number.
const ROUNDS: u64 = 12;

/// Three layers of some hundred files each, so that there is time to be killed in.
fn archives() -> Vec<(Vec<u8>, Compression)> {
    let layer = |number: usize| {
        let mut tar = Tar::default();
        for file in 0..400 {
            let name = format!("layer{number}/d{}/f{file}", file % 20);
            tar = tar.file(&name, format!("{number} {file} ").repeat(file * 4));
        }
        let tar = tar.hard_link(format!("layer{number}/link"), format!("layer{number}/d1/f1"));
        let hidden = format!("layer{}/d1/.wh.f21", number.saturating_sub(1));
        tar.file(&hidden, "").bytes()
    };
    vec![
        (layer(0), Compression::Gzip),
        (layer(1), Compression::Zstd),
        (layer(2), Compression::Gzip),
    ]
}

/// Every file below a directory with its size, and the sum of all bytes.
fn tree(root: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
                continue;
            }
            let content = fs::read(entry.path()).unwrap();
            let sum = (0..).zip(content).map(|(at, byte)| at * u64::from(byte));
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap();
            found.insert(name.display().to_string(), sum.sum());
        }
    }
    found
}

#[test]
fn privileged_what_a_killed_service_left_is_never_used_and_never_kept() {
    vm_harness::needs_root!();
    let rounds =
        std::env::var("CONFIGDEV_KILL_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let site = Site::with(|path| layout::of_archives(path, archives()).unwrap());
    site.push(&site.layout);
    let name = site.image();
    let mut puller = Puller::start(&site.scratch, Some(&site.document("localhost")));
    let began = Instant::now();
    let expected = tree(&puller.pull(&name, "first"));
    let whole = began.elapsed();
    assert_eq!(expected.len(), 3 * 401 - 2, "files that none hides");
    unmount(puller.rootfs("first"), UnmountFlags::DETACH).unwrap();
    let (mut killed_early, mut kept_layers) = (0, 0);
    for round in 0..rounds {
        puller.kill();
        for layer in names(&puller.store("layers")) {
            fs::remove_dir_all(puller.store("layers").join(layer)).unwrap();
        }
        puller.restart();
        let mut request = puller.ask(&name, "killed");
        // Spread over the time of a pull and a little longer, in an order without a pattern.
        let part = (round * 617 % 1000) as u32;
        std::thread::sleep(whole * part / 900);
        puller.kill();
        request.wait().unwrap();
        let rootfs = puller.rootfs("killed");
        if is_mounted(&rootfs) {
            // It got so far: then what is mounted is whole.
            assert_eq!(tree(&rootfs), expected, "round {round}");
            unmount(&rootfs, UnmountFlags::DETACH).unwrap();
        } else {
            killed_early += 1;
        }
        kept_layers += names(&puller.store("layers")).len();

        puller.restart();
        let bundle = format!("round{round}");
        let pulled = tree(&puller.pull(&name, &bundle));
        assert_eq!(pulled, expected, "round {round}");
        unmount(puller.rootfs(&bundle), UnmountFlags::DETACH).unwrap();
        let staging = names(&puller.store("staging"));
        assert!(staging.is_empty(), "round {round}: {staging:?}");
        assert_eq!(names(&puller.store("layers")).len(), 3);
        let left = names(&puller.store(""));
        let is_odd = |name: &&String| name.starts_with("abandoned") || name.contains("tmp");
        assert_eq!(left.iter().find(is_odd), None, "round {round}");
    }
    println!(
        "{rounds} rounds of {whole:?}: {killed_early} killed before the mount, {kept_layers} \
        layers kept of them"
    );
    assert!(rounds < 10 || killed_early > 0, "every pull was faster than the signal");
    // Directories of containers whose mounts are gone do not pile up for ever.
    let containers = || names(&puller.store("containers"));
    // Another test may have copied our mounts into a namespace of its own, whose end is not announced:
    // a mount that changes here makes the service look again.
    let nudge = site.scratch.path().join("nudge");
    wait_until(
        || format!("{:?}", containers()),
        || {
            drop(Tmpfs::mount(nudge.clone(), c"mode=700"));
            containers().len() <= 1
        },
    );
}
