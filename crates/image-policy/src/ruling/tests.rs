use oci_image::digest::Digest;

use super::*;
use crate::policy::MAX_POLICY_KEYS;
use crate::signature::Signature;

const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

const KEY: &[u8] = include_bytes!("../../tests/data/signatures/keys/skopeo-s.pub");

/// As many signatures as two places of two contents of one source may bring, and as many keys as a
/// policy may have, in scopes that each must be tried: counted, for seconds are the machine's.
#[test]
fn each_signature_is_held_against_each_key_once() {
    const TAGS: usize = 64;
    const SIGNATURES: usize = 512;
    let of_each = MAX_POLICY_KEYS / TAGS;
    let scope = |tag: usize| {
        // Half of the keys are those of all tags.
        let key = |number: usize| match number % 2 {
            0 => format!("\"/{number}\""),
            _ => format!("\"/{tag}/{number}\""),
        };
        let keys: Vec<_> = (0..of_each).map(key).collect();
        format!(
            "\"r.test/app:{tag}\":[{{\"type\":\"sigstoreSigned\",\"keyPaths\":[{}]}}]",
            keys.join(",")
        )
    };
    let scopes: Vec<_> = (0..TAGS).map(scope).collect();
    let text = format!(
        "{{\"default\":[{{\"type\":\"reject\"}}],\"transports\":{{\"docker\":{{{}}}}}}}",
        scopes.join(",")
    );
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let name = NamedReference::parse(&format!("r.test/app@{DIGEST}")).unwrap();
    let ruling = policy.ruling(&name);
    assert_eq!(ruling.clauses().len(), TAGS);
    let signature = |number: usize| Signature::Simple {
        payload: number.to_string().into_bytes(),
        signature: "AAAA".to_owned(),
    };
    let signatures: Vec<_> = (0..SIGNATURES).map(signature).collect();
    let digest = Digest::parse(DIGEST).unwrap();
    let found = [Found { digest: &digest, signatures: &signatures }];
    let read = std::cell::Cell::new(0);
    let source = |_: &str| {
        read.set(read.get() + 1);
        Ok(KEY.to_vec())
    };
    let keys = of_each / 2 + TAGS * of_each / 2;
    for _ in 0..3 {
        let judged = ruling.judge(&found, &source, &Conditions::default());
        assert!(judged.is_err());
        assert_eq!(read.get(), keys);
        assert_eq!(ruling.proofs.tried(), (keys * SIGNATURES) as u64);
    }
}

#[test]
fn a_policy_has_a_bounded_number_of_keys() {
    let policy = |count: usize| {
        let keys = vec!["\"/k\""; count / 2].join(",");
        let signed = format!("[{{\"type\":\"sigstoreSigned\",\"keyPaths\":[{keys}]}}]");
        let scopes = format!("{{\"docker\":{{\"r.test\":{signed}}}}}");
        let text = format!("{{\"default\":{signed},\"transports\":{scopes}}}");
        Policy::parse(text.as_bytes())
    };
    policy(MAX_POLICY_KEYS).unwrap();
    let error = policy(MAX_POLICY_KEYS + 2).unwrap_err().to_string();
    assert!(error.contains("\"r.test\"[0] (line 1) has more keys"), "{error}");
}

/// A key that could not be read is asked for again: the next time it may have been fetched.
#[test]
fn a_key_is_forgotten_where_there_was_none() {
    let text = br#"{"default":[{"type":"sigstoreSigned","keyPath":"/k"}]}"#;
    let policy = Policy::parse(text).unwrap();
    let name = NamedReference::parse(&format!("r.test/app@{DIGEST}")).unwrap();
    let ruling = policy.ruling(&name);
    let found = [Found { digest: name.digest().unwrap(), signatures: &[] }];
    let refuse = |source: &KeySource<'_>| {
        let judged = ruling.judge(&found, source, &Conditions::default());
        judged.unwrap_err().reason
    };
    let absent = |_: &str| Err("is not there".to_owned());
    assert!(matches!(refuse(&absent), Reason::Key(..)));
    assert!(matches!(refuse(&|_| Ok(KEY.to_vec())), Reason::Signature(..)));
    assert!(matches!(refuse(&absent), Reason::Signature(..)));
}
