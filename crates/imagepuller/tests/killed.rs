//! A service that is killed at any moment, and the one after it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};
use support::{PASSWORD, Puller, USER, entry, is_root};
use test_http::pki::Authority;
use vm_harness::archive::Tar;
use vm_harness::layout::{self, Compression};
use vm_harness::{Registry, Scratch};

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
        let tar = tar.hard_link(
            format!("layer{number}/link"),
            format!("layer{number}/d1/f1"),
        );
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
            let sum = content
                .iter()
                .enumerate()
                .map(|(at, byte)| at as u64 * u64::from(*byte));
            let name = entry
                .path()
                .strip_prefix(root)
                .unwrap()
                .display()
                .to_string();
            found.insert(name, sum.sum());
        }
    }
    found
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn privileged_what_a_killed_service_left_is_never_used_and_never_kept() {
    if !is_root("privileged_what_a_killed_service_left_is_never_used_and_never_kept") {
        return;
    }
    let rounds =
        std::env::var("CONFIGDEV_KILL_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let scratch = Scratch::new().unwrap();
    let authority = Authority::new("test authority").unwrap();
    let registry = Registry::start(&scratch, &authority, &["localhost"], USER, PASSWORD).unwrap();
    let image = layout::of_archives(&scratch.path().join("image"), archives()).unwrap();
    registry.push(&scratch, &image.path, "team/app").unwrap();
    let name = format!("localhost:{}/team/app@{}", registry.port(), image.manifest);
    let document = entry("localhost", USER, PASSWORD, authority.certificate());

    let mut puller = Puller::start(&scratch, Some(&document));
    let began = Instant::now();
    let expected = tree(&puller.pull(&name, "first"));
    let whole = began.elapsed();
    assert_eq!(expected.len(), 3 * 401 - 2, "files that none hides");
    unmount(puller.rootfs("first"), UnmountFlags::empty()).unwrap();
    let (mut killed_early, mut kept_layers) = (0, 0);
    for round in 0..rounds {
        puller.kill();
        for layer in names(&puller.store().join("layers")) {
            fs::remove_dir_all(puller.store().join("layers").join(layer)).unwrap();
        }
        puller.restart();
        let mut request = Command::new(env!("CARGO_BIN_EXE_imagepuller"))
            .args(["request", "--socket"])
            .arg(puller.socket())
            .arg(&name)
            .arg(puller.rootfs("killed").parent().unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Spread over the time of a pull and a little longer, in an order without a pattern.
        let part = (round * 617 % 1000) as u32;
        std::thread::sleep(whole * part / 900);
        puller.kill();
        request.wait().unwrap();
        let rootfs = puller.rootfs("killed");
        if support::is_mounted(&rootfs) {
            // It got so far: then what is mounted is whole.
            assert_eq!(tree(&rootfs), expected, "round {round}");
            unmount(&rootfs, UnmountFlags::DETACH).unwrap();
        } else {
            killed_early += 1;
        }
        kept_layers += names(&puller.store().join("layers")).len();

        puller.restart();
        let bundle = format!("round{round}");
        assert_eq!(
            tree(&puller.pull(&name, &bundle)),
            expected,
            "round {round}"
        );
        unmount(puller.rootfs(&bundle), UnmountFlags::empty()).unwrap();
        let staging = names(&puller.store().join("staging"));
        assert!(staging.is_empty(), "round {round}: {staging:?}");
        assert_eq!(names(&puller.store().join("layers")).len(), 3);
        let left = names(&puller.store());
        let is_odd = |name: &&String| name.starts_with("abandoned") || name.contains("tmp");
        assert_eq!(left.iter().find(is_odd), None, "round {round}");
    }
    println!(
        "{rounds} rounds of {whole:?}: {killed_early} killed before the mount, {kept_layers} \
        layers kept of them"
    );
    assert!(
        rounds < 10 || killed_early > 0,
        "every pull was faster than the signal"
    );
    // Directories of containers whose mounts are gone do not pile up for ever.
    let deadline = Instant::now() + Duration::from_secs(60);
    while names(&puller.store().join("containers")).len() > 1 {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            names(&puller.store().join("containers"))
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}
