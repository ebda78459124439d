//! What an attacker can make of real signatures, and the sentence that answers it.

use image_policy::Policy;
use oci_image::named::NamedReference;
use serde_json::{Value, json};

use super::asked::{DIR, ask};
use super::registry::{Place, Registry, Signatures};

pub(crate) const ONE: &str =
    "sha256:f7ff70f91006e54ed820c234f5392b780d2cbbde0ef52c7dba4fb49c79fcb71a";

pub(crate) fn signed(key: &str, identity: Option<&str>) -> Value {
    let mut requirement = json!({
        "type": "sigstoreSigned",
        "keyPath": format!("{DIR}/keys/{key}.pub"),
    });
    if let Some(identity) = identity {
        requirement["signedIdentity"] = json!({"type": identity});
    }
    json!([requirement])
}

/// The verdict about an image of the recorded registry by all that is found for it.
fn judge(registry: &Registry, policy: &Value, image: &str) -> Result<(), String> {
    let policy = Policy::parse(policy.to_string().as_bytes()).unwrap();
    let reference = NamedReference::parse(&format!("registry.test:5000/{image}")).unwrap();
    let digest = registry.resolve(&reference).expect("a recorded image");
    let places = [Place::Tag, Place::Bundles];
    let signatures = registry.signatures(&Registry::path(&reference), &digest, &places)?;
    ask(&policy, &reference.with_digest(digest), &[signatures])
}

#[test]
fn each_attack_has_its_sentence() {
    let registry = Registry::recorded();
    for (image, key, identity, sentence) in [
        ("team/unsigned:1.0", "skopeo-s", None, "no signature was found"),
        ("team/skopeo-p256:1.0", "cosign-a", None, "is by that key"),
        ("team/skopeo-other-image:1.0", "skopeo-s", None, "is for other content"),
        (
            "team/skopeo-moved:1.0",
            "skopeo-s",
            None,
            "is for \"registry.test:5000/team/skopeo-p256:1.0\"",
        ),
        (
            "team/skopeo-identity-tag:1.0",
            "skopeo-s",
            Some("matchExact"),
            "is for \"registry.test:5000/team/skopeo-identity-tag:other\"",
        ),
        (
            "team/cosign2-p256:1.0",
            "cosign-a",
            None,
            "with matchRepoDigestOrExact, the default, but that key's signature is for",
        ),
        (
            "team/cosign3-bundle:1.0",
            "cosign-a",
            Some("matchRepository"),
            "is a bundle, which names no image",
        ),
        (
            "team/cosign3-bundle-moved:1.0",
            "cosign-a",
            Some("matchExact"),
            "is a bundle, which names no image",
        ),
        ("team/cosign3-bundle-b:1.0", "cosign-a", Some("digestOnly"), "is by that key"),
        ("made/dup-critical:1.0", "hand-p256", Some("matchRepository"), "no valid statement"),
        ("made/case-critical:1.0", "hand-p256", Some("matchRepository"), "no valid statement"),
        ("made/type-atomic:1.0", "hand-p256", Some("matchRepository"), "no valid statement"),
        ("made/digest-sha512:1.0", "hand-p256", Some("matchRepository"), "is for other content"),
        ("made/key-k256:1.0", "k256", Some("matchRepository"), "kind that is not supported"),
        ("made/ok:1.0", "never-there", None, "key /recorded/keys/never-there.pub is not there"),
    ] {
        let policy = json!({"default": signed(key, identity)});
        let refusal = judge(&registry, &policy, image).unwrap_err();
        assert!(refusal.contains(sentence), "{image}: {refusal}");
        let image = format!("refuses registry.test:5000/{image}@sha256:");
        assert!(refusal.contains(&image), "{image}: {refusal}");
    }
}

/// Payloads with a member twice or in other letters, digests that are others, and signatures in
/// another spelling: each is refused, and says which of these it is.
#[test]
fn no_other_spelling_of_a_payload_or_a_signature_counts() {
    let registry = Registry::recorded();
    let policy = json!({"default": signed("hand-p256", Some("matchRepository"))});
    for (cases, sentence) in [
        (
            &[
                "dup-critical",
                "dup-image-bad-good",
                "dup-reference-bad-good",
                "dup-reference-good-bad",
                "dup-digest-bad-good",
                "dup-digest-same",
                "opt-duplicate",
                "case-both",
                "case-critical",
                "case-digest",
                "case-optional",
                "case-type",
                "type-atomic",
                "type-empty",
                "type-missing",
                "extra-critical",
                "digest-bare",
                "digest-short",
                "digest-upper",
                "digest-upper-algorithm",
                "trailing-data",
                "deep-20000",
            ][..],
            "what that key signed there is no valid statement about an image; sign the image again",
        ),
        (
            &["digest-other", "digest-sha512"],
            "that key's signature is for other content; sign this image",
        ),
        (
            &[
                "sig-newline",
                "sig-newline-inside",
                "sig-slack-bits",
                "sig-urlsafe",
                "sig-extrapad",
                "sig-nopad",
                "sig-space",
            ],
            "no signature that was found is in a known form; sign the image again",
        ),
        (
            &[
                "sig-ber-length",
                "sig-der-trailing",
                "sig-p1363",
                "sig-empty",
                "sig-garbage",
                "sig-over-digest",
                "sig-sha384",
                "sig-sha512",
            ],
            "no signature that was found is by that key; sign the image with it",
        ),
    ] {
        for case in cases {
            let image = format!("made/{case}:1.0");
            let refusal = judge(&registry, &policy, &image).unwrap_err();
            assert!(refusal.contains(sentence), "{image}: {refusal}");
        }
    }
}

