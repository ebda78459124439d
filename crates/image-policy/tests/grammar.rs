//! What a policy may say, and how its mistakes are told.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use image_policy::{Dialect, Policy};
use oci_image::named::NamedReference;

fn parse(text: &str) -> Result<Policy, String> {
    Policy::parse(text.as_bytes(), Dialect::Containers).map_err(|error| error.to_string())
}

/// A policy with one requirement, of which the members are given.
fn requirement(members: &str) -> String {
    format!(r#"{{"default":[{{{members}}}]}}"#)
}

#[test]
fn a_mistake_is_told_with_path_and_line_and_without_a_value() {
    let policy = r#"{
        "default": [{"type": "reject"}],
        "transports": {"docker": {
            "registry.corp": [{"type": "sigstoreSigned",
                "keyPat": "hunter2"}]
        }}
    }"#;
    let error = parse(policy).unwrap_err();
    assert!(
        error.starts_with(
            "the policy is not valid: transports.docker.\"registry.corp\"[0].keyPat (line 5) is \
            not known; known here: type, keyPath,"
        ),
        "{error}"
    );
    assert!(!error.contains("hunter2"));
}

#[test]
fn exactly_one_source_of_keys_is_there() {
    for (members, is_valid) in [
        (r#""keyPath":"/k""#, true),
        (r#""keyPath":"","keyPaths":["/k"]"#, true),
        (r#""keyPath":null,"keyData":"""#, true),
        (r#""keyData":null,"keyPath":"/k""#, true),
        (r#""keyDatas":[""]"#, true),
        (r#""keyPath":"/k","rekorPublicKeyPath":"/r""#, true),
        (r#""keyPath":"""#, false),
        (r#""keyPaths":[]"#, false),
        (r#""keyPaths":null"#, false),
        (r#""keyDatas":[]"#, false),
        (r#""keyData":"!""#, false),
        (r#""keyPath":"/k","keyData":"""#, false),
        (r#""keyPath":["/k"]"#, false),
        (r#""keyPath":"/k","fulcio":null"#, false),
        (r#""keyPath":"/k","signedIdentity":null"#, false),
        (r#""keyPath":"/k","rekorPublicKeyDatas":[]"#, false),
        (r#""keyPath":"/k","rekorPublicKeyPath":"/r","rekorPublicKeyData":"""#, false),
        (
            r#""fulcio":{"caPath":"/c","oidcIssuer":"i","subjectEmail":"s"},
            "rekorPublicKeyPath":"/r""#,
            true,
        ),
        (r#""fulcio":{"caPath":"/c","oidcIssuer":"i","subjectEmail":"s"}"#, false),
        (r#""pki":{"caRootsPath":"/c","subjectEmail":"s"}"#, true),
        (r#""pki":{"caRootsPath":"/c"}"#, false),
        (r#""pki":{"subjectEmail":"s"}"#, false),
    ] {
        let text = requirement(&format!(r#""type":"sigstoreSigned",{members}"#));
        assert_eq!(parse(&text).is_ok(), is_valid, "{members}");
    }
}

#[test]
fn names_in_identities_are_names() {
    for (identity, is_valid) in [
        (r#"{"type":"matchExact"}"#, true),
        (r#"{"type":"digestOnly"}"#, true),
        (r#"{"type":"digestOnly","x":1}"#, false),
        (r#"{"type":"MatchExact"}"#, false),
        (r#""matchExact""#, false),
        (r#"{"type":"exactReference","dockerReference":"r.test/a:1"}"#, true),
        (r#"{"type":"exactReference","dockerReference":"r.test/a"}"#, false),
        (r#"{"type":"exactReference"}"#, false),
        (r#"{"type":"exactRepository","dockerRepository":"r.test/a:1"}"#, true),
        (r#"{"type":"exactRepository","dockerRepository":"UPPER"}"#, false),
        (r#"{"type":"remapIdentity","prefix":"r.test","signedPrefix":"s.test:5000/a"}"#, true),
        (r#"{"type":"remapIdentity","prefix":"r.test/","signedPrefix":"s.test"}"#, false),
        (r#"{"type":"remapIdentity","prefix":"*.test","signedPrefix":"s.test"}"#, false),
        (r#"{"type":"remapIdentity","prefix":"r.test"}"#, false),
        (r#"{"type":"exactRepository","dockerRepository":"r.test/a@sha384:0"}"#, false),
    ] {
        let members =
            format!(r#""type":"sigstoreSigned","keyPath":"/k","signedIdentity":{identity}"#);
        assert_eq!(parse(&requirement(&members)).is_ok(), is_valid, "{identity}");
    }
}

/// What containers/image takes for a host there, although none can be asked.
#[test]
fn prefixes_of_identities_have_the_grammar_of_names() {
    let digest = format!("r.test/a@sha384:{}", "0".repeat(96));
    let exact = |name| format!(r#"{{"type":"exactReference","dockerReference":"{name}"}}"#);
    let remap = |prefix| {
        format!(r#"{{"type":"remapIdentity","prefix":"{prefix}","signedPrefix":"s.test"}}"#)
    };
    for (identity, is_valid) in [
        (exact(&*digest), true),
        (exact(&digest.replace("sha384", "sha224")), false),
        (remap("r.test:0"), true),
        (remap("r.test:99999"), true),
        (remap("r.test:005000/team"), true),
        (remap("[::1]:5000/team"), true),
        (remap("[fe80::1::2]"), true),
        (remap("127.1"), true),
        (remap("team"), true),
        (remap("team/app"), true),
        (remap("R.test/app"), true),
        (remap("r.test."), false),
        (remap("r.test:"), false),
        (remap("r.test:x"), false),
        (remap("my_host.test"), false),
        (remap("-r.test"), false),
        (remap("[::1"), false),
        (remap("[::g]"), false),
        (remap("r.test/app:1"), false),
        (remap("r.test//app"), false),
        (remap(""), false),
    ] {
        let members =
            format!(r#""type":"sigstoreSigned","keyPath":"/k","signedIdentity":{identity}"#);
        assert_eq!(parse(&requirement(&members)).is_ok(), is_valid, "{identity}");
    }
}

#[test]
fn open_pgp_keys_are_given_by_one_member() {
    for (members, is_valid) in [
        (r#""keyPath":"/k""#, true),
        (r#""keyPaths":["/k"]"#, true),
        (r#""keyPaths":[]"#, true),
        (r#""keyData":"""#, true),
        (r#""keyPath":"""#, false),
        (r#""keyPath":null"#, false),
        (r#""keyPaths":null"#, false),
        (r#""keyData":null"#, false),
        (r#""keyPath":"/k","keyData":null"#, false),
        (r#""keyPath":"","keyPaths":["/k"]"#, false),
        (r#""keyPath":"/k","keyPaths":null"#, false),
        (r#""keyData":"","keyPath":null"#, false),
    ] {
        let text = requirement(&format!(r#""type":"signedBy","keyType":"GPGKeys",{members}"#));
        assert_eq!(parse(&text).is_ok(), is_valid, "{members}");
    }
}

#[test]
fn scopes_of_other_transports_are_checked_too() {
    let policy = |transport: &str, scope: &str| {
        let reject = r#"[{"type":"reject"}]"#;
        let scopes = format!(r#"{{"{transport}":{{"{scope}":{reject}}}}}"#);
        parse(&format!(r#"{{"default":{reject},"transports":{scopes}}}"#))
    };
    policy("dir", "/images").unwrap();
    policy("of-tomorrow", "images").unwrap();
    let error = policy("dir", "images").unwrap_err();
    assert!(error.contains("transports.dir.images (line 1) is no absolute path"), "{error}");
}

#[test]
fn what_is_not_verified_is_taken_and_said() {
    for (members, name) in [
        (r#""type":"signedBy","keyType":"GPGKeys","keyPath":"/k""#, "signedBy"),
        (
            r#""type":"signedBaseLayer","baseLayerIdentity":{"type":"matchExact"}"#,
            "signedBaseLayer",
        ),
        (r#""type":"sigstoreSigned","keyPath":"/k","rekorPublicKeyPath":"/r""#, "rekorPublicKey"),
    ] {
        let policy = parse(&requirement(members)).unwrap();
        let remarks: Vec<_> = policy.remarks().iter().map(ToString::to_string).collect();
        let words = format!("default[0] (line 1) refuses every image: {name} ");
        assert!(remarks.iter().any(|remark| remark.starts_with(&words)), "{remarks:?}");
    }
}

/// A policy that accepts anything but what these scopes reject.
fn rejecting(scopes: &[&str]) -> String {
    let scopes: Vec<_> =
        scopes.iter().map(|scope| format!(r#""{scope}":[{{"type":"reject"}}]"#)).collect();
    let scopes = scopes.join(",\n");
    format!(
        r#"{{"default":[{{"type":"insecureAcceptAnything"}}],"transports":{{"docker":{{
{scopes}}}}}}}"#
    )
}

/// Where the scope that was meant to reject is for nothing, a wider one would let everything run:
/// such a policy is refused, with all of its scopes of that kind.
#[test]
fn scopes_that_no_image_can_have_refuse_the_policy_all_at_once() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let short = format!("r.test/prod/app@{}", &digest[..70]);
    let both = format!("r.test/prod/app:1@{digest}");
    let official = format!("docker.io/tiny@{digest}");
    let scopes = [
        ("r.test/prod/*", "no repository or namespace"),
        ("r.test/Prod", "no repository or namespace"),
        ("r.test/prod/", "no repository or namespace"),
        ("r.test/prod//app", "no repository or namespace"),
        ("https://r.test/prod", "has a scheme"),
        ("docker://r.test/prod", "has a scheme"),
        ("//r.test/prod", "begins with no registry"),
        ("r.test/prod/app:", "has no tag"),
        ("r.test:port/prod", "names no host"),
        ("r.test:5000:1", "names no host"),
        (".test", "names no host"),
        ("r.*.test", "names no host"),
        ("*.r.test:5000", "is a wildcard with a port"),
        ("*.r.test/prod", "names no domain"),
        ("*", "begins with no registry"),
        ("prod/app", "begins with no registry"),
        ("docker.io/tiny:1", "write docker.io/library/"),
        ("index.docker.io/tiny:1", "write docker.io/library/"),
        (&official, "write docker.io/library/"),
        (&short, "has no digest"),
        (&both, "has a tag and a digest"),
    ];
    let alone = |(scope, words): &(&str, &str)| {
        let error = parse(&rejecting(&["r.test", scope])).unwrap_err();
        assert!(error.contains("(line 3) "), "{scope}: {error}");
        assert!(error.contains(words), "{scope}: {error}");
        assert!(!error.contains("(line 2)"), "{scope}: {error}");
    };
    scopes.iter().for_each(alone);
    let all = rejecting(&scopes.map(|(scope, _)| scope));
    let error = parse(&all).unwrap_err();
    assert!(error.contains("the policy is not valid: "), "{error}");
    for (index, (scope, words)) in scopes.iter().enumerate() {
        let line = format!("(line {}) ", index + 2);
        let said = error.split(&line).nth(1);
        assert!(said.is_some_and(|said| said.contains(words)), "{scope}: {error}");
    }
    // Scopes of other transports are for no image in any case.
    parse(&all.replace("docker\"", "of-tomorrow\"")).unwrap();
}

/// What containers-policy.json(5) has, and what distributions and Confidential Containers ship.
#[test]
fn scopes_that_an_image_can_have_are_taken() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let by_digest = format!("registry.test:5000/team/deep/app@{digest}");
    for scope in [
        "",
        "*.test",
        "*.registry.test",
        "*.0.2.1",
        "*.io",
        "docker.io",
        "docker.io/library",
        "docker.io/library/tiny",
        "docker.io/library/tiny:1",
        "docker.io/openshift",
        "index.docker.io/library/tiny",
        "registry.test",
        "Registry.TEST.:443/team",
        "registry.test:5000",
        "registry.test:5000/team/deep/app:1.0",
        &by_digest,
        "localhost:5000/app",
        "[::1]:5000/app",
        "192.0.2.1/app",
        "my_host.test/a__b/c-d.e",
        "ghcr.io/confidential-containers/test-container-image-rs",
        "quay.io/kata-containers/confidential-containers:cosign-signed",
        "quay.io/prometheus",
        "nvcr.io/nim/meta",
        "registry.access.redhat.com",
        "registry.suse.com/bci",
    ] {
        let text = rejecting(&[scope]);
        for dialect in [Dialect::Containers, Dialect::Coco] {
            let policy = Policy::parse(text.as_bytes(), dialect);
            assert_eq!(policy.map(|policy| policy.scope_count()), Ok(1), "{scope}");
        }
    }
}

/// A short name of Docker Hub, which stands for another image than it seems to.
#[test]
fn a_namespace_of_docker_hub_is_remarked() {
    for (scope, is_remarked) in [
        ("docker.io/tiny", true),
        ("index.docker.io/tiny", true),
        ("docker.io/library", false),
        ("docker.io/library/tiny", false),
        ("docker.io", false),
        ("registry.test/tiny", false),
    ] {
        let text = rejecting(&[scope]).replace("insecureAcceptAnything", "reject");
        let policy = parse(&text).unwrap();
        let remarks: Vec<_> = policy.remarks().iter().map(ToString::to_string).collect();
        assert_eq!(remarks.len(), usize::from(is_remarked), "{remarks:?}");
        for remark in remarks {
            assert!(remark.contains("docker.io/library/tiny"), "{remark}");
        }
    }
}

/// Name, digest and mirror are the host's to write, so that such a scope runs what the host likes.
#[test]
fn each_scope_that_accepts_anything_and_is_no_digest_is_remarked() {
    let signed =
        r#"[{"type":"sigstoreSigned","keyPath":"/k","signedIdentity":{"type":"matchRepository"}}]"#;
    let accept = r#"[{"type":"insecureAcceptAnything"}]"#;
    let digest = format!("sha256:{}", "0".repeat(64));
    let text = format!(
        r#"{{"default":{accept},"transports":{{"docker":{{
            "r.test":{signed},"r.test/tool@{digest}":{accept},"*.test":{accept},
            "r.test/app:1":{signed},"r.test/app:dev":{accept},"r.test/other:dev":{accept},
            "r.open/a":{accept},"r.open/a/b:dev":{accept},"":{accept}}},
            "atomic":{{"":{accept}}}}}}}"#
    );
    let policy = parse(&text).unwrap();
    let paths: Vec<_> = policy.remarks().iter().map(|remark| &*remark.path).collect();
    assert_eq!(
        paths,
        [
            "default",
            "transports.docker.\"*.test\"",
            "transports.docker.\"r.open/a\"",
            "transports.docker.\"\"",
            "transports.atomic",
            "transports.docker.\"r.test/app:dev\"",
            "transports.docker.\"r.test/other:dev\"",
            "transports.docker.\"r.open/a/b:dev\"",
        ]
    );
    // At a terminal the scope of such a tag decides; in a guest the one above does.
    for (remark, words) in policy.remarks().iter().zip([
        "accepts anything that no other scope is for",
        "accepts anything: ",
        "accepts anything: ",
        "accepts anything that no other scope is for",
        "is for no image of a registry",
        "lets no image run",
        "lets no image run",
        "accepts anything: ",
    ]) {
        assert!(remark.words.starts_with(words), "{remark}");
    }
}

/// The host writes the tag, so that one which asks for nothing speaks for no digest.
#[test]
fn a_tag_that_asks_for_nothing_is_remarked() {
    let accept = r#"[{"type":"insecureAcceptAnything"}]"#;
    let rejects = r#"[{"type":"insecureAcceptAnything"},{"type":"reject"}]"#;
    for (beside, decides) in [
        ("", "the scopes above decide"),
        (&format!(r#""r.test/other:1":{rejects},"#), "the other tags of its repository decide"),
    ] {
        let text = format!(
            r#"{{"default":[{{"type":"reject"}}],
                "transports":{{"docker":{{{beside}"r.test/other:dev":{accept}}}}}}}"#
        );
        let policy = parse(&text).unwrap();
        let [remark] = policy.remarks() else {
            panic!("{:?}", policy.remarks());
        };
        assert!(remark.words.contains("lets no image run"), "{remark}");
        assert!(remark.words.contains(decides), "{remark}");
    }
}

/// image-rs has a scope for each tag with its digest; here a digest has one, and both must hold.
#[test]
fn two_tags_of_one_digest_are_one_scope_of_coco() {
    let digest = format!("@sha256:{}", "0".repeat(64));
    let text = format!(
        r#"{{"default":[{{"type":"insecureAcceptAnything"}}],"transports":{{"docker":{{
            "r.test/a:1{digest}":[{{"type":"insecureAcceptAnything"}}],
            "r.test/a:2{digest}":[{{"type":"reject"}}]}}}}}}"#
    );
    let policy = Policy::parse(text.as_bytes(), Dialect::Coco).unwrap();
    let name = NamedReference::parse(&format!("r.test/a:1{digest}")).unwrap();
    let ruling = policy.ruling(&name);
    let [clause] = ruling.clauses() else {
        panic!("{:?}", ruling.clauses());
    };
    assert_eq!(clause.requirements().len(), 2);
}

#[test]
fn two_spellings_of_one_scope_are_refused() {
    let reject = r#"[{"type":"reject"}]"#;
    let text = format!(
        r#"{{"default":{reject},"transports":{{"docker":{{
            "r.test/a":{reject},"R.test:443/a":{reject}}}}}}}"#
    );
    let error = parse(&text).unwrap_err();
    assert!(error.contains("\"R.test:443/a\" (line 2) is there twice"), "{error}");
}

#[test]
fn coco_writes_keys_as_pem_and_leaves_the_identity_out() {
    let text = requirement(r#""type":"sigstoreSigned","keyData":"-----BEGIN PUBLIC KEY-----\n""#);
    assert!(parse(&text).is_err());
    let policy = Policy::parse(text.as_bytes(), Dialect::Coco).unwrap();
    let [key, remark] = policy.remarks() else {
        panic!("{:?}", policy.remarks());
    };
    assert!(key.words.contains("is no PEM"), "{key}");
    assert!(remark.words.contains("matchRepository"), "{remark}");
}

#[test]
fn the_examples_of_the_page_are_policies_without_remarks() {
    let page = include_str!("../../../docs/image-policy.md");
    let examples = page.split("```json\n").skip(1);
    let examples: Vec<_> = examples.filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let policy = parse(example).unwrap();
        assert_eq!(policy.remarks(), [], "{example}");
    }
}
