//! `imagepuller list` and `imagepuller gc`, beside a running service and without one.

use std::path::PathBuf;
use std::process::Output;

use crate::support::{Puller, Site, imagepuller, names, wait_until};
use rustix::mount::{UnmountFlags, unmount};
use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    imagepuller(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn privileged_layers_are_shown_and_removed() {
    vm_harness::needs_root!();
    let site = Site::start();
    let mut puller = Puller::start(&site.scratch, Some(&site.document("localhost")));
    let rootfs: PathBuf = puller.pull(&site.image(), "bundle");
    let store = puller.store("");
    let store = store.to_str().unwrap();
    let socket = puller.socket();
    let socket = socket.to_str().unwrap();

    let list = || json(&["list", "--json", "--store", store]);
    let count = site.layout.layers.len();
    let layers = list();
    let layers = layers.as_array().unwrap();
    assert_eq!(layers.len(), count);
    for layer in layers {
        assert!(layer["digest"].as_str().unwrap().starts_with("sha256:"));
        assert!(layer["diskBytes"].is_u64() && layer["lastUsed"].is_u64());
        assert_eq!(layer["users"][0], *rootfs.to_string_lossy());
    }
    let text = String::from_utf8(run(&["list", "--store", store]).stdout).unwrap();
    assert_eq!(text.lines().count(), count, "{text}");
    assert!(text.contains(&*rootfs.to_string_lossy()), "{text}");

    // What is mounted stays, and the store is the service's as long as it runs.
    let none = json(&["gc", "--dry-run", "--json", "--store", store]);
    assert_eq!(none, Value::Array(Vec::new()));
    let collected = json(&["gc", "--json", "--socket", socket]);
    assert_eq!(collected["layers"], 0);
    assert!(std::fs::read_dir(&rootfs).unwrap().count() > 0);
    let output = run(&["gc", "--store", store]);
    assert_eq!(output.status.code(), Some(70));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("another imagepuller"), "{error}");
    assert!(error.contains("--socket"), "{error}");

    unmount(&rootfs, UnmountFlags::DETACH).unwrap();
    let candidates = || json(&["gc", "--dry-run", "--json", "--store", store]);
    let is_unused = || candidates().as_array().unwrap().len() == count;
    wait_until(|| "a mount that is gone is still a user", is_unused);
    let kept = json(&["gc", "--json", "--unused-for", "3600", "--socket", socket]);
    assert_eq!(kept["layers"], 0);
    assert_eq!(list().as_array().unwrap().len(), count);
    let collected = json(&["gc", "--json", "--socket", socket]);
    assert_eq!(collected["layers"], count);
    assert_eq!(list(), Value::Array(Vec::new()));

    // And without a service.
    let rootfs = puller.pull(&site.image(), "bundle");
    unmount(&rootfs, UnmountFlags::DETACH).unwrap();
    assert!(puller.terminate().success());
    // A clock that was set back says nothing about the age of a layer: what gc would remove, and does.
    let future = std::time::SystemTime::now() + std::time::Duration::from_secs(86_400);
    for name in names(&puller.store("layers")) {
        let layer = std::fs::File::open(puller.store("layers").join(name)).unwrap();
        layer.set_modified(future).unwrap();
    }
    let old = ["gc", "--dry-run", "--json", "--unused-for", "3600", "--store", store];
    let is_unused = || json(&old).as_array().unwrap().len() == count;
    wait_until(|| "a mount that is gone is still a user", is_unused);
    let text = String::from_utf8(run(&["gc", "--store", store]).stdout).unwrap();
    assert!(text.contains(&format!("removed {count} layers")), "{text}");
    assert_eq!(list(), Value::Array(Vec::new()));
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("none");
    for command in ["list", "gc"] {
        let output = run(&[command, "--store", store.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(70), "{command}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("none"), "{error}");
        assert!(!store.exists());
    }
    let output = run(&["gc", "--socket", "/nonexistent/socket"]);
    assert_eq!(output.status.code(), Some(69));
    for wrong in [&["gc"][..], &["gc", "--store", "/a", "--socket", "/b"], &["list"]] {
        assert_eq!(run(wrong).status.code(), Some(64), "{wrong:?}");
    }
}
