//! The whole service against a real registry: what it mounts, and what it says when it does not.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use crate::support::{PASSWORD, Puller, Site, USER, entry, is_mounted, wait_until};
use test_http::pki::Authority;
use vm_harness::{Registry, Scratch};

#[test]
fn privileged_an_image_is_pulled_checked_and_mounted() {
    vm_harness::needs_root!();
    let site = Site::start();
    let mut puller = Puller::start(&site.scratch, Some(&site.document("localhost")));
    assert_eq!(fs::metadata(puller.socket()).unwrap().permissions().mode() & 0o777, 0o600);
    let rootfs = puller.pull(&site.image(), "c1");
    assert!(is_mounted(&rootfs));
    for (path, (mode, _)) in &site.layout.files {
        let found = fs::symlink_metadata(rootfs.join(path)).unwrap();
        assert_eq!(found.mode() & 0o7777, *mode, "{path}");
    }
    assert_eq!(fs::read(rootfs.join("etc/motd")).unwrap(), b"pulled inside the guest\n");
    let blob = |digest: &str| fs::read(site.registry.blob(digest)).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&blob(&site.layout.manifest)).unwrap();
    let configuration = rootfs.parent().unwrap().join("image-config.json");
    assert_eq!(
        fs::read(configuration).unwrap(),
        blob(manifest["config"]["digest"].as_str().unwrap()),
        "byte for byte as its digest names it"
    );
    assert!(!rootfs.join("etc/removed").exists(), "the whiteout has no effect");
    assert_eq!(fs::read_link(rootfs.join("bin/sh")).unwrap().to_str(), Some("busybox"));
    let names = ["lib/libc-2.36.so", "lib/libc-hard.so"]
        .map(|name| fs::metadata(rootfs.join(name)).unwrap().ino());
    assert_eq!(names[0], names[1]);

    // A second container shares the layers and nothing that is written.
    fs::write(rootfs.join("etc/motd"), "changed").unwrap();
    let is_logged = |digest: &String| {
        let request = format!("GET /v2/team/app/blobs/{digest}");
        site.registry.statuses(&request).contains(&200)
    };
    // The registry logs an answer after its last byte, and the puller may be faster.
    wait_until(|| site.registry.log(), || site.layout.layers.iter().all(is_logged));
    let requests = site.registry.log().matches("/blobs/").count();
    let second = puller.pull(&site.image(), "c2");
    assert_eq!(fs::read(second.join("etc/motd")).unwrap(), b"pulled inside the guest\n");
    let again = site.registry.log().matches("/blobs/").count() - requests;
    assert!(again <= 4, "layers were fetched again: {again} requests for blobs");

    let output = puller.request(&site.image(), "c1");
    assert_eq!(output.status.code(), Some(65));
    assert!(String::from_utf8_lossy(&output.stderr).contains("mounted already"));

    assert!(!puller.log().contains(PASSWORD));
    assert!(puller.terminate().success());
    assert!(!puller.socket().exists());
}

