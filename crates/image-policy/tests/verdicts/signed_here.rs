//! Signatures that are made here with the one private key that was recorded.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use image_policy::{Conditions, Policy, Signature};
use oci_image::named::NamedReference;
use serde_json::{Value, json};

use super::asked::ask;
use super::attacks::{ONE, signed};
use super::registry::{Signatures, data};

/// The certificate expired in 2020. It is the very key that the policy trusts, so that its bundle
/// would hold if a certificate counted as its key.
#[test]
fn an_expired_certificate_is_no_key() {
    let certificate = std::fs::read_to_string(data("../expired-certificate.pem"));
    let certificate: String =
        certificate.unwrap().lines().filter(|line| !line.starts_with('-')).collect();
    let der = STANDARD.decode(&certificate).unwrap();
    let has = |text: &[u8]| der.windows(text.len()).any(|part| part == text);
    assert!(has(b"200102000000Z"), "the end of its validity");
    let key = public_key_of_hand();
    assert!(has(&key), "the key of the policy");

    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": ONE.trim_start_matches("sha256:")}}],
        "predicateType": "https://sigstore.dev/cosign/sign/v1",
        "predicate": {},
    });
    let payload = statement.to_string();
    let kind = "application/vnd.in-toto+json";
    let message = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
    let bundle = |material: Value| {
        let signature = STANDARD.encode(sign_by_hand(message.as_bytes()));
        let bundle = json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": material,
            "dsseEnvelope": {
                "payload": STANDARD.encode(&payload),
                "payloadType": kind,
                "signatures": [{"sig": signature}],
            },
        });
        Signature::Bundle(bundle.to_string().into_bytes())
    };
    let policy = json!({"default": signed("hand-p256", Some("digestOnly"))});
    let sentence = "what was found is signed with a certificate, which is not verified here; sign \
        with a key";
    let raw = json!({"rawBytes": certificate});
    let chain = json!({"x509CertificateChain": {"certificates": [raw]}});
    for material in [json!({"certificate": raw}), chain] {
        let refusal = judge_one(&policy, "team/app", bundle(material)).unwrap_err();
        assert!(refusal.contains(sentence), "{refusal}");
    }
    judge_one(&policy, "team/app", bundle(json!({"publicKey": {}}))).unwrap();
}

/// Whoever fetched them says how many there are, so that a refusal is not taken for a verdict about
/// all.
#[test]
fn a_refusal_says_that_signatures_were_left_out() {
    let name = NamedReference::parse(&format!("registry.test:5000/team/app:1.0@{ONE}")).unwrap();
    let refuse = |policy: Value| {
        let policy = Policy::parse(policy.to_string().as_bytes()).unwrap();
        let contents = [name.digest().unwrap().clone()];
        let found = [(contents[0].clone(), simple("registry.test:5000/team/app:1.0"))];
        let key = |_: &str| Ok(std::fs::read(data("keys/skopeo-s.pub")).unwrap());
        let judged = policy.ruling(&name).judge(&contents, &found, &key, &Conditions::default());
        judged.unwrap_err()
    };
    let refusal = refuse(json!({"default": signed("skopeo-s", None)}));
    let whole = refusal.to_string();
    let some = refusal.clone().with_left_out(128, 9_872).to_string();
    assert_eq!(some, format!("{whole}; only 128 of 10000 signatures were looked at"));
    assert_eq!(refusal.clone().with_left_out(128, 0).to_string(), whole);
    assert!(!refusal.clone().with_left_out(1, 0).is_without_any());
    let of_none = refusal.with_left_out(0, 0);
    assert!(of_none.is_without_any());
    assert_eq!(of_none.to_string(), whole);
    // No signature would change it.
    let rejected = refuse(json!({"default": [{"type": "reject"}]}));
    let whole = rejected.to_string();
    assert_eq!(rejected.with_left_out(128, 9_872).to_string(), whole);
}

fn hand() -> EcdsaKeyPair {
    let pem = std::fs::read_to_string(data("keys/hand-p256.pem")).unwrap();
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let der = STANDARD.decode(body).unwrap();
    EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_ASN1_SIGNING, &der).unwrap()
}

fn public_key_of_hand() -> Vec<u8> {
    hand().public_key().as_ref().to_vec()
}

fn sign_by_hand(message: &[u8]) -> Vec<u8> {
    let random = SystemRandom::new();
    hand().sign(&random, message).unwrap().as_ref().to_vec()
}

/// A signature of the image under this name.
fn simple(reference: &str) -> Signature {
    let payload = json!({
        "critical": {
            "identity": {"docker-reference": reference},
            "image": {"docker-manifest-digest": ONE},
            "type": "cosign container image signature",
        },
        "optional": null,
    });
    let payload = payload.to_string().into_bytes();
    let signature = STANDARD.encode(sign_by_hand(&payload));
    Signature::Simple { payload, signature }
}

/// The verdict about the image under a name with the tag 1.0, by one signature.
fn judge_one(policy: &Value, repository: &str, signature: Signature) -> Result<(), String> {
    let policy = Policy::parse(policy.to_string().as_bytes()).unwrap();
    let name = format!("registry.test:5000/{repository}:1.0@{ONE}");
    let reference = NamedReference::parse(&name).unwrap();
    let digest = reference.digest().cloned().unwrap();
    ask(&policy, &reference, &[Signatures(digest, vec![signature])])
}
