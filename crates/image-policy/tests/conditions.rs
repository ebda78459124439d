//! Conditions without signatures: lists, and which tags may be resolved.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use image_policy::{Conditions, Policy, section};
use oci_image::named::NamedReference;
use registry_config::{Document, PolicyPart};

const SIGNED: &str = r#"[{"type":"sigstoreSigned","keyPath":"/k"}]"#;
const ACCEPT: &str = r#"[{"type":"insecureAcceptAnything"}]"#;
const REJECT: &str = r#"[{"type":"reject"}]"#;
const BOTH: &str = r#"[{"type":"sigstoreSigned","keyPath":"/k"},{"type":"reject"}]"#;
const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn policy(default: &str, scopes: &[(&str, &str)]) -> Policy {
    let scopes: Vec<_> =
        scopes.iter().map(|(scope, requirements)| format!("\"{scope}\":{requirements}")).collect();
    let text =
        format!(r#"{{"default":{default},"transports":{{"docker":{{{}}}}}}}"#, scopes.join(","));
    Policy::parse(text.as_bytes()).unwrap()
}

fn allowing(scopes: &[&str]) -> Conditions {
    let scopes: Vec<_> = scopes.iter().map(|&scope| scope.to_owned()).collect();
    Conditions::parse(&scopes, &[]).unwrap()
}

fn named(image: &str) -> NamedReference {
    NamedReference::parse(image).unwrap()
}

#[test]
fn a_scope_allows_the_tags_of_its_images() {
    for (scope, image, is_allowed) in [
        ("r.test/app:1.0", "r.test/app:1.0", true),
        ("R.test:443/app:1.0", "r.test/app:1.0", true),
        ("r.test/app:1.0", "r.test/app:1.1", false),
        ("r.test/app:latest", "r.test/app", true),
        ("r.test/app", "r.test/app:1.0", true),
        ("r.test/app", "r.test/apple:1.0", false),
        ("r.test/app", "r.test/app/deep:1.0", true),
        ("r.test", "r.test/app", true),
        ("r.test", "r.test:5000/app", false),
        ("*.test", "r.test/app", true),
        ("", "busybox", true),
        ("docker.io/library/busybox", "busybox", true),
        ("docker.io/library/busybox", "index.docker.io/busybox:1", true),
    ] {
        let found = allowing(&[scope]).permits_tag(&named(image));
        assert_eq!(found, is_allowed, "{scope} {image}");
    }
    assert!(!Conditions::default().permits_tag(&named("r.test/app")));
}

#[test]
fn what_has_no_meaning_is_named_by_its_place() {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let by_digest = format!("r.test/app@{DIGEST}");
    let scopes = texts(&["r.test", "team/app", &by_digest, "r.test/app:"]);
    let digests = texts(&[DIGEST, "sha256:0", "latest"]);
    let faults = Conditions::parse(&scopes, &digests).unwrap_err();
    let places: Vec<_> = faults.iter().map(|(part, _)| *part).collect();
    assert_eq!(
        places,
        [
            PolicyPart::AllowTag(1),
            PolicyPart::AllowTag(2),
            PolicyPart::AllowTag(3),
            PolicyPart::Refuse(1),
            PolicyPart::Refuse(2),
        ]
    );
    for ((_, fault), words) in faults.iter().zip([
        "begins with no registry",
        "names a digest, and allow-tags is for tags",
        "has no tag behind the colon",
        "hexadecimal digits instead of 64",
        "a digest begins with",
    ]) {
        assert!(fault.contains(words), "{fault}");
    }
}

#[test]
fn a_tag_needs_a_signature_and_leave() {
    let policy = policy(
        SIGNED,
        &[
            ("r.test/free", ACCEPT),
            ("r.test/none", REJECT),
            ("r.test/both", BOTH),
            ("r.test/tags:1.0", SIGNED),
            ("r.test/tags:dev", ACCEPT),
        ],
    );
    let all = allowing(&[""]);
    for (image, asks_for) in [
        ("r.test/free:1", "scope \"r.test/free\" asks for nothing (insecureAcceptAnything)"),
        ("r.test/none:1", "scope \"r.test/none\" asks for what no image has (reject)"),
        ("r.test/both:1", "by /k with matchRepoDigestOrExact, the default, and for what no image"),
        ("r.test/tags:dev", "scope \"r.test/tags:dev\" asks for nothing"),
    ] {
        for conditions in [&all, &Conditions::default()] {
            let refused = policy.may_resolve_tag(&named(image), conditions).unwrap_err();
            let words = refused.to_string();
            let about = format!("the tag of {image} is not resolved: ");
            assert!(words.starts_with(&about) && words.contains(asks_for), "{words}");
        }
    }
    for (image, scope) in [
        ("r.test/app:1", "the default"),
        ("r.test/app", "the default"),
        ("r.test/tags:1.0", "scope \"r.test/tags:1.0\""),
        // One of the tags' scopes must hold, and only 1.0 asks for a signature.
        ("r.test/tags:2.0", "scope \"r.test/tags:1.0\""),
    ] {
        policy.may_resolve_tag(&named(image), &all).unwrap();
        let refused = policy.may_resolve_tag(&named(image), &Conditions::default());
        let words = refused.unwrap_err().to_string();
        let why = format!("{scope} asks for a signature, but allow-tags of [image-policy] has no");
        assert!(words.contains(&why), "{words}");
    }
    // A digest needs no leave.
    let by_digest = named(&format!("r.test/free:1@{DIGEST}"));
    policy.may_resolve_tag(&by_digest, &Conditions::default()).unwrap();
}

#[test]
fn a_section_is_given_its_meaning_or_named_by_line() {
    let written = |text: &str| {
        let checked = Document::parse_measured(text.as_bytes()).unwrap();
        checked.document.image_policy.unwrap()
    };
    let text = format!(
        "[image-policy]\ntext = '''{{\"default\":{REJECT},\"transports\":{{}}}}'''\n\
        allow-tags = [\"r.test\"]\nrefuse = [\"{DIGEST}\"]\n"
    );
    let (conditions, policy) = section::read(&written(&text)).unwrap();
    assert!(conditions.refuses(&oci_image::digest::Digest::parse(DIGEST).unwrap()));
    assert!(conditions.permits_tag(&named("r.test/app")));
    assert_eq!(policy.unwrap().scope_count(), 0);
    let elsewhere = written("[image-policy]\nfile = \"policy.json\"\n");
    assert!(section::read(&elsewhere).unwrap().1.is_none());
    let broken = "[image-policy]\ntext = '''{\n\"standard\": []}'''\nallow-tags = [\"team\"]\n\
        refuse = [\"sha256:0\"]\n";
    let problems = section::read(&written(broken)).unwrap_err().to_string();
    let lines: Vec<_> = problems.lines().collect();
    assert_eq!(lines.len(), 3, "{problems}");
    assert!(lines[0].starts_with("line 2: image-policy.text: the policy is not valid: "));
    assert!(lines[1].starts_with("line 4: image-policy.allow-tags, item 1: begins with no"));
    assert!(lines[2].starts_with("line 5: image-policy.refuse, item 1: "), "{problems}");
}