/// What is valid and not verified here refuses, by its name, also an image whose key is right.
#[test]
fn what_is_not_verified_refuses_by_name() {
    let registry = Registry::recorded();
    let key = format!("{DIR}/keys/skopeo-s.pub");
    let identity = json!({"type": "matchRepository"});
    for (requirement, sentence) in [
        (
            json!({"type": "sigstoreSigned", "keyPath": key, "rekorPublicKeyPath": key}),
            "has a requirement rekorPublicKey, which asks for an entry in a transparency log, \
            which is not verified here; leave it out",
        ),
        (
            json!({"type": "sigstoreSigned", "rekorPublicKeyPath": key, "fulcio": {
                "caPath": key, "oidcIssuer": "https://issuer.test", "subjectEmail": "a@b.test",
            }}),
            "has a requirement fulcio, which asks for a certificate of Fulcio, which is not \
            verified here; sign with a key",
        ),
        (
            json!({"type": "sigstoreSigned", "pki": {
                "caRootsPath": key, "subjectEmail": "a@b.test",
            }}),
            "has a requirement pki, which asks for a certificate, which is not verified here; \
            sign with a key",
        ),
        (
            json!({"type": "signedBy", "keyType": "GPGKeys", "keyPath": key}),
            "has a requirement signedBy, which asks for an OpenPGP signature, which is not \
            verified here; sign with cosign or skopeo and a key",
        ),
        (
            json!({"type": "signedBaseLayer", "baseLayerIdentity": identity}),
            "has a requirement signedBaseLayer, which is verified by no program",
        ),
    ] {
        let policy = json!({"default": [requirement]});
        for image in ["team/skopeo-p256:1.0", "team/gpg-and-sigstore:1.0"] {
            let refusal = judge(&registry, &policy, image).unwrap_err();
            assert!(refusal.contains(sentence), "{image}: {refusal}");
        }
    }
}

/// An attestation is signed by the same key, and no signature of the image; nor is a statement that
/// is none of in-toto's.
#[test]
fn what_a_key_signed_for_another_purpose_is_no_signature() {
    let registry = Registry::recorded();
    let policy = json!({"default": signed("hand-p256", Some("digestOnly"))});
    judge(&registry, &policy, "made-bundle/ok:1.0").unwrap();
    for case in ["predicate-other", "predicate-empty", "statement-other"] {
        let refusal = judge(&registry, &policy, &format!("made-bundle/{case}:1.0")).unwrap_err();
        let sentence = "what that key signed there is no valid statement about an image";
        assert!(refusal.contains(sentence), "{case}: {refusal}");
    }
}

/// What the page tells of bundles: whoever writes to the registry can give one another name.
#[test]
fn a_moved_bundle_holds_where_no_name_is_asked_for() {
    let registry = Registry::recorded();
    let policy = json!({"default": signed("cosign-a", Some("digestOnly"))});
    judge(&registry, &policy, "team/cosign3-bundle:1.0").unwrap();
    judge(&registry, &policy, "team/cosign3-bundle-moved:1.0").unwrap();
}

/// The tag's requirement is met as if the name had the tag, so that the exact identity stays exact.
#[test]
fn a_name_without_its_tag_must_fulfil_a_tag_of_its_repository() {
    let registry = Registry::recorded();
    let policy = |tag: &str, identity| {
        let scope = format!("registry.test:5000/team/skopeo-p256:{tag}");
        let scopes = json!({scope: signed("skopeo-s", identity)});
        json!({
            "default": [{"type": "insecureAcceptAnything"}],
            "transports": {"docker": scopes},
        })
    };
    let by_digest = format!("team/skopeo-p256@{ONE}");
    for identity in [None, Some("matchExact")] {
        judge(&registry, &policy("1.0", identity), &by_digest).unwrap();
        judge(&registry, &policy("1.0", identity), "team/skopeo-p256:1.0").unwrap();
        let refusal = judge(&registry, &policy("3.0", identity), &by_digest).unwrap_err();
        assert!(refusal.contains("has no demand of its own"), "{refusal}");
        // 2.0 is signed as 2.0.
        let renamed = judge(&registry, &policy("1.0", identity), "team/skopeo-p256:2.0");
        assert!(renamed.unwrap_err().contains("team/skopeo-p256:2.0\""));
    }
}

