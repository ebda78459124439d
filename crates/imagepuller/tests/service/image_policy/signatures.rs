//! Which signatures let an image run, and which do not.

use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use confidential_fixtures::encrypted::{Key, KeyKind, Which, encrypt};
use confidential_fixtures::signed::{SimpleSignature, digest_of};
use image_policy::policy::MAX_POLICY_KEYS;
use serde_json::json;

use super::place::{Place, document, policy, signed_by};

#[test]
fn privileged_an_image_runs_by_the_signature_that_its_owner_asks_for() {
    vm_harness::needs_root!();
    let place = Place::start();
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    let name = place.name("team/app");
    let by_team = policy(&[(&place.name("team"), signed_by("team.pub", "matchRepository"))]);
    place.policy(&by_team, "");
    let scope = format!("scope \"{}\"", place.name("team"));
    let refuse = |words: &[&str]| {
        let all = [&["the image policy refuses", &name, &scope], words].concat();
        place.puller.refuse(&image, 65, &all);
    };

    refuse(&["no signature was found"]);
    place.sign(&place.other, &digest, &name, "team/app");
    refuse(&["by team.pub", "is by"]);
    place.sign(&place.team, &digest, &place.name("team/old"), "team/app");
    refuse(&["is for", &place.name("team/old")]);
    let other = place.push("team/other:1", "other");
    let of_other = SimpleSignature::new(&place.team, &other, &name).unwrap();
    place.put(&[of_other], &digest, "team/app");
    refuse(&["for other content"]);
    let mut changed = SimpleSignature::new(&place.team, &digest, &name).unwrap();
    changed.payload.push(b' ');
    place.put(&[changed], &digest, "team/app");
    refuse(&["is by"]);
    assert_eq!(place.layers_asked("team/app"), 0, "nothing was fetched");

    // One good signature is enough, whatever else is there.
    let others = SimpleSignature::new(&place.other, &digest, &name).unwrap();
    let good = SimpleSignature::new(&place.team, &digest, &name).unwrap();
    place.put(&[others, good], &digest, "team/app");
    let rootfs = place.puller.pull(&image, "signed");
    assert_eq!(fs::read(rootfs.join("content")).unwrap(), b"first");

    // The same image and its signature in another repository.
    place.push_layout(&place.site.layout, "team/moved:1");
    place.sign(&place.team, &digest, &name, "team/moved");
    let moved = image.replace("team/app@", "team/moved@");
    place.puller.refuse(&moved, 65, &["is for", &name]);
    // Outside of every scope.
    let outside = image.replace("team/app@", "foreign/app@");
    let words = ["the default rejects it"];
    let requests = place.site.registry.requests();
    place.puller.refuse(&outside, 65, &words);
    assert_eq!(place.site.registry.requests(), requests, "nobody was asked");
}

/// More than are fetched: a refusal is not taken for a verdict about all of them. And of those that
/// are fetched, no more is verified than a pull may.
#[test]
fn privileged_a_refusal_says_how_many_signatures_were_looked_at() {
    vm_harness::needs_root!();
    let place = Place::start();
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    let name = place.name("team/app");
    let by_team = json!({"default": [signed_by("team.pub", "matchRepository")]});
    place.policy(&by_team, "");
    let other = SimpleSignature::new(&place.other, &digest, &name).unwrap();
    let changed = |number: usize| SimpleSignature {
        payload: [&other.payload[..], number.to_string().as_bytes()].concat(),
        ..other.clone()
    };
    let mut many: Vec<_> = (0..300).map(changed).collect();
    place.put(&many, &digest, "team/app");
    let words = ["is by that key", "; only 128 of 300 signatures were looked at"];
    place.puller.refuse(&image, 65, &words);
    // Each is within its bounds, and their product is not.
    let all = json!({"default": [{
        "type": "sigstoreSigned", "keyPaths": vec!["team.pub"; MAX_POLICY_KEYS],
        "signedIdentity": {"type": "matchRepository"},
    }]});
    place.policy(&all, "");
    let words = ["cannot be judged by 32768 verifications", "remove signatures"];
    place.puller.refuse(&image, 65, &words);
    place.policy(&by_team, "");
    // Who signs again appends.
    many.push(SimpleSignature::new(&place.team, &digest, &name).unwrap());
    place.put(&many, &digest, "team/app");
    place.puller.pull(&image, "signed");
}

#[test]
fn privileged_several_requirements_must_hold_and_any_key_of_one() {
    vm_harness::needs_root!();
    let place = Place::start();
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    let name = place.name("team/app");
    let both = json!({"default": [
        signed_by("team.pub", "matchRepository"), signed_by("other.pub", "matchRepository"),
    ]});
    place.policy(&both, "");
    place.sign(&place.team, &digest, &name, "team/app");
    place.puller.refuse(&image, 65, &["by other.pub"]);
    let any = json!({"default": [{
        "type": "sigstoreSigned", "keyPaths": ["other.pub", "team.pub"],
        "signedIdentity": {"type": "matchRepository"},
    }]});
    place.policy(&any, "");
    place.puller.pull(&image, "any");
    place.policy(&both, "");
    let signatures = [&place.other, &place.team];
    let signatures = signatures.map(|key| SimpleSignature::new(key, &digest, &name).unwrap());
    place.put(&signatures, &digest, "team/app");
    place.puller.pull(&image, "both");

    let refused = format!("refuse = [\"{digest}\"]\n");
    for policy in [&both, &json!({"default": [{"type": "insecureAcceptAnything"}]})] {
        place.policy(policy, &refused);
        place.puller.refuse(&image, 65, &["refuse of [image-policy]", &digest]);
    }
}

