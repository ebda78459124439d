//! `kata-configdev policy`: image policies checked and explained. `kata-configdev pins`: the simplest
//! of them written from manifests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::command;
mod measured;

use std::process::Command;

use command::{Folder, run};

const POLICY: &str = r#"{
  "default": [{"type": "reject"}],
  "transports": {"docker": {
    "registry.corp/team": [{"type": "sigstoreSigned", "keyPath": "/k.pub"}],
    "registry.corp/team/app:1.0": [{"type": "sigstoreSigned", "keyPaths": ["/a", "/b"],
      "signedIdentity": {"type": "matchRepository"}}],
    "docker.io/team": [{"type": "insecureAcceptAnything"}]
  }}
}"#;

#[test]
fn a_policy_is_checked() {
    let folder = Folder::new();
    let path = folder.file("policy.json", POLICY);
    let checked = run(&["policy", "check", &path]);
    checked.succeeds();
    checked.prints(&[
        "warning: transports.docker.\"registry.corp/team\"[0] (line 4) has no signedIdentity",
        "warning: transports.docker.\"docker.io/team\" (line 7) is for the images of a namespace",
        "warning: transports.docker.\"docker.io/team\" (line 7) accepts anything: ",
        "policy.json: valid, 3 scopes and the default\n",
    ]);
    let strict = run(&["policy", "check", "--strict", &path]);
    strict.ends(65);
    strict.prints(&[
        "error: transports.docker.\"docker.io/team\" (line 7) accepts anything: ",
        "policy.json: valid, 3 scopes and the default, refused because of --strict\n",
    ]);
    // What has a pin, a digest or a signature for everything passes.
    let digest = digest("a");
    let of_digest = POLICY
        .replace("docker.io/team", &format!("docker.io/team/tool@{digest}"))
        .replace(r#""/k.pub""#, r#""/k.pub", "signedIdentity": {"type": "matchRepository"}"#);
    let of_digest = folder.file("digest.json", of_digest);
    let strict = run(&["policy", "check", "--strict", &of_digest]);
    strict.succeeds();
    assert!(strict.stdout.ends_with(": valid, 3 scopes and the default\n"));
    // The scopes that were meant to reject are for nothing: both are named.
    let wrong = POLICY
        .replace("registry.corp/team/app:1.0", "registry.corp/prod/*")
        .replace("docker.io/team", "https://registry.corp");
    let wrong = folder.file("scopes.json", wrong);
    let refused = run(&["policy", "check", &wrong]);
    refused.ends(65);
    refused.prints(&[
        "problem: the policy is not valid: it has scopes that no image can have",
        "transports.docker.\"registry.corp/prod/*\" (line 5) has no repository",
        "transports.docker.\"https://registry.corp\" (line 7) has a scheme",
    ]);
    let wrong = folder.file("wrong.json", POLICY.replace("keyPaths", "keyPats"));
    let refused = run(&["policy", "check", &wrong]);
    refused.ends(65);
    refused
        .prints(&["problem: the policy is not valid: transports.docker.", "(line 5) is not known"]);
    run(&["policy", "check", "/nonexistent.json"]).ends(65);
}

#[test]
fn the_scope_that_decides_is_explained() {
    let folder = Folder::new();
    let path = folder.file("policy.json", POLICY);
    let explain = |image: &str| run(&["policy", "explain", &path, image]);
    explain("Registry.corp:443/team/other").prints(&[
        "image: registry.corp/team/other\n",
        "scope \"registry.corp/team\" asks for\n",
        "a signature (sigstoreSigned) by /k.pub with matchRepoDigestOrExact, the default\n",
    ]);
    let digest = "0".repeat(64);
    explain(&format!("registry.corp/team/app@sha256:{digest}")).prints(&[
        "its tag may have been dropped",
        "scope \"registry.corp/team/app:1.0\" asks for\n",
        "by /a or /b with matchRepository\n",
    ]);
    explain("busybox").prints(&["the default asks for\n", "what no image has (reject)\n"]);
    explain("https://busybox").ends(64);
    // What `check` says of such a scope, for the one image.
    let open = POLICY.replace("\"docker.io/team\"", "\"registry.corp/tool:dev\"");
    let path = folder.file("open.json", open);
    let explain = |image: &str| run(&["policy", "explain", &path, image]);
    let tag = explain("registry.corp/tool:dev");
    tag.ends(0);
    tag.prints(&[
        "scope \"registry.corp/tool:dev\" asks for\n  - nothing (insecureAcceptAnything)\n",
        "in a guest the tag of registry.corp/tool:dev is not resolved: scope ",
    ]);
    for image in ["registry.corp/team/app:1.0", &format!("registry.corp/tool:dev@sha256:{digest}")]
    {
        let explained = explain(image);
        assert!(!explained.stdout.contains("in a guest"), "{image}");
    }
}

fn digest(letter: &str) -> String {
    format!("sha256:{}", letter.repeat(64))
}

/// Manifests of pods with these images.
fn pods(images: &[&str]) -> String {
    let pod = |image: &&str| {
        let container = format!("spec: {{containers: [{{name: app, image: \"{image}\"}}]}}");
        format!("kind: Pod\nmetadata: {{name: web}}\n{container}\n")
    };
    images.iter().map(pod).collect::<Vec<_>>().join("---\n")
}

#[test]
fn pins_are_written_from_manifests_and_references() {
    let folder = Folder::new();
    let (a, b, c) = (digest("a"), digest("b"), digest("c"));
    let images = [
        format!("Registry.corp:443/app:1.2@{a}"),
        format!("registry.corp/tool@{c}"),
        format!("registry.corp/tool@{b}"),
    ];
    let images: Vec<_> = images.iter().map(String::as_str).collect();
    let path = folder.file("pod.yaml", pods(&images));
    let hub = format!("busybox:1@{b}");
    let pins = run(&["pins", &path, "--image", &hub]);
    pins.succeeds();
    let expected = format!(
        "[pins]\n# --image\n\"docker.io/library/busybox:1\" = \"{b}\"\n# {path}: Pod web, \
        container app\n\"registry.corp/app:1.2\" = \"{a}\"\n# {path}: Pod web, container app\n\
        \"registry.corp/tool\" = [\n  \"{b}\",\n  \"{c}\",\n]\n"
    );
    assert_eq!(pins.stdout, expected);
    // What is written is what guests take.
    let measured = folder.file("measured.toml", format!("only-pins = true\n{expected}"));
    run(&["check", "--measured", &measured]).succeeds();
    // What else has images is for its author to know.
    let others = "---\nkind: Widget\n---\nkind: ConfigMap\n---\nkind: Widget\n";
    let path = folder.file("more.yaml", pods(&images) + others);
    let noted = run(&["pins", &path]);
    noted.ends(0);
    noted.says(&["more.yaml: objects of other kinds are left out: ConfigMap, Widget\n"]);
    let json = format!("{{\"kind\": \"List\", \"items\": [{}]}}", r#"{"kind": "Pod"}"#);
    let empty = folder.file("list.json", json);
    run(&["pins", &empty]).fails(65, &["no image was found"]);

    for (images, words) in [
        (
            vec!["registry.corp/app:1.2".to_owned()],
            "container app: registry.corp/app:1.2 has no digest",
        ),
        (vec!["registry.corp/App".to_owned()], "container app: the repository of the image"),
        (vec![format!("r.corp/a:1@{a}"), format!("r.corp/a:1@{b}")], "has another digest than in"),
    ] {
        let images: Vec<_> = images.iter().map(String::as_str).collect();
        let path = folder.file("wrong.yaml", pods(&images));
        let refused = run(&["pins", &path]);
        refused.fails(65, &[words]);
        assert_eq!(refused.stdout, "");
    }
    let path = folder.file("broken.yaml", "kind: Pod\nspec: hunter2-password\n");
    run(&["pins", &path]).fails(65, &["whose containers are not"]);
    run(&["pins"]).ends(64);
    run(&["pins", "--config", &path, &path]).fails(64, &["--ask"]);
}

/// The registries are asked by the guest's puller; here a script in its place.
#[test]
fn tags_are_asked_for_only_where_that_is_wanted() {
    let folder = Folder::new();
    let own = folder.text("kata-configdev");
    // Another process writes it: a child of a neighbouring test would keep it open.
    let copy = Command::new("cp").args([env!("CARGO_BIN_EXE_kata-configdev"), &own]).status();
    assert!(copy.unwrap().success());
    let answer = |code: i32, targets: &str| {
        let script = format!(
            "#!/bin/sh\necho \"$*\" >> {}\necho '{{\"targets\": [{targets}]}}'; exit {code}",
            folder.text("asked")
        );
        folder.program("imagepuller", "755", &script);
    };
    let a = digest("a");
    let works =
        |image: &str| format!("{{\"image\": \"{image}\", \"works\": true, \"digest\": \"{a}\"}}");
    let path = folder.file("pod.yaml", pods(&["busybox", "r.corp/app:1", "r.corp/app:1"]));
    let document = folder.file("imagepuller.toml", "");
    let pins = |arguments: &[&str]| {
        let mut command = Command::new(&own);
        command.args(["pins", &path]).args(arguments);
        let output = command.env("PATH", "/usr/bin:/bin").output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (hub, app) = ("docker.io/library/busybox:latest", "r.corp/app:1");
    answer(0, &format!("{}, {}", works(hub), works(app)));
    assert_eq!(pins(&[]).0, Some(65));
    let asked = || std::fs::read_to_string(folder.text("asked")).unwrap_or_default();
    assert_eq!(asked(), "", "nobody was to be asked");
    let (code, text, error) = pins(&["--ask", "--config", &document]);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(asked(), format!("probe --config {document} --json -- {hub} {app}\n"));
    let place = format!("# {path}: Pod web, container app, as its registry said\n");
    let expected = format!("[pins]\n{place}\"{hub}\" = \"{a}\"\n{place}\"{app}\" = \"{a}\"\n");
    assert_eq!(text, expected);

    // Nothing is written of what is not known, or is about another image.
    let fails = format!("{{\"image\": \"{app}\", \"works\": false, \"error\": \"no such tag\"}}");
    for (targets, words) in [
        (format!("{}, {fails}", works(hub)), "r.corp/app:1: no such tag"),
        (format!("{}, {}", works(app), works(hub)), "did not say what it is"),
        (works(hub), "did not say what it is"),
        (String::new(), "did not say what it is"),
        (format!("{}, {}", works(hub), works(app).replace(&a, "sha256:1")), "hexadecimal digits"),
    ] {
        for (theirs, ours) in [(0, 65), (65, 65), (69, 69)] {
            answer(theirs, &targets);
            let (code, text, error) = pins(&["--ask"]);
            assert_eq!((code, text.as_str()), (Some(ours), ""), "{error}");
            assert!(error.contains(words), "{error}");
        }
    }
}
