//! Images that cosign and skopeo signed, served by a mirror of the registry that they were in.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fault_registry::{Content, Script, What};
use serde_json::{Value, json};
use vm_harness::Scratch;

use super::place::{document, signed_by};
use crate::support::{Puller, misbehaving};

/// The recordings of the room that judges.
pub const RECORDED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../image-policy/tests/data/signatures");

fn rows(path: PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What the registry had in one repository.
pub fn repository(name: &str) -> Content {
    let recorded = PathBuf::from(RECORDED);
    let images = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/signed-images.jsonl");
    let mut content = Content::default();
    for row in [rows(recorded.join("blobs.jsonl")), rows(images.into())].concat() {
        let bytes = match row["text"].as_str() {
            Some(text) => text.as_bytes().to_vec(),
            None => BASE64_STANDARD.decode(row["base64"].as_str().unwrap()).unwrap(),
        };
        let json: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let media_type = json["mediaType"].as_str().unwrap_or("application/octet-stream");
        let digest = content.add(What::Unknown, media_type, bytes);
        assert_eq!(digest, row["digest"].as_str().unwrap());
    }
    let repositories = rows(recorded.join("repositories.jsonl")).into_iter();
    let mut repositories =
        repositories.flat_map(|row| serde_json::from_value::<BTreeMap<_, _>>(row).unwrap());
    let (_, tags): (String, BTreeMap<String, String>) =
        repositories.find(|(found, _)| found == name).unwrap();
    for (tag, digest) in tags {
        content.tag(&tag, &digest);
    }
    content
}

#[test]
fn privileged_what_real_programs_signed_runs_and_nothing_else() {
    vm_harness::needs_root!();
    const ONE: &str = "sha256:f7ff70f91006e54ed820c234f5392b780d2cbbde0ef52c7dba4fb49c79fcb71a";
    let scratch = Scratch::new().unwrap();
    let by = |key: &str, identity: &str| json!({"default": [signed_by(key, identity)]});
    let cosign = by("cosign-a.pub", "matchRepository");
    let skopeo = by("skopeo-s.pub", "matchRepoDigestOrExact");
    let bundle = by("cosign-a.pub", "digestOnly");
    // Repository, what is asked for, the policy, and the words of a refusal.
    let cases = [
        ("team/cosign2-p256", format!("@{ONE}"), &cosign, ""),
        ("team/cosign2-p256", ":1.0".to_owned(), &cosign, ""),
        ("team/cosign2-p256", format!("@{ONE}"), &skopeo, "is by"),
        ("team/cosign2-b", format!("@{ONE}"), &cosign, "is by"),
        ("team/skopeo-p256", format!("@{ONE}"), &skopeo, ""),
        ("team/skopeo-p256", ":1.0".to_owned(), &skopeo, ""),
        ("team/skopeo-moved", format!("@{ONE}"), &skopeo, "is for"),
        ("team/cosign3-bundle", format!("@{ONE}"), &cosign, "names no image"),
        ("team/cosign3-bundle", format!("@{ONE}"), &bundle, ""),
        ("team/index-cosign2-index", ":1.0".to_owned(), &cosign, ""),
        ("team/index-cosign2-amd64", ":1.0".to_owned(), &cosign, ""),
        ("team/index-unsigned", ":1.0".to_owned(), &cosign, "no signature was found"),
    ];
    for (number, (name, which, policy, refused)) in cases.into_iter().enumerate() {
        let (registry, entry) = misbehaving(repository(name), Script::new());
        let mirror = format!("https://localhost:{}", registry.address().port());
        let configuration =
            format!("[registries.\"registry.test\"]\nmirror = \"{mirror}\"\n{entry}");
        let puller = Puller::start(&scratch, Some(&configuration));
        let there = |name: &str| puller.document().with_file_name(name);
        let measured = document(policy, "allow-tags = [\"registry.test:5000\"]\n");
        puller.measure(&measured);
        for key in ["cosign-a.pub", "skopeo-s.pub"] {
            let recorded = PathBuf::from(RECORDED).join("keys").join(key);
            fs::copy(recorded, there(key)).unwrap();
        }
        let image = format!("registry.test:5000/{name}{which}");
        if refused.is_empty() {
            let bundle = format!("bundle-{number}");
            let output = puller.request(&image, &bundle);
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{image}: {error}");
            assert!(puller.rootfs(&bundle).join("hello").exists());
        } else {
            puller.refuse(&image, 65, &["the image policy refuses", refused]);
        }
    }
}
