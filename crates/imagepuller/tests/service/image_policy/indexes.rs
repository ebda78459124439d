//! Indexes between the digest of a name and the manifest of the image.

use std::fs;

use confidential_fixtures::encrypted::{Key, KeyKind};
use confidential_fixtures::signed::{SimpleSignature, signature_manifest, signature_tag};
use fault_registry::{Content, Image, Layer, Script, What};
use serde_json::{Value, json};
use vm_harness::Scratch;

use super::place::{document, signed_by};
use crate::support::{Puller, misbehaving};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Puts an index of one entry into the registry, and gives its digest.
fn index_of(content: &mut Content, digest: &str, media_type: &str) -> String {
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [{
        "mediaType": media_type,
        "digest": digest,
        "size": content.size(digest).unwrap(),
        "platform": {"os": "linux", "architecture": "amd64"},
    }]});
    content.add_manifest(index.to_string().into_bytes())
}

/// Whoever serves the image can write an index around one that the owner rejects, and name that.
#[test]
fn privileged_an_outer_index_leads_past_no_inner_one() {
    vm_harness::needs_root!();
    let scratch = Scratch::new().unwrap();
    let key = Key::generate(&scratch, "team", KeyKind::P256).unwrap();
    let mut content = Content::default();
    let layer = Layer::gzip(&[("content", b"first")]).unwrap();
    let manifest = Image::new(vec![layer]).publish(&mut content);
    let inner = index_of(&mut content, &manifest, MANIFEST);
    let middle = index_of(&mut content, &inner, INDEX);
    let outer = index_of(&mut content, &middle, INDEX);
    let signature = SimpleSignature::new(&key, &inner, "localhost/team/app").unwrap();
    let (signatures, blobs) = signature_manifest(&[signature]);
    let signatures = content.add_manifest(signatures.to_string().into_bytes());
    content.tag(&signature_tag(&inner), &signatures);
    for blob in blobs {
        content.add(What::Unknown, "application/octet-stream", blob);
    }

    let (registry, config) = misbehaving(content, Script::new());
    let puller = Puller::start(&scratch, Some(&config));
    let name = format!("localhost:{}/team/app", registry.address().port());
    let measured = |policy: &Value, more: &str| {
        puller.measure(&document(policy, more));
    };
    fs::copy(key.public(), puller.document().with_file_name("team.pub")).unwrap();
    let image = |digest: &str| format!("{name}@{digest}");
    let pull = |digest: &str, bundle: &str| {
        let output = puller.request(&image(digest), bundle);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), manifest);
    };
    let accept = json!({"default": [{"type": "insecureAcceptAnything"}]});
    let rejecting = |digest: &str| {
        let mut policy = accept.clone();
        policy["transports"] = json!({"docker": {image(digest): [{"type": "reject"}]}});
        policy
    };

    for rejected in [&inner, &middle] {
        measured(&rejecting(rejected), "");
        let words = ["the image policy refuses", rejected, "rejects it"];
        puller.refuse(&image(&outer), 65, &words);
        measured(&accept, &format!("refuse = [\"{rejected}\"]\n"));
        let words = ["refuse of [image-policy]", rejected];
        puller.refuse(&image(&outer), 65, &words);
    }
    measured(&accept, "");
    pull(&outer, "open");
    // In the store by now.
    measured(&rejecting(&inner), "");
    puller.refuse(&image(&outer), 65, &["rejects it"]);
    puller.refuse(&image(&inner), 65, &["rejects it"]);
    pull(&manifest, "manifest");

    // An index binds what it lists, also in another index.
    let signed = json!({"default": [{
        "type": "sigstoreSigned",
        "keyPath": "team.pub",
        "signedIdentity": {"type": "exactRepository", "dockerRepository": "localhost/team/app"},
    }]});
    measured(&signed, "");
    pull(&inner, "signed");
    pull(&outer, "around");
    puller.refuse(&image(&manifest), 65, &["no signature was found"]);
    measured(&json!({"default": [signed_by("team.pub", "matchExact")]}), "");
    puller.refuse(&image(&outer), 65, &["is for"]);
}
