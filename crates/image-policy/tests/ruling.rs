//! Which scope decides, and what a host can do about it by writing a name in another way.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::sync::Arc;

use image_policy::policy::MAX_POLICY_KEYS;
use image_policy::ruling::Quantity;
use image_policy::verifications::{MAX_VERIFICATIONS, Verifications};
use image_policy::{Conditions, Policy, Signature};
use oci_image::digest::Digest;
use oci_image::named::NamedReference;

const SIGNED: &str = r#"[{"type":"sigstoreSigned","keyPath":"/k"}]"#;
const ACCEPT: &str = r#"[{"type":"insecureAcceptAnything"}]"#;
const REJECT: &str = r#"[{"type":"reject"}]"#;
const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn policy(default: &str, scopes: &[(&str, &str)]) -> Policy {
    let scopes: Vec<_> =
        scopes.iter().map(|(scope, requirements)| format!("\"{scope}\":{requirements}")).collect();
    let text =
        format!(r#"{{"default":{default},"transports":{{"docker":{{{}}}}}}}"#, scopes.join(","));
    Policy::parse(text.as_bytes()).unwrap()
}

fn deciding(policy: &Policy, image: &str) -> (Quantity, Vec<String>) {
    let ruling = policy.ruling(&NamedReference::parse(image).unwrap());
    let clauses = ruling.clauses().iter().map(ToString::to_string).collect();
    (ruling.quantity(), clauses)
}

/// No signature is there.
fn runs_unsigned(policy: &Policy, image: &str) -> bool {
    let reference = NamedReference::parse(image).unwrap();
    let digest = reference.digest().cloned().unwrap();
    let key = |_: &str| Err("is not there".to_owned());
    policy.ruling(&reference).judge(&[digest], &[], &key, &Conditions::default()).is_ok()
}

#[test]
fn another_spelling_leads_past_no_scope() {
    let policy = policy(ACCEPT, &[("registry.test/team", REJECT), ("docker.io", REJECT)]);
    for name in [
        "registry.test/team/app",
        "Registry.TEST/team/app",
        "registry.test:443/team/app",
        "registry.test:0443/team/app",
        "busybox",
        "docker.io/busybox",
        "index.docker.io/library/busybox",
        "registry-1.docker.io/library/busybox",
        "docker.io:443/library/busybox",
    ] {
        let image = format!("{name}@{DIGEST}");
        assert!(!runs_unsigned(&policy, &image), "{name}");
    }
    // Other registries.
    for name in ["registry.test:80/team/app", "registry.test/tea/app", "a.registry.test/team/app"] {
        assert!(runs_unsigned(&policy, &format!("{name}@{DIGEST}")), "{name}");
    }
}

#[test]
fn a_tag_that_is_stripped_or_changed_leads_past_no_scope() {
    let tags = policy(
        ACCEPT,
        &[
            ("r.test/app:1.0", SIGNED),
            ("r.test/app:1.1", SIGNED),
            ("r.test/app:dev", ACCEPT),
            ("r.test/app", ACCEPT),
            ("r.test/apple:1.0", REJECT),
        ],
    );
    let both = vec!["scope \"r.test/app:1.0\"".to_owned(), "scope \"r.test/app:1.1\"".to_owned()];
    for image in ["r.test/app@", "r.test/app:2.0@", "R.test:443/app:latest@"] {
        let image = format!("{image}{DIGEST}");
        assert_eq!(deciding(&tags, &image), (Quantity::One, both.clone()));
        assert!(!runs_unsigned(&tags, &image));
    }
    let one = (Quantity::Each, vec![both[0].clone()]);
    assert_eq!(deciding(&tags, &format!("r.test/app:1.0@{DIGEST}")), one);
    // The host may also write the tag that accepts anything.
    let open = format!("r.test/app:dev@{DIGEST}");
    assert_eq!(deciding(&tags, &open), (Quantity::One, both));
    assert!(!runs_unsigned(&tags, &open));
    // Without a digest the tag is asked about, not a content.
    let dev = vec!["scope \"r.test/app:dev\"".to_owned()];
    assert_eq!(deciding(&tags, "r.test/app:dev"), (Quantity::Each, dev));
    assert!(runs_unsigned(&tags, &format!("r.test/ap@{DIGEST}")));
}

/// An accept-anything tag beside a signed one: what is signed as the one runs under any name, and
/// what is said of the digest itself comes before.
#[test]
fn an_open_tag_beside_a_signed_one_is_open_to_nothing() {
    let scope = format!("r.test/app@{DIGEST}");
    let tags = [("r.test/app:1.0", SIGNED), ("r.test/app:dev", ACCEPT)];
    let open = format!("r.test/app:dev@{DIGEST}");
    let allowed = policy(ACCEPT, &[tags[0], tags[1], (&scope, ACCEPT)]);
    assert!(runs_unsigned(&allowed, &open));
    let refused = policy(ACCEPT, &[tags[0], tags[1], (&scope, REJECT)]);
    assert!(!runs_unsigned(&refused, &open));
    // A requirement beside an acceptance is a demand.
    let both = r#"[{"type":"insecureAcceptAnything"},{"type":"sigstoreSigned","keyPath":"/k"}]"#;
    let policy = policy(ACCEPT, &[("r.test/app:1.0", both), ("r.test/app:dev", ACCEPT)]);
    assert!(!runs_unsigned(&policy, &open));
    assert!(!runs_unsigned(&policy, &format!("r.test/app:2.0@{DIGEST}")));
}

#[test]
fn tags_that_demand_nothing_reject_or_say_nothing() {
    let by_digest = format!("r.test/app@{DIGEST}");
    let rejects = policy(ACCEPT, &[("r.test/app:old", REJECT), ("r.test/app:dev", ACCEPT)]);
    assert!(!runs_unsigned(&rejects, &by_digest));
    let accepts = policy(REJECT, &[("r.test/app:dev", ACCEPT)]);
    assert!(!runs_unsigned(&accepts, &by_digest));
    // The host may write that tag before any digest.
    let open = format!("r.test/app:dev@{DIGEST}");
    assert!(!runs_unsigned(&accepts, &open));
    assert!(!runs_unsigned(&rejects, &open));
    let above = policy(REJECT, &[("r.test/app:dev", ACCEPT), ("r.test", ACCEPT)]);
    assert!(runs_unsigned(&above, &open));
    // Whoever resolved the tag knows what it stands for.
    let name = NamedReference::parse(&open).unwrap();
    let clauses = accepts.ruling_of_resolved(&name).clauses().to_vec();
    let clauses: Vec<_> = clauses.iter().map(ToString::to_string).collect();
    assert_eq!(clauses, ["scope \"r.test/app:dev\""]);
}

#[test]
fn what_is_said_of_the_content_holds_whatever_tag_is_written() {
    let scope = format!("r.test/app@{DIGEST}");
    let by_digest = format!("r.test/app@{DIGEST}");
    let by_tag = format!("r.test/app:dev@{DIGEST}");
    let refused = policy(ACCEPT, &[(&scope, REJECT), ("r.test/app:dev", ACCEPT)]);
    assert!(!runs_unsigned(&refused, &by_digest));
    assert!(!runs_unsigned(&refused, &by_tag));
    let allowed = policy(REJECT, &[(&scope, ACCEPT), ("r.test/app:1.0", SIGNED)]);
    assert!(runs_unsigned(&allowed, &by_digest));
    assert!(runs_unsigned(&allowed, &by_tag));
    assert!(!runs_unsigned(&allowed, &format!("r.test/app:1.0@{DIGEST}")));
}

#[test]
fn signatures_of_other_content_are_no_answer() {
    let policy = policy(SIGNED, &[]);
    let reference = NamedReference::parse(&format!("r.test/app@{DIGEST}")).unwrap();
    let other = oci_image::digest::Digest::parse(&DIGEST.replace('b', "c")).unwrap();
    let key = |_: &str| Err("is not there".to_owned());
    let ruling = policy.ruling(&reference);
    assert!(ruling.needs_signatures());
    assert_eq!(ruling.key_paths(&[]).into_iter().collect::<Vec<_>>(), ["/k"]);
    let refusal = ruling.judge(&[other], &[], &key, &Conditions::default()).unwrap_err();
    assert!(refusal.to_string().contains("not of the digest"), "{refusal}");
}

/// The host writes the name: an index of its own, that nobody speaks of, leads to a manifest that
/// the policy does speak of.
#[test]
fn a_scope_of_a_digest_is_for_the_content_whatever_the_name() {
    let own_index = NamedReference::parse(&format!("registry.test/app@{DIGEST}")).unwrap();
    let (index, manifest) = (
        own_index.digest().cloned().unwrap(),
        Digest::parse(&DIGEST.replace("ba7816bf", "00000000")).unwrap(),
    );
    let scope = format!("registry.test/app@{manifest}");
    let runs = |default: &str, requirement: &str| {
        let policy = policy(default, &[(&scope, requirement)]);
        let contents = [index.clone(), manifest.clone()];
        let key = |_: &str| Err("is not there".to_owned());
        let ruling = policy.ruling(&own_index);
        let judged = ruling.judge(&contents, &[], &key, &Conditions::default());
        judged.map_err(|refusal| refusal.to_string())
    };
    assert_eq!(runs(ACCEPT, ACCEPT), Ok(Vec::new()));
    let refused = runs(ACCEPT, REJECT).unwrap_err();
    assert!(refused.contains(&scope), "{refused}");
    assert!(runs(ACCEPT, SIGNED).is_err());
    // It only adds.
    assert!(runs(REJECT, ACCEPT).is_err());
}

/// One of two tags asks for OpenPGP, which nothing fulfils. The image may be the other's: whoever
/// judges before signatures were fetched must not take the first refusal for the last word.
#[test]
fn where_one_scope_is_enough_a_refusal_that_a_signature_changes_comes_first() {
    let open_pgp = r#"[{"type":"signedBy","keyType":"GPGKeys","keyPath":"/k"}]"#;
    let key = |_: &str| {
        let key = include_bytes!("data/signatures/keys/skopeo-s.pub");
        Ok(key.to_vec())
    };
    let reference = NamedReference::parse(&format!("r.test/app@{DIGEST}")).unwrap();
    let contents = [reference.digest().unwrap().clone()];
    let refuse = |tags: [(&str, &str); 2]| {
        let policy = policy(REJECT, &tags);
        let ruling = policy.ruling(&reference);
        ruling.judge(&contents, &[], &key, &Conditions::default()).unwrap_err()
    };
    for tags in [
        [("r.test/app:1", open_pgp), ("r.test/app:2", SIGNED)],
        [("r.test/app:1", SIGNED), ("r.test/app:2", open_pgp)],
    ] {
        let refusal = refuse(tags);
        assert!(refusal.may_be_helped(), "{refusal}");
        assert!(refusal.to_string().contains("no signature was found"), "{refusal}");
    }
    let refusal = refuse([("r.test/app:1", open_pgp), ("r.test/app:2", open_pgp)]);
    assert!(!refusal.may_be_helped(), "{refusal}");
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

/// As many keys as a policy may have, in scopes that each must be tried, and signatures that none
/// of them made: counted, for seconds are the machine's.
#[test]
fn so_many_signatures_are_held_against_keys_for_one_pull_and_no_more() {
    const TAGS: usize = 64;
    let keys = ["\"/k\""; MAX_POLICY_KEYS / TAGS].join(",");
    let signed = format!("[{{\"type\":\"sigstoreSigned\",\"keyPaths\":[{keys}]}}]");
    let scopes: Vec<_> = (0..TAGS).map(|tag| format!("r.test/app:{tag}")).collect();
    let scopes: Vec<_> = scopes.iter().map(|scope| (scope.as_str(), signed.as_str())).collect();
    let policy = policy(REJECT, &scopes);
    let name = NamedReference::parse(&format!("r.test/app@{DIGEST}")).unwrap();
    let digest = Digest::parse(DIGEST).unwrap();
    let key = |_: &str| Ok(include_bytes!("data/signatures/keys/p384.pub").to_vec());
    let signature = Signature::Simple { payload: Vec::new(), signature: "AAAA".to_owned() };
    let refusal = |left: &Arc<Verifications>, count: usize| {
        let found = vec![(digest.clone(), signature.clone()); count];
        let contents = std::slice::from_ref(&digest);
        let ruling = policy.ruling(&name).within(left.clone());
        let refusal = ruling.judge(contents, &found, &key, &Conditions::default()).unwrap_err();
        (refusal.may_be_helped(), refusal.to_string())
    };
    let left = Arc::default();
    let all = MAX_VERIFICATIONS / MAX_POLICY_KEYS;
    for _ in 0..2 {
        let (may_be_helped, words) = refusal(&left, all / 2);
        assert!(may_be_helped && words.contains("is by that key"), "{words}");
    }
    let (may_be_helped, words) = refusal(&left, 1);
    assert!(!may_be_helped, "{words}");
    let most = format!("cannot be judged by {MAX_VERIFICATIONS} verifications of a signature by a");
    assert!(words.contains(&most), "{words}");
    assert!(refusal(&Arc::default(), all + 1).1.contains(&most));
}