#[test]
fn privileged_what_is_wrong_is_said_and_nothing_is_mounted() {
    vm_harness::needs_root!();
    let site = Site::start();
    let puller = Puller::start(&site.scratch, None);
    let (image, host) = (site.image(), format!("localhost:{}", site.registry.port()));
    let certificate = site.authority.certificate();

    puller.refuse(&image, 69, &[&image, &host, "unknown authority", "no entry of "]);
    let tag = format!("{host}/team/app:1");
    puller.refuse(&tag, 65, &["no digest", &format!("{host}/team/app@sha256:"), "skopeo inspect"]);

    puller.configure(&entry("other.corp", USER, PASSWORD, certificate));
    puller.refuse(&image, 69, &["unknown authority", "no entry of ", "matches this host"]);

    puller.configure(&entry("localhost", USER, "wrong", certificate));
    puller.refuse(
        &image,
        69,
        &[
            &host,
            "refused the credentials of entry \"localhost.\" (401 Unauthorized)",
            "imagepuller.toml",
        ],
    );

    puller.configure(&format!(
        "[registries.\"localhost\"]\nca-certs = \"\"\"\n{certificate}\"\"\"\n"
    ));
    puller.refuse(&image, 69, &["wants credentials", "asked anonymously", "entry \"localhost.\""]);

    let other = Authority::new("another authority").unwrap();
    puller.configure(&entry("localhost", USER, PASSWORD, other.certificate()));
    puller.refuse(
        &image,
        69,
        &["unknown authority", "the 1 in \"ca-certs\" of entry \"localhost.\""],
    );

    puller.configure(&entry("localhost", USER, PASSWORD, ""));
    puller.refuse(&image, 69, &["is forbidden", "holds no certificate"]);

    puller.configure("[registries.\"localhost\"]\npasword = \"correct horse\"\n");
    puller.refuse(&image, 65, &["is not valid", "line 2", "pasword"]);

    // A key of a later version: whatever it says, the pull must not go without it.
    let later = format!("made-up-key = \"x\"\n{}", site.document("localhost"));
    puller.configure(&later);
    puller.refuse(&image, 65, &["is not valid", "line 1: made-up-key"]);

    puller.configure("node-error = \"no such file\\u001b\\n\"\n");
    let says = "nothing is pulled without it; the node says: no such file\\u{1b}\\n";
    puller.refuse(&image, 65, &["the node has no configuration", says]);

    // Corrected without a restart.
    puller.configure(&site.document("localhost"));
    let missing = format!("{host}/team/app@sha256:{}", "0".repeat(64));
    puller.refuse(&missing, 69, &["404 Not Found", "team/app"]);
    puller.pull(&image, "c1");
}

#[test]
fn privileged_a_flipped_byte_is_found_at_every_level() {
    vm_harness::needs_root!();
    let site = Site::start();
    let manifest = fs::read(site.registry.blob(&site.layout.manifest)).unwrap();
    let text: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let config = text["config"]["digest"].as_str().unwrap().to_owned();
    // In the manifest one that leaves it readable, or the registry itself would refuse it.
    let layer = site.layout.layers[0].trim_start_matches("sha256:").as_bytes();
    let in_manifest = manifest.windows(layer.len()).position(|window| window == layer).unwrap();
    let mut flips = vec![(site.layout.manifest.clone(), Some(in_manifest)), (config, None)];
    flips.extend(site.layout.layers.iter().map(|digest| (digest.clone(), None)));
    for (digest, at) in flips {
        // With a new store, for a layer that was verified once is not fetched again.
        let puller = Puller::start(&site.scratch, Some(&site.document("localhost")));
        let path = site.registry.blob(&digest);
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[at.unwrap_or(good.len() / 2)] ^= 1;
        fs::write(&path, bad).unwrap();
        puller.refuse(&site.image(), 65, &[&format!("expected {digest}, but something else came")]);
        fs::write(&path, good).unwrap();
        puller.pull(&site.image(), "c1");
    }
}

#[test]
fn privileged_a_mirror_is_asked_first_and_the_registry_without_credentials() {
    vm_harness::needs_root!();
    let site = Site::start();
    let scratch = Scratch::new().unwrap();
    let mirror =
        Registry::start(&scratch, &site.authority, &["localhost"], USER, PASSWORD).unwrap();
    let document = format!(
        "{}mirror = \"https://localhost:{}\"\n",
        site.document(&format!("localhost:{}", site.registry.port())),
        mirror.port()
    );
    let puller = Puller::start(&site.scratch, Some(&document));
    puller.refuse(&site.image(), 69, &[&format!("localhost:{}", mirror.port()), "404 Not Found"]);
    let fallback = format!("{document}mirror-fallback = true\n");
    puller.configure(&fallback);
    puller.refuse(
        &site.image(),
        69,
        &["every source failed", "mirror localhost", "registry localhost", "asked anonymously"],
    );
    mirror.push(&scratch, &site.layout.path, "team/app").unwrap();
    puller.pull(&site.image(), "c1");
    assert!(
        mirror.log().contains(&format!("ns=localhost%3A{}", site.registry.port())),
        "{}",
        mirror.log()
    );
}
