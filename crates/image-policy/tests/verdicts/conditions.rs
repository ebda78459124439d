//! What holds beside a policy, on real signatures, and the sentence for each refusal.

use image_policy::{Conditions, Policy};
use oci_image::digest::Digest;
use oci_image::named::NamedReference;
use serde_json::{Value, json};

use super::asked;
use super::attacks::signed;
use super::registry::{Place, Registry};

/// The single manifest of most recorded images.
const ONE: &str = "sha256:f7ff70f91006e54ed820c234f5392b780d2cbbde0ef52c7dba4fb49c79fcb71a";

fn conditions(refuse: &[String]) -> Conditions {
    Conditions::parse(&[], refuse).unwrap()
}

/// The verdict about an image by all that is found for it and for the instances below it.
fn judge(policy: &Value, image: &str, conditions: &Conditions) -> Result<(), String> {
    let registry = Registry::recorded();
    let policy = Policy::parse(policy.to_string().as_bytes()).unwrap();
    let reference = NamedReference::parse(&format!("registry.test:5000/{image}")).unwrap();
    let digest = registry.resolve(&reference).expect("a recorded image");
    let path = Registry::path(&reference);
    let fetch = |digest: &Digest| {
        let places = [Place::Tag, Place::Bundles];
        registry.signatures(&path, digest, &places)
    };
    let mut found = vec![fetch(&digest)?];
    for (architecture, instance) in registry.instances(&digest) {
        if architecture == "amd64" {
            found.push(fetch(&instance)?);
        }
    }
    let ruling = policy.ruling(&reference.with_digest(digest));
    asked::judge(ruling, &found, conditions)
}

#[test]
fn listed_content_does_not_run_by_any_scope() {
    let listed = conditions(&[ONE.to_owned()]);
    let accepts = json!({"default": [{"type": "insecureAcceptAnything"}]});
    let signs = json!({"default": signed("skopeo-s", Some("matchRepository"))});
    for policy in [&accepts, &signs] {
        let refusal = judge(policy, "team/skopeo-p256:1.0", &listed).unwrap_err();
        let sentence = format!(
            "the image policy refuses registry.test:5000/team/skopeo-p256:1.0@{ONE}: refuse of \
            [image-policy] lists {ONE}; run other content, or take the digest out of the list"
        );
        assert_eq!(refusal, sentence);
        assert_eq!(judge(policy, "team/skopeo-p256:1.0", &conditions(&[])), Ok(()));
    }
    // Of an index, itself or the instance that is chosen; another instance does not matter.
    let registry = Registry::recorded();
    let image = "team/index-skopeo-all:1.0";
    let reference = NamedReference::parse(&format!("registry.test:5000/{image}")).unwrap();
    let index = registry.resolve(&reference).expect("a recorded image");
    assert!(judge(&accepts, image, &conditions(&[index.to_string()])).is_err());
    for (architecture, instance) in registry.instances(&index) {
        let verdict = judge(&accepts, image, &conditions(&[instance.to_string()]));
        assert_eq!(verdict.is_err(), architecture == "amd64");
    }
}
