//! Many pulls at once through one service, of images that share layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::{Puller, Site, wait_until};
use vm_harness::archive::Tar;
use vm_harness::layout::{self, Compression, Layout};

const LAYERS: usize = 8;
const IMAGES: usize = 10;
const PULLS: usize = 50;

/// A layer with a file of its own and one that the uppermost layer wins.
fn layer(number: usize) -> (Vec<u8>, Compression) {
    let mut tar = Tar::default().file("uppermost", number.to_string());
    for file in 0..60 {
        tar = tar.file(format!("l{number}/f{file}"), "x".repeat(file * 100));
    }
    let kind = if number.is_multiple_of(2) { Compression::Gzip } else { Compression::Zstd };
    (tar.bytes(), kind)
}

/// Which layers an image has, bottom first.
fn layers_of(image: usize) -> Vec<usize> {
    (0..4).map(|at| (image * 3 + at * (1 + image % 3)) % LAYERS).collect()
}

fn image(path: &Path, number: usize) -> Layout {
    let archives = layers_of(number).into_iter().map(layer).collect();
    layout::of_archives(&path.with_extension(number.to_string()), archives).unwrap()
}

#[test]
fn privileged_fifty_pulls_of_overlapping_images_fetch_each_layer_once() {
    vm_harness::needs_root!();
    let mut site = Site::with(|path| image(path, 0));
    let images: Vec<_> = (0..IMAGES)
        .map(|number| {
            site.layout = image(&site.scratch.path().join("layout"), number);
            site.push(&site.layout);
            (site.image(), site.layout.layers.clone())
        })
        .collect();
    let registry = &site.registry;
    let puller = Puller::start(&site.scratch, Some(&site.document("localhost")));
    let before = registry.log().len();
    let requests: Vec<(usize, Child)> = (0..PULLS)
        .map(|pull| {
            let mut client = puller.client(&images[pull % IMAGES].0, &format!("b{pull}"));
            let client = client.stdout(Stdio::null()).stderr(Stdio::piped());
            (pull, client.spawn().unwrap())
        })
        .collect();
    for (pull, request) in requests {
        let output = request.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "pull {pull}: {error}\n{}", puller.log());
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
    let blobs: BTreeSet<&String> = images.iter().flat_map(|(_, layers)| layers).collect();
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
    let each = |holds: fn(usize) -> bool| fetched().into_values().all(holds);
    wait_until(|| registry.log(), || each(|count| count > 0));
    assert!(each(|count| count == 1), "{:?}", fetched());
    puller.wait_for_unfinished();
}