/// Ten thousand signatures by another key before the good one: work, and no other verdict.
#[test]
fn one_good_signature_is_enough_behind_many() {
    let registry = Registry::recorded();
    let reference = NamedReference::parse("registry.test:5000/team/cosign2-two:1.0").unwrap();
    let digest = registry.resolve(&reference).expect("a recorded image");
    let path = Registry::path(&reference);
    let mut signatures = registry.signatures(&path, &digest, &[Place::Tag]).unwrap();
    let [by_a, by_b] = &signatures.1[..] else {
        panic!("two signatures");
    };
    let mut many = vec![by_a.clone(); 500];
    many.push(by_b.clone());
    signatures.1 = many;
    let policy = json!({"default": signed("cosign-b", Some("matchRepository"))}).to_string();
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    let reference = reference.with_digest(digest);
    ask(&policy, &reference, &[Signatures(signatures.0.clone(), signatures.1.clone())]).unwrap();
    signatures.1.pop();
    let refusal = ask(&policy, &reference, &[signatures]).unwrap_err();
    assert!(refusal.contains("is by that key"), "{refusal}");
}

/// The policy of an owner's `cdh.toml` compares the repository where it says nothing, wherever its
/// keys are.
#[test]
fn the_policy_of_a_cdh_toml_compares_the_repository() {
    let registry = Registry::recorded();
    let key = std::fs::read_to_string(super::registry::data("keys/cosign-a.pub")).unwrap();
    let requirement = json!([{"type": "sigstoreSigned", "keyData": key}]);
    let policy = json!({"default": requirement, "transports": {}}).to_string();
    let policy = Policy::parse_of_cdh(policy.as_bytes()).unwrap();
    for (image, runs) in [
        ("team/cosign2-p256:1.0", true),
        ("team/cosign2-b:1.0", false),
        ("team/cosign3-bundle:1.0", false),
        ("team/unsigned:1.0", false),
    ] {
        let reference = NamedReference::parse(&format!("registry.test:5000/{image}")).unwrap();
        let digest = registry.resolve(&reference).expect("a recorded image");
        let places = [Place::Tag, Place::Bundles];
        let signatures = registry.signatures(&Registry::path(&reference), &digest, &places);
        let verdict = ask(&policy, &reference.with_digest(digest), &[signatures.unwrap()]);
        assert_eq!(verdict.is_ok(), runs, "{image}: {verdict:?}");
    }
}

/// The form of the example of Confidential Containers: keys of the broker and no identity, which
/// takes what `cosign sign` writes, the repository without a tag.
#[test]
fn the_policy_of_cocos_example_takes_what_cosign_signs() {
    let registry = Registry::recorded();
    let policy = |keys: Value| {
        let accept = json!([{"type": "insecureAcceptAnything"}]);
        let signed = json!([{"type": "sigstoreSigned", "keyPaths": keys}]);
        let scopes = json!({"registry.test:5000/team": signed, "quay.io/prometheus": accept});
        json!({"default": accept, "transports": {"docker": scopes}})
    };
    let of_broker = policy(json!(["kbs:///keys/cosign-a.pub"]));
    for (image, runs) in [
        ("team/cosign2-p256:1.0", true),
        ("team/cosign2-b:1.0", false),
        ("team/cosign3-bundle:1.0", false),
        ("team/unsigned:1.0", false),
    ] {
        let verdict = judge(&registry, &of_broker, image);
        assert_eq!(verdict.is_ok(), runs, "{image}: {verdict:?}");
    }
    let refusal = judge(&registry, &of_broker, "team/unsigned:1.0").unwrap_err();
    assert!(refusal.contains("with matchRepository, the default, but"), "{refusal}");
    // One key that is a file makes it a policy of containers/image.
    let beside = policy(json!(["kbs:///keys/cosign-a.pub", format!("{DIR}/keys/cosign-b.pub")]));
    let refusal = judge(&registry, &beside, "team/cosign2-p256:1.0").unwrap_err();
    assert!(refusal.contains("with matchRepoDigestOrExact, the default, but"), "{refusal}");
}

/// containers/image has keys in base64, image-rs as they are.
#[test]
fn a_key_in_the_policy_is_pem_or_base64() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let registry = Registry::recorded();
    let key = std::fs::read_to_string(super::registry::data("keys/skopeo-s.pub")).unwrap();
    let judged = |members: Value| {
        let mut requirement = json!({"type": "sigstoreSigned"});
        requirement.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        judge(&registry, &json!({"default": [requirement]}), "team/skopeo-p256:1.0")
    };
    judged(json!({"keyData": key})).unwrap();
    judged(json!({"keyData": STANDARD.encode(&key)})).unwrap();
    judged(json!({"keyDatas": [STANDARD.encode(&key), key]})).unwrap();
}
