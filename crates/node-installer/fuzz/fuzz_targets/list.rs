//! Invariant: whatever the list of an installation says, a removal ends with an answer, a file that
//! goes was proven by the list or was a secret of it, and a second removal changes nothing.
#![cfg_attr(fuzzing, no_main)]

use std::fs;
use std::path::Path;

use node_installer::rules::Rules;
use node_installer::{HostPath, Options, installation, uninstall};
use serde_json::Value;

const PREFIX: &str = "/opt/kata-configdev";
const OWNER: &str = "kube-system/kata-configdev";

/// The node's files, with their contents and the digests of these.
const FILES: [[&str; 3]; 5] = [
    [
        "/opt/kata-configdev/default/bin/kata-configdev-qemu",
        "wrapper\n",
        "fe3988d024c27629c7d925a52234710895d95a96f0a50011b202236967c884e5",
    ],
    [
        "/opt/kata-configdev/default/etc/host-config/imagepuller.toml",
        "document\n",
        "7aac4c0884d2c896b90bf4223ad7e57c1c02e589ad152de9f1bedcef6470ce62",
    ],
    [
        "/etc/kata-configdev/config.toml",
        "qemu = \"/usr/bin/qemu\"\ndocument = \"/run/d\"\n",
        "947e705e1153167bed94102ca59fce9c13f820c100664ebfbe3dd20051cf8c65",
    ],
    [
        "/opt/kata/qemu/config.d/zz-kata-configdev.toml",
        "[hypervisor.qemu]\npath = \"/opt/kata-configdev/default/bin/kata-configdev-qemu\"\n",
        "392b3d7980ab3731fc67ffd54d5f87afcde2c13209df8bf6c2011659c0bd976c",
    ],
    [
        "/etc/passwd",
        "root:x:0:0\n",
        "7cf1f940025c27c78e5e4a707519f0e06178702e6dc16722f3d48e13f5e60d9e",
    ],
];

fuzzing::target!(|list: &[u8]| {
    let place = tempfile::tempdir().expect("a directory");
    let node = place.path();
    for [path, content, _] in FILES {
        let path = below(node, path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, content).expect("a file");
    }
    fs::write(below(node, PREFIX).join("installed.json"), list).expect("a list");

    let prefix = HostPath::parse(PREFIX).expect("a path");
    if let Ok(Some(found)) = installation::look_at(node, &prefix, &[]) {
        assert!(found.missing.len() + found.staying.len() <= found.files);
    }
    let options = format!(
        "host = {node:?}\nprefix = {PREFIX:?}\nowner = {OWNER:?}\nwrapper = \"/w\"\nsets = {{}}\n"
    );
    let options = Options::parse(options.as_bytes(), Rules::NONE).expect("options");
    let removed = uninstall(&options).is_ok();
    let list = serde_json::from_slice(list).unwrap_or_default();
    let after = FILES.map(|[path, ..]| fs::read(below(node, path)).ok());
    for ([path, content, digest], after) in FILES.iter().zip(&after) {
        match after {
            Some(now) if now == content.as_bytes() => {}
            Some(_) => assert!(removed && is_named(&list, path), "{path} has changed"),
            None => assert!(removed && may_go(&list, path, digest), "{path} has gone"),
        }
    }
    if let Ok(outcome) = uninstall(&options) {
        assert_eq!(outcome.changes, 0);
    }
    let later = FILES.map(|[path, ..]| fs::read(below(node, path)).ok());
    assert_eq!(later, after);
});

fn below(node: &Path, path: &str) -> std::path::PathBuf {
    node.join(path.trim_start_matches('/'))
}

/// What the list says of a file.
fn named<'a>(list: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    let is_meant = move |entry: &&Value| {
        let said = entry["path"].as_str().and_then(|text| HostPath::parse(text).ok());
        said.is_some_and(|said| said.as_str() == path)
    };
    list["files"].as_array().into_iter().flatten().filter(is_meant)
}

fn is_named(list: &Value, path: &str) -> bool {
    list["owner"].as_str().is_none_or(|owner| owner == OWNER) && named(list, path).next().is_some()
}

/// Whether a removal may take a file. Of a list that this version knows, a secret at its place goes
/// whoever changed it.
fn may_go(list: &Value, path: &str, digest: &str) -> bool {
    let is_newer = list["format"].as_u64() > Some(2);
    let is_ours = |entry: &Value| {
        let digests = entry["sha256"].as_array().map_or(&[][..], Vec::as_slice);
        let kind = entry["kind"].as_str();
        let is_place = path.ends_with("/etc/host-config/imagepuller.toml");
        let is_secret = kind == Some("document") || kind.is_none() && is_place;
        let is_known = digests.iter().any(|known| known.as_str() == Some(digest));
        match is_secret {
            true => is_place && (is_known || !is_newer),
            false => is_known,
        }
    };
    is_named(list, path) && named(list, path).any(is_ours)
}
