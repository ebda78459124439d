//! Many pulls at once through one service, of images that share layers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{LIMIT, PASSWORD, Puller, USER, entry, is_root};
use test_http::pki::Authority;
use vm_harness::archive::Tar;
use vm_harness::layout::{self, Compression, Layout};
use vm_harness::{Registry, Scratch};

const LAYERS: usize = 8;
const IMAGES: usize = 10;
const PULLS: usize = 50;

/// A layer with a file of its own and one that the uppermost layer wins.
fn layer(number: usize) -> (Vec<u8>, Compression) {
    let mut tar = Tar::default().file("uppermost", number.to_string());
    for file in 0..60 {
        tar = tar.file(format!("l{number}/f{file}"), "x".repeat(file * 100));
    }
    let kind = if number.is_multiple_of(2) {
        Compression::Gzip
    } else {
        Compression::Zstd
    };
    (tar.bytes(), kind)
}

/// Which layers an image has, bottom first.
fn layers_of(image: usize) -> Vec<usize> {
    (0..4)
        .map(|at| (image * 3 + at * (1 + image % 3)) % LAYERS)
        .collect()
}

fn image(scratch: &Scratch, registry: &Registry, number: usize) -> Layout {
    let path = scratch.path().join(format!("image{number}"));
    let archives = layers_of(number).into_iter().map(layer).collect();
    let image = layout::of_archives(&path, archives).unwrap();
    registry.push(scratch, &image.path, "team/app").unwrap();
    image
}

#[test]
fn privileged_fifty_pulls_of_overlapping_images_fetch_each_layer_once() {
    if !is_root("privileged_fifty_pulls_of_overlapping_images_fetch_each_layer_once") {
        return;
    }
    let scratch = Scratch::new().unwrap();
    let authority = Authority::new("test authority").unwrap();
    let registry = Registry::start(&scratch, &authority, &["localhost"], USER, PASSWORD).unwrap();
    let images: Vec<_> = (0..IMAGES)
        .map(|number| image(&scratch, &registry, number))
        .collect();
    let document = entry("localhost", USER, PASSWORD, authority.certificate());
    let puller = Puller::start(&scratch, Some(&document));
    let before = registry.log().len();
    let requests: Vec<(usize, Child)> = (0..PULLS)
        .map(|pull| {
            let name = &images[pull % IMAGES].manifest;
            let request = Command::new(env!("CARGO_BIN_EXE_imagepuller"))
                .args(["request", "--socket"])
                .arg(puller.socket())
                .arg(format!("localhost:{}/team/app@{name}", registry.port()))
                .arg(puller.rootfs(&format!("b{pull}")).parent().unwrap())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn();
            (pull, request.unwrap())
        })
        .collect();
    for (pull, request) in requests {
        let output = request.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "pull {pull}: {error}\n{}",
            puller.log()
        );
        let rootfs = puller.rootfs(&format!("b{pull}"));
        let layers = layers_of(pull % IMAGES);
        let uppermost = fs::read_to_string(rootfs.join("uppermost")).unwrap();
        assert_eq!(uppermost, layers.last().unwrap().to_string(), "pull {pull}");
        let wanted: BTreeSet<_> = layers.iter().map(|layer| format!("l{layer}")).collect();
        let found: BTreeSet<_> = fs::read_dir(&rootfs)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "uppermost")
            .collect();
        assert_eq!(found, wanted, "pull {pull}");
        // What one container writes no other one sees.
        fs::write(rootfs.join("uppermost"), "mine").unwrap();
    }
    let blobs: BTreeSet<&String> = images.iter().flat_map(|image| &image.layers).collect();
    let fetched = || {
        let log = registry.log().split_off(before);
        let count = |blob: &String| {
            let request = format!("/blobs/{blob}");
            let is_answer = |line: &&str| {
                line.contains("http.request.method=GET")
                    && line.contains(&request)
                    && line.contains("http.response.status=200")
            };
            log.lines().filter(is_answer).count()
        };
        let counts = blobs.iter().map(|blob| (*blob, count(blob)));
        counts.collect::<BTreeMap<&String, usize>>()
    };
    // The registry logs an answer after its last byte, and the puller may be faster.
    let start = Instant::now();
    while fetched().values().any(|count| *count == 0) && start.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(20));
    }
    let fetched = fetched();
    assert!(fetched.values().all(|count| *count == 1), "{fetched:?}");
    puller.wait_for_unfinished();
}