#[test]
fn privileged_where_policy_and_keys_are() {
    vm_harness::needs_root!();
    let place = Place::start();
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    place.sign(&place.team, &digest, &place.name("team/app"), "team/app");
    let by = |key: &str| json!({"default": [signed_by(key, "matchRepository")]});
    let there = place.measured_file("team.pub").display().to_string();
    for (bundle, key) in [("plain", "team.pub"), ("path", &there)] {
        place.policy(&by(key), "");
        place.puller.pull(&image, bundle);
    }
    let outside = place.team.public().display().to_string();
    for key in [outside.as_str(), "../team.pub", "/etc/hostname"] {
        place.policy(&by(key), "");
        let words = ["cannot be judged", key, "neither a reference"];
        place.puller.refuse(&image, 65, &words);
    }
    place.policy(&by("absent.pub"), "");
    let words = ["absent.pub is not in ", "[data] of the initdata"];
    place.puller.refuse(&image, 65, &words);
    place.policy(&by("measured.toml"), "");
    place.puller.refuse(&image, 65, &["measured.toml is no PEM"]);

    let file = "[image-policy]\nfile = \"policy.json\"\n";
    place.measured(file);
    let words = ["[image-policy] file = \"policy.json\"", "the file is not in "];
    place.puller.refuse(&image, 65, &words);
    fs::write(place.measured_file("policy.json"), by("team.pub").to_string()).unwrap();
    place.puller.pull(&image, "file");
    fs::write(place.measured_file("policy.json"), r#"{"default": []}"#).unwrap();
    let words = ["file = \"policy.json\"", "has no requirement"];
    place.puller.refuse(&image, 65, &words);
    // As Confidential Containers write it, the key in the text.
    let pem = fs::read_to_string(place.team.public()).unwrap();
    let inline = json!({"default": [{
        "type": "sigstoreSigned", "keyData": pem, "signedIdentity": {"type": "matchRepository"},
    }]});
    place.policy(&inline, "");
    place.puller.pull(&image, "pem");

    // The host has no say in it.
    let of_host = place.site.document("localhost");
    let accept = json!({"default": [{"type": "insecureAcceptAnything"}]});
    place.measured("");
    place.puller.configure(&format!("{}{of_host}", document(&accept, "")));
    place.puller.refuse(&image, 65, &["image-policy"]);
    place.puller.configure(&of_host);
    place.puller.pull(&image, "without");
}

/// `cosign sign` signs the index of an image for several platforms, and nothing below it.
#[test]
fn privileged_an_index_is_signed_for_its_manifests() {
    vm_harness::needs_root!();
    let place = Place::start();
    let name = place.name("team/app");
    let manifest = place.site.layout.manifest.clone();
    let index = json!({"schemaVersion": 2, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": manifest,
        "size": fs::metadata(place.site.registry.blob(&manifest)).unwrap().len(),
        "platform": {"os": "linux", "architecture": "amd64"},
    }]});
    // A layout whose only image is an index.
    let directory = place.site.layout.path.clone();
    let text = index.to_string();
    let index = digest_of(text.as_bytes());
    let file = directory.join("blobs/sha256").join(&index[7..]);
    fs::write(file, &text).unwrap();
    let list = json!({"schemaVersion": 2, "manifests": [{
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "digest": index,
        "size": text.len(),
    }]});
    fs::write(directory.join("index.json"), list.to_string()).unwrap();
    place.push_layout(&place.site.layout, "team/app:index");
    let image = format!("{name}@{index}");
    let by_team = policy(&[(&place.name("team"), signed_by("team.pub", "matchRepository"))]);
    place.policy(&by_team, "");
    let pull = |bundle: &str| {
        let output = place.puller.request(&image, bundle);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), manifest);
    };

    place.puller.refuse(&image, 65, &["no signature was found"]);
    place.sign(&place.team, &index, &name, "team/app");
    pull("index");
    // By the manifest's own digest the index says nothing.
    let alone = place.site.image();
    place.puller.refuse(&alone, 65, &["no signature was found"]);
    place.sign(&place.team, &manifest, &name, "team/app");
    place.puller.pull(&alone, "manifest");
    // And the other way round: an index of which only the manifest is signed.
    place.sign(&place.other, &index, &name, "team/app");
    place.puller.forget_documents();
    pull("by-manifest");
    place.policy(&by_team, &format!("refuse = [\"{manifest}\"]\n"));
    place.puller.refuse(&image, 65, &["refuse of [image-policy]", &manifest]);
}

/// Judged before a key is unwrapped: no broker is asked for an image that must not run.
#[test]
fn privileged_an_encrypted_image_is_judged_before_its_keys_are_unwrapped() {
    vm_harness::needs_root!();
    let place = Place::start();
    let scratch = &place.site.scratch;
    let key = Key::generate(scratch, "layers", KeyKind::P256).unwrap();
    let encrypted = encrypt(scratch, "closed", &place.site.layout.path, &[&key], Which::All);
    let encrypted = encrypted.unwrap();
    let registry = &place.site.registry;
    registry.push(scratch, &encrypted.path, "team/closed").unwrap();
    let image = format!("{}@{}", place.name("team/closed"), encrypted.manifest);
    let by_team = json!({"default": [signed_by("team.pub", "matchRepository")]});
    place.policy(&by_team, "");
    place.puller.refuse(&image, 65, &["no signature was found"]);
    place.sign(&place.team, &encrypted.manifest, &place.name("team/closed"), "team/closed");
    place.puller.refuse(&image, 69, &["is encrypted and there is no key"]);
    let item = BASE64_STANDARD.encode(key.pem().unwrap());
    let document = place.site.document("localhost");
    place.puller.configure(&format!("{document}[decryption-keys]\nkeys = [\"{item}\"]\n"));
    place.puller.pull(&image, "open");
}
