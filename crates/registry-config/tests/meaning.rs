//! How a document is shown, and what the examples of pages and of the fuzzer mean.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use registry_config::{Checked, Document, Origin, PolicyPart, PolicySource, RegistryName};

use crate::ROOT;

fn checked(text: &str) -> Checked {
    Document::parse(text.as_bytes()).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

#[test]
fn document_is_shown_without_secrets() {
    let text = format!(
        "[registries.r]\nusername = \"robot\"\nidentitytoken = \"hunter2\"\n\
        ca-certs = '''\n{ROOT}'''\n[decryption-keys]\nkeys = [\"aHVudGVyMg:aHVudGVyMg\"]\n"
    );
    let document = checked(&text).document;
    let fingerprint = "sha256:3e9113832283becf0fecd54ec0d5ef5d04ed3493f4c3c7721dd5301f5a510480";
    let expected = format!(
        "[extra-env]\n\n[registries.\"r.\"]\nusername = \"robot\"\n\
         identitytoken = \"[redacted]\"\nca-certs = [\"{fingerprint}\"]\n\
         insecure-skip-verify = false\nplain-http = false\n\n\
         [decryption-keys]\nkeys = [\"[redacted]:[redacted]\"]\n"
    );
    assert_eq!(document.redacted(), expected);
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(json["registries"]["r."]["ca-certs"][0], fingerprint);
    assert_eq!(json["registries"]["r."]["identitytoken"], "[redacted]");
    for shown in [json.to_string(), format!("{document:?}")] {
        assert!(!shown.contains("aHVudGVyMg") && !shown.contains("hunter2"), "{shown}");
    }
    assert_eq!(Document::default().redacted(), "[extra-env]\n\n[registries]\n");
}

/// What a file of cases cannot hold.
#[test]
fn text_has_no_bytes_that_are_no_utf_8_and_may_be_empty() {
    let problems = Document::parse(b"[registries.r]\n\nauth = \"\xff\"").unwrap_err();
    assert_eq!(problems.to_string(), "line 3: not UTF-8 text");
    for text in [b"\xff\xfea\0", b"\xfe\xff\0a"] {
        let problems = Document::parse(text).unwrap_err();
        assert_eq!(problems.to_string(), "line 1: UTF-16 text: save it as UTF-8");
    }
    for text in ["", "\u{feff}[registries]\n"] {
        let Checked { document, warnings, .. } = checked(text);
        assert!(document.registries.is_empty() && !document.has_extra_env, "{text:?}");
        assert!(document.resources.is_none(), "{text:?}");
        assert!(warnings.is_empty(), "{text:?}");
    }
}

#[test]
fn each_entry_has_its_line_in_every_shape() {
    for (text, line) in [
        ("\n[registries.\"Reg.corp\"]\n", Some(2)),
        ("\n\nregistries.\"reg.corp.\".plain-http = true", Some(3)),
        ("registries = {\n \"reg.corp\" = {} }", Some(2)),
        ("[registries]\n\n\"\\u0072eg.corp\" = {}", Some(3)),
        ("[registries.\"reg.corp:5000\"]", None),
    ] {
        let name = RegistryName::parse("reg.corp").unwrap();
        assert_eq!(checked(text).lines.get(&name).copied(), line, "{text}");
    }
}

#[test]
fn a_policy_is_kept_as_it_is_written_and_shown() {
    let text = "[image-policy]\nfile = \"policy.json\"\nallow-tags = [\"R.corp/App:1\"]\n\
        refuse = [\"sha256:0\"]\n";
    let parse = |text: &str| Document::parse_measured(text.as_bytes()).unwrap().document;
    let mut document = parse(text);
    let shown = document.redacted();
    let expected = "[image-policy]\nfile = \"policy.json\"\n\
        allow-tags = [\"R.corp/App:1\"]\nrefuse = [\"sha256:0\"]\n";
    assert!(shown.contains(expected), "{shown}");
    let policy = document.image_policy.as_ref().unwrap();
    assert!(matches!(&policy.source, PolicySource::File(name) if name == "policy.json"));
    assert_eq!((policy.line(), policy.key()), (2, "image-policy.file"));
    assert_eq!(policy.allow_tags, ["R.corp/App:1"]);
    let problems = policy.problems([
        (PolicyPart::Refuse(0), "a".to_owned()),
        (PolicyPart::AllowTag(0), "b".to_owned()),
    ]);
    assert_eq!(
        problems.to_string(),
        "line 3: image-policy.allow-tags, item 1: b\nline 4: image-policy.refuse, item 1: a"
    );
    // Of two sections the upper one holds as a whole; nothing is added to it.
    let below = parse("[image-policy]\nuri = \"kbs:///a/b/c\"\nallow-tags = [\"\"]\n");
    let mut empty = Document::default();
    assert!(empty.complete(below.clone(), Origin::Measured).unwrap().is_empty());
    assert_eq!(empty.redacted(), below.redacted());
    assert_eq!(document.complete(below, Origin::Measured).unwrap(), ["image-policy"]);
    assert_eq!(document.redacted(), shown);
}

/// The fuzzer starts from these; a seed that stops being a document no longer leads anywhere.
#[test]
fn fuzz_seeds_are_what_their_names_say() {
    let everyday = checked(include_str!("../fuzz/seeds/document/everyday.toml"));
    assert!(everyday.warnings.is_empty() && everyday.document.registries.len() == 1);
    let every_key = checked(include_str!("../fuzz/seeds/document/every-key.toml"));
    assert_eq!(every_key.document.registries.len(), 6);
    let routes = checked(include_str!("../fuzz/seeds/document/routes.toml")).document;
    assert_eq!((routes.registries.len(), routes.decryption_keys.of.len()), (2, 1));
    let references = checked(include_str!("../fuzz/seeds/document/references.toml"));
    assert_eq!(references.document.decryption_keys.all.len(), 3);
    let measured = include_str!("../fuzz/seeds/document/measured.toml");
    let measured = Document::parse_measured(measured.as_bytes()).unwrap().document;
    assert_eq!(measured.decryption_keys.all.len(), 3);
    assert!(measured.resources.unwrap().unwrap);
    assert_eq!((measured.pins.all.len(), measured.pins.is_only), (2, true));
    let policy = measured.image_policy.unwrap();
    assert_eq!((policy.allow_tags.len(), policy.refuse.len()), (1, 1));
    let policy = include_str!("../fuzz/seeds/document/image-policy.toml");
    let policy = Document::parse_measured(policy.as_bytes()).unwrap();
    let policy = policy.document.image_policy.unwrap();
    assert!(matches!(policy.source, PolicySource::Uri(_)));
    let mistakes = include_str!("../fuzz/seeds/document/image-policy-mistakes.toml");
    let mistakes = Document::parse_measured(mistakes.as_bytes()).unwrap_err();
    assert_eq!(mistakes.iter().count(), 5);
    let reason = checked(include_str!("../fuzz/seeds/document/node-error.toml"));
    assert!(reason.document.node_error.is_some());
    let beside = include_str!("../fuzz/seeds/document/node-error-beside.toml");
    let beside = Document::parse(beside.as_bytes()).unwrap_err();
    assert_eq!(beside.iter().count(), 2);
    let mistakes = include_str!("../fuzz/seeds/document/every-mistake.toml");
    assert_eq!(Document::parse(mistakes.as_bytes()).unwrap_err().iter().count(), 21);
}

#[test]
fn examples_of_the_reference_are_documents() {
    let reference = include_str!("../../../docs/document.md");
    let root = ROOT.lines().filter(|line| !line.starts_with('-')).collect::<String>();
    let examples = reference.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let parsed = examples.map(|example| {
        let key = example.replace("...(base64)", "LS0t");
        let example = key.replace("(base64)", &root);
        let of_owner = ["[resources]", "[pins]", "[image-policy]"];
        if of_owner.iter().any(|key| example.contains(key)) {
            let checked = Document::parse_measured(example.as_bytes());
            return checked.unwrap_or_else(|problems| panic!("{example}\n{problems}"));
        }
        checked(&example)
    });
    assert_eq!(parsed.count(), 15);
}
