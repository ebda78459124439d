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

/// When skopeo signed `team/skopeo-p256:1.0`.
const SIGNED_AT: i64 = 1_795_345_157;

fn conditions(not_before: Option<i64>, refuse: &[String]) -> Conditions {
    Conditions::parse(&[], not_before, refuse).unwrap()
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
fn a_signature_says_when_and_an_earlier_one_does_not_count() {
    let of = |key: &str, identity| json!({"default": signed(key, Some(identity))});
    let skopeo = of("skopeo-s", "matchRepository");
    for (policy, image, not_before, sentence) in [
        (&skopeo, "team/skopeo-p256:1.0", Some(SIGNED_AT), None),
        (&skopeo, "team/skopeo-p256:1.0", None, None),
        (
            &skopeo,
            "team/skopeo-p256:1.0",
            Some(SIGNED_AT + 1),
            Some(
                "asks for a signature (sigstoreSigned) by /recorded/keys/skopeo-s.pub with \
                matchRepository, but that key's signature is of 2026-11-22T10:59:17Z, and \
                signed-not-before asks for 2026-11-22T10:59:18Z or later; run a newer image",
            ),
        ),
        // cosign signs no time, and a bundle has none that the key signs.
        (
            &of("cosign-a", "matchRepository"),
            "team/cosign2-p256:1.0",
            Some(0),
            Some("that key's signature has no time, and signed-not-before asks for one"),
        ),
        (
            &of("cosign-a", "digestOnly"),
            "team/cosign3-bundle:1.0",
            Some(0),
            Some("is a bundle, in which the key signs no time"),
        ),
        // Whatever is wrong besides is said first.
        (
            &of("cosign-a", "matchRepository"),
            "team/cosign3-bundle:1.0",
            Some(0),
            Some("is a bundle, which names no image"),
        ),
        (
            &skopeo,
            "team/skopeo-other-image:1.0",
            Some(SIGNED_AT + 1000),
            Some("is for other content"),
        ),
    ] {
        let verdict = judge(policy, image, &conditions(not_before, &[]));
        match sentence {
            None => assert_eq!(verdict, Ok(()), "{image}"),
            Some(sentence) => {
                let refusal = verdict.unwrap_err();
                assert!(refusal.contains(sentence), "{image}: {refusal}");
                assert!(refusal.contains(image), "{refusal}");
            }
        }
    }
}

/// Of two signatures the newer one is enough, and is the one that is spoken of.
#[test]
fn one_signature_that_is_new_enough_is_enough() {
    // Signed as 1.0 at ...168 and ...169, by two keys.
    let policy = json!({"default": signed("skopeo-s", Some("matchRepository"))});
    let verdict = |at| judge(&policy, "team/skopeo-two:1.0", &conditions(Some(at), &[]));
    let (early, late) = (1_795_345_168, 1_795_345_170);
    assert_eq!(verdict(early), Ok(()));
    assert!(verdict(late).is_err());
}

#[test]
fn listed_content_does_not_run_by_any_scope() {
    let listed = conditions(None, &[ONE.to_owned()]);
    let accepts = json!({"default": [{"type": "insecureAcceptAnything"}]});
    let signs = json!({"default": signed("skopeo-s", Some("matchRepository"))});
    for policy in [&accepts, &signs] {
        let refusal = judge(policy, "team/skopeo-p256:1.0", &listed).unwrap_err();
        let sentence = format!(
            "the image policy refuses registry.test:5000/team/skopeo-p256:1.0@{ONE}: refuse of \
            [image-policy] lists {ONE}; run other content, or take the digest out of the list"
        );
        assert_eq!(refusal, sentence);
        assert_eq!(judge(policy, "team/skopeo-p256:1.0", &conditions(None, &[])), Ok(()));
    }
    // Of an index, itself or the instance that is chosen; another instance does not matter.
    let registry = Registry::recorded();
    let image = "team/index-skopeo-all:1.0";
    let reference = NamedReference::parse(&format!("registry.test:5000/{image}")).unwrap();
    let index = registry.resolve(&reference).expect("a recorded image");
    assert!(judge(&accepts, image, &conditions(None, &[index.to_string()])).is_err());
    for (architecture, instance) in registry.instances(&index) {
        let verdict = judge(&accepts, image, &conditions(None, &[instance.to_string()]));
        assert_eq!(verdict.is_err(), architecture == "amd64");
    }
}
