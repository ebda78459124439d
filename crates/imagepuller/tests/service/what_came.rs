//! The host names a server that it cannot ask itself, and reads of its answers in the pod's events:
//! errors once had the hash and the length of whatever came.

use std::fs;

use confidential_fixtures::encrypted::{Key, KeyKind};
use oci_image::digest::Unverified;
use serde_json::json;
use test_http::{Server, ok, reply};

use crate::image_policy::place::{document, signed_by};
use crate::support::{Puller, Site, noise};

/// A length that no number of the test's has by chance.
const LENGTH: usize = 31_337;

#[test]
fn privileged_neither_hash_nor_length_of_what_came_is_told() {
    vm_harness::needs_root!();
    let site = Site::start();
    let manifest = &site.layout.manifest;
    let at = |digest: &str| site.registry.blob(digest);
    let parsed = fs::read(at(manifest)).unwrap();
    let parsed: serde_json::Value = serde_json::from_slice(&parsed).unwrap();
    let config = parsed["config"]["digest"].as_str().unwrap().to_owned();
    let layer = &site.layout.layers[0];
    let size = usize::try_from(fs::metadata(at(layer)).unwrap().len()).unwrap();
    for (what, digest, length) in [
        ("manifest", manifest, LENGTH),
        ("config", &config, LENGTH),
        ("layer", layer, size),
        ("layer of another length", layer, LENGTH),
    ] {
        let good = fs::read(at(digest)).unwrap();
        let mut foreign = noise(length, 7);
        if what == "manifest" {
            // The registry hands out nothing else.
            foreign.fill(b' ');
            foreign[..good.len()].copy_from_slice(&good);
        }
        let hash = Unverified::new(foreign.clone()).name_by_content().0;
        let hash = hash.to_string().replace("sha256:", "");
        fs::write(at(digest), foreign).unwrap();
        let document = site.document("localhost");
        for level in ["info", "debug"] {
            let more = ["--log-level", level, "--attempts", "2"];
            let puller = Puller::start_with(&site.scratch, &document, &more);
            let output = puller.request(&site.image(), "refused");
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(65), "{what}: {error}");
            let log = puller.log();
            let has = |text: &str| [text.contains(&hash), text.contains(&LENGTH.to_string())];
            assert_eq!(has(&error), [false; 2], "{what}: {error}");
            // The console has the log, and the host the console.
            let is_debug = level == "debug";
            assert_eq!(has(&log).contains(&true), is_debug, "{what}: {log}");
        }
        fs::write(at(digest), good).unwrap();
    }
}

/// What is under a tag has a digest that nobody knew before.
#[test]
fn privileged_the_digest_under_a_tag_is_not_told() {
    vm_harness::needs_root!();
    let site = Site::start();
    let foreign = "the answer of another server";
    let hash = Unverified::new(foreign.into()).name_by_content().0;
    let server =
        Server::start(None, move |request| match request.target.contains("/manifests/1?") {
            true => ok(foreign),
            false => reply("404 Not Found", "", ""),
        });
    let config = format!(
        "[registries.\"registry.test\"]\nmirror = \"http://localhost:{}\"\nplain-http = true\n",
        server.port
    );
    let puller = Puller::start(&site.scratch, Some(&config));
    let policy = json!({"default": [signed_by("team.pub", "matchRepository")]});
    puller.measure(&document(&policy, "allow-tags = [\"registry.test\"]\n"));
    let key = Key::generate(&site.scratch, "team", KeyKind::P256).unwrap();
    fs::copy(key.public(), puller.document().with_file_name("team.pub")).unwrap();
    let output = puller.request("registry.test/team/app:1", "refused");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{error}");
    let hash = hash.to_string();
    let hex = hash.rsplit(':').next().unwrap();
    for text in [error, puller.log()] {
        assert!(text.contains("sha256:..."), "{text}");
        assert!(!text.contains(hex), "{text}");
    }
}
