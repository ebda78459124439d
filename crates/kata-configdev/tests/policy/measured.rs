//! `[image-policy]` of a measured document: what the commands that read one say of it.

use config_image::{Magic, encode};

use crate::command::{Folder, Run, run};

const TEXT: &str = r#"[image-policy]
allow-tags = ["registry.corp/team/app:1.0"]
refuse = ["sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
text = '''
{
  "default": [{"type": "reject"}],
  "transports": {"docker": {
    "registry.corp/team": [{"type": "sigstoreSigned", "keyPath": "/k.pub"}],
    "registry.corp/free": [{"type": "insecureAcceptAnything"}]
  }}
}'''
"#;

#[test]
fn check_reads_a_policy_in_the_document() {
    let folder = Folder::new();
    let path = folder.file("measured.toml", TEXT);
    let checked = run(&["check", "--measured", &path]);
    checked.ends(0);
    checked.prints(&[
        "measured.toml:4: warning: image-policy.text: transports.docker.\"registry.corp/team\"[0] \
        (line 4) has no signedIdentity",
        "measured.toml:4: warning: image-policy.text: transports.docker.\"registry.corp/free\" \
        (line 5) accepts anything: ",
        "valid, 0 registries, 2 warnings\n",
    ]);
    let strict = run(&["check", "--strict", "--measured", &path]);
    strict.ends(65);
    strict.prints(&["error: image-policy.text: transports.docker.\"registry.corp/free\" (line 5)"]);
    let wrong = TEXT
        .replace("keyPath", "keyPaht")
        .replace("registry.corp/team/app:1.0", "team/app")
        .replace("sha256:a", "sha256:");
    let wrong = run(&["check", "--measured", &folder.file("wrong.toml", wrong)]);
    wrong.ends(65);
    wrong.prints(&[
        "wrong.toml:2: image-policy.allow-tags, item 1: begins with no registry",
        "wrong.toml:3: image-policy.refuse, item 1: the digest has 63 hexadecimal digits",
        "wrong.toml:4: image-policy.text: the policy is not valid: transports.docker.",
        "not valid, 3 problems\n",
    ]);
    let of_host = run(&["check", &path]);
    of_host.ends(65);
    of_host.prints(&["measured.toml:1: image-policy: belongs in the measured document"]);
}

/// What is elsewhere is no reason to refuse a document, also for `--strict`.
#[test]
fn check_says_what_it_cannot_see() {
    let folder = Folder::new();
    for (source, note) in [
        (
            "file = \"policy.json\"",
            "the policy is the file \"policy.json\" of the initdata, which is not looked at here",
        ),
        (
            "uri = \"kbs:///default/policy/images\"",
            "the guest gets the policy by kbs:///default/policy/images, so that it is not known",
        ),
    ] {
        let text = format!("[image-policy]\n{source}\n");
        let path = folder.file("measured.toml", text);
        let checked = run(&["check", "--strict", "--measured", &path]);
        checked.ends(0);
        checked.prints(&["measured.toml:2: note: image-policy.", note, ": valid, 0 registries\n"]);
        let json = run(&["check", "--json", "--measured", &path]).json();
        assert_eq!(json["notes"].as_array().unwrap().len(), 1);
        let config = folder.file("host.toml", "");
        let explained = run(&["explain", "--config", &config, "--measured", &path, "r.corp/app:1"]);
        explained.ends(0);
        explained.prints(&["policy      ", note]);
    }
}

#[test]
fn explain_says_which_scope_decides() {
    let folder = Folder::new();
    let config = folder.file("host.toml", "");
    let measured = folder.file("measured.toml", TEXT);
    let explain = |image: &str| -> (Run, Run) {
        let arguments = ["--config", &config, "--measured", &measured, image];
        let text = run(&[&["explain"], &arguments[..]].concat());
        let json = run(&[&["explain", "--json"], &arguments[..]].concat());
        assert_eq!(text.code, json.code, "{image}");
        (text, json)
    };
    let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
    let asks = "policy      scope \"registry.corp/team\" asks for a signature (sigstoreSigned) by \
        /k.pub with matchRepoDigestOrExact, the default\n";
    let (text, json) = explain(&format!("registry.corp/team/app@{}", digest("b")));
    text.ends(0);
    text.prints(&[asks]);
    let json = json.json();
    assert_eq!(json["image_policy"]["scopes"][0]["scope"], "scope \"registry.corp/team\"");
    assert!(json["image_policy"]["tag_allowed"].is_null());

    let (text, json) = explain("registry.corp/team/app:1.0");
    text.ends(0);
    text.prints(&["tag \"1.0\", which [image-policy] lets the guest resolve\n", asks]);
    assert_eq!(json.json()["image_policy"]["tag_allowed"], true);
    for (image, why) in [
        ("registry.corp/team/app:1.1", "allow-tags of [image-policy] has no scope"),
        (
            "registry.corp/free/app:1",
            "says which content a tag may have; write the scope of the digest, and name it, pin",
        ),
    ] {
        let (text, json) = explain(image);
        text.ends(0);
        text.prints(&["the guest pulls by digest only\n", "tag         the tag of ", why]);
        assert_eq!(json.json()["image_policy"]["tag_allowed"], false);
    }
    // What no signature changes is refused.
    for (image, why) in [
        (format!("busybox@{}", digest("b")), "the default rejects it"),
        (
            format!("registry.corp/free/app@{}", digest("a")),
            "refuse of [image-policy] lists sha256:aaaa",
        ),
    ] {
        let (text, json) = explain(&image);
        text.ends(65);
        text.prints(&["refused     the image policy refuses ", why]);
        assert!(json.json()["refused"].as_str().unwrap().contains(why));
    }
    let wrong = folder.file("measured.toml", TEXT.replace("keyPath", "keyPaht"));
    run(&["explain", "--config", &config, "--measured", &wrong, "busybox"])
        .fails(65, &["image-policy.text: the policy is not valid"]);
}

/// As the guest does, `explain` lets the scope of a tag speak for the digest that the owner gives
/// this very tag, and for none that the host may have written behind it.
#[test]
fn explain_goes_by_the_pin_of_a_tag() {
    let folder = Folder::new();
    let config = folder.file("host.toml", "");
    let (a, b) = ("a".repeat(64), "b".repeat(64));
    let text = format!(
        "[image-policy]\ntext = '''\n{{\"default\": [{{\"type\": \"reject\"}}], \"transports\": \
        {{\"docker\": {{\"r.corp/app:1\": [{{\"type\": \"insecureAcceptAnything\"}}], \
        \"r.corp/tool:1\": [{{\"type\": \"insecureAcceptAnything\"}}]}}}}}}'''\n\
        [pins]\n\"r.corp/app:1\" = \"sha256:{a}\"\n\"r.corp/tool\" = \"sha256:{b}\"\n"
    );
    let measured = folder.file("measured.toml", text);
    for (image, told) in [
        ("r.corp/app:1".to_owned(), None),
        (format!("r.corp/app:1@sha256:{a}"), None),
        (format!("r.corp/app@sha256:{a}"), Some("rejects it")),
        (format!("r.corp/app:2@sha256:{a}"), Some("rejects it")),
        (format!("r.corp/app:1@sha256:{b}"), Some("pins r.corp/app:1")),
        ("r.corp/tool:1".to_owned(), Some("rejects it")),
    ] {
        let arguments = ["--config", &config, "--measured", &measured, &image];
        let explained = run(&[&["explain"], &arguments[..]].concat());
        match told {
            None => {
                explained.ends(0);
                explained.prints(&["policy      scope \"r.corp/app:1\" asks for nothing"]);
            }
            Some(refused) => {
                explained.ends(65);
                explained.prints(&["refused     ", refused]);
            }
        }
    }
}

/// A policy that is a file of the initdata has to be there, and to be one.
#[test]
fn inspect_looks_for_the_policy_in_initdata() {
    let folder = Folder::new();
    let inspect = |document: &str, more: &str| {
        let initdata = format!(
            "version = \"0.1.0\"\nalgorithm = \"sha256\"\n[data]\n\"imagepuller.toml\" = \
            '''\n{document}'''\n{more}"
        );
        let image = encode(Magic::INITDATA, initdata.as_bytes()).unwrap();
        let path = folder.file("initdata.img", &image[..]);
        let (text, json) = (run(&["inspect", &path]), run(&["inspect", "--json", &path]));
        assert_eq!(text.code, json.code);
        assert_eq!(json.json()["document"]["valid"], true);
        text
    };
    let document = "[image-policy]\nfile = \"policy.json\"\n";
    let policy = "\"policy.json\" = '{\"default\": [{\"type\": \"reject\"}]}'\n";
    inspect(document, policy).ends(0);
    inspect("", "").ends(0);
    let outcome = "its image policy is not valid, every pull of the guest will fail\n";
    for (document, more, problem) in [
        (document, "", "[data] has no key \"policy.json\", so every pull fails"),
        (document, &policy.replace("default", "standard"), "the policy is not valid: "),
        // Confidential Containers want "transports".
        (
            "[image-policy]\nfile = \"policy.json\"\ndialect = \"coco\"\nrefuse = [\"0\"]\n",
            policy,
            "line 4: image-policy.refuse, item 1: a digest begins with",
        ),
    ] {
        let text = inspect(document, more);
        text.ends(65);
        text.prints(&["data.\"imagepuller.toml\": ", problem, outcome]);
    }
}

#[test]
fn import_checks_the_policy_of_cdh_toml() {
    let folder = Folder::new();
    let import = |key: &str, policy: &str| {
        let text = format!("[image]\n{key} = '{policy}'\n");
        run(&["import", "cdh", &folder.file("cdh.toml", text)])
    };
    let policy = r#"{"default": [{"type": "reject"}], "transports": {}}"#;
    let good = import("image_security_policy", policy);
    good.ends(0);
    assert_eq!(good.stdout, format!("[image-policy]\ndialect = \"coco\"\ntext = '{policy}'\n"));
    let by_reference = import("image_security_policy_uri", "kbs:///default/security-policy/test");
    by_reference.ends(0);
    by_reference.prints(&["uri = \"kbs:///default/security-policy/test\"\n"]);
    import("image_security_policy", &policy.replace("reject", "rejects"))
        .fails(65, &["image.image_security_policy", "the policy is not valid: default[0]"]);
    import("image_security_policy_uri", "file:///etc/policy.json")
        .fails(65, &["image.image_security_policy_uri: line 2: the document has a policy by"]);
}
