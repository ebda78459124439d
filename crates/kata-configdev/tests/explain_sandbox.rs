//! `kata-configdev explain --sandbox`: which source wins for each registry, and that a sandbox gets
//! just that.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod clouds;
use crate::command;
mod like_the_wrapper;
mod node;
mod report;

use std::path::Path;

use command::run;
use node::{Node, answer, of};
use serde_json::{Value, json};
use tempfile::TempDir;

#[test]
fn an_image_is_explained_by_the_document_of_its_sandbox() {
    let node = Node::full();
    let run = node.explain(&["reg.lab/team/app:1"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.starts_with("reg.lab.\n"), "{}", run.stdout);
    for line in [
        "loses       \".lab\": a host's own name, and a longer suffix, are more specific\n",
        "roots       none: \"ca-certs\" of entry \"reg.lab.\" holds no certificate and so forbids \
        the host\n",
        "source      credential provider good, fresh answer, not kept: run-root is not in memory \
        or full\n",
        "document    ",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
    let report = node.json(&["sub.own.corp:5000/app"]);
    assert_eq!((&report["explanation"]["key"], &report["registries"]), (&Value::Null, &json!([])));
    let report = node.json(&["own.corp:5000/app"]);
    assert_eq!(report["explanation"]["key"], "own.corp");
    assert_eq!(report["registries"][0]["source"]["line"], 1);
    assert_eq!(report["registries"].as_array().unwrap().len(), 1);
    // Credentials that a mirror is lent or has are as nameless as others.
    let mut node = Node::full();
    let text = "[registries.\"own.corp\"]\nmirror \
    = \"https://reg.example\"\n[registries.\"reg.example\"]\n";
    node.document = Some(node.folder.file("mirror.toml", text));
    let report = node.json(&["own.corp/app"]);
    let mirror = &report["explanation"]["mirror"];
    assert_eq!(mirror["credentials"], json!({"kind": "basic", "username": null}));
}

#[test]
fn the_pod_chooses() {
    let node = Node::full();
    std::fs::create_dir(node.folder.path("allowed")).unwrap();
    let pod = node.folder.file(
        "allowed/pod.toml",
        "\n[registries.\"own.corp\"]\nregistrytoken = \"hunter2-token\"\n",
    );
    node.annotate(&pod);
    let report = node.json(&[]);
    assert_eq!(report["document"], json!({"path": pod, "chosen_by": "pod"}));
    assert_eq!(of(&report, "own.corp")["source"]["line"], 2);
    assert_eq!(of(&report, "own.corp")["credentials"]["kind"], "registrytoken");

    node.annotate("");
    let report = node.json(&["own.corp/app"]);
    assert_eq!((&report["document"], &report["registries"]), (&Value::Null, &json!([])));
    assert_eq!(report["explanation"]["rule"], "defaults");
    let run = node.explain(&[]);
    assert!(run.stdout.contains("no disk: the pod's annotation is empty"), "{}", run.stdout);

    std::fs::create_dir(node.folder.path("config.d")).unwrap();
    node.folder.file("config.d/99-off.toml", "enabled = false\n");
    node.spec("{}");
    node.explain(&[]).prints(&["no disk: the settings say enabled = false"]);
}

#[test]
fn where_the_node_has_no_document_nobody_is_asked() {
    let node = Node::full();
    node.folder.file("document.toml", "node-error = \"no such file\"\n");
    let says = "the node has no configuration and nothing is pulled without it; the node says: no \
    such file";
    let text = node.explain(&[]);
    assert_eq!((text.code, text.stderr.as_str()), (65, ""));
    assert_eq!(
        text.stdout.split_once("providers ").unwrap().1,
        format!("  not asked, because every pull is refused\nrefused     {says}\n")
    );
    let json = node.explain(&["--json"]);
    json.ends(65);
    assert_eq!(json.json()["registries"], json!([]));
    assert_eq!(json.json()["refused"], says);
    let image = node.explain(&["--json", "reg.example/app"]);
    image.ends(65);
    assert_eq!(image.json()["registries"], json!([]));
    assert_eq!(image.json()["explanation"]["refused"], says);
}

#[test]
fn providers_alone_make_a_document_unless_left_out() {
    let mut node = Node::full();
    node.document = None;
    let report = node.json(&[]);
    assert_eq!(report["document"], json!({"path": null, "chosen_by": "providers"}));
    assert_eq!(of(&report, "own.corp")["source"]["name"], "credential provider good");
    let report = node.json(&["--no-providers"]);
    assert_eq!((&report["document"], &report["providers"]), (&Value::Null, &json!("left out")));
    // No program is started.
    let mut node = Node::new();
    let trace = node.folder.text("trace");
    node.add("tracer", "'*.example'", &format!("touch {trace}"), "");
    let report = node.json(&["--no-providers"]);
    assert_eq!(report["registries"].as_array().unwrap().len(), 4);
    assert!(!Path::new(&trace).exists());
    node.json(&[]);
    assert!(Path::new(&trace).exists());
    // Another document than that of the settings, as for attach.
    let other = node.folder.file("other.toml", "[registries.\"other.corp\"]\n");
    let report = node.json(&["--no-providers", "--config", &other]);
    assert_eq!(report["document"]["path"], other);
}

#[test]
fn an_answer_is_kept_for_the_next_sandbox() {
    let Ok(memory) = TempDir::new_in("/dev/shm") else {
        assert!(std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none(), "no /dev/shm");
        eprintln!("skipped: no /dev/shm");
        return;
    };
    let mut node = Node::new();
    node.run_root = memory.path().to_str().unwrap().into();
    node.add("good", "reg.example", &answer("reg.example", "x"), "");
    let text = node.text("reg.example");
    assert!(
        text.contains("source      credential provider good, fresh answer, kept for 10m\n"),
        "{text}"
    );
    let report = node.json(&[]);
    let answer = &of(&report, "reg.example")["source"]["answer"];
    assert_eq!(answer["answer"], "kept");
    assert!((1..=600).contains(&answer["expires_in_secs"].as_u64().unwrap()), "{answer}");
    let text = node.text("reg.example");
    assert!(
        text.contains("asked       credential provider good: answer kept from before, for "),
        "{text}"
    );
}

/// Nobody could ask the providers without a sandbox.
#[test]
fn providers_are_asked_without_a_sandbox() {
    let mut node = Node::full();
    let settings = node.settings();
    let asked = run(&["providers", "--settings", &settings]);
    // One of them fails.
    asked.ends(69);
    asked.prints(&[
        &format!("config      {}\n", node.folder.text("providers.yaml")),
        "\n\ndead.example\n",
        "asked       credential provider bad: no answer\n",
        "skipped     credential provider bad: it failed with exit code 9\n",
        "asked       credential provider good: not asked, because the document has credentials\n",
    ]);
    assert!(!asked.stdout.contains("plugin-user") && !asked.stdout.contains("hunter2"));
    assert!(!asked.stdout.contains("\n.lab\n"), "nobody is asked about it");
    let json = run(&["providers", "--json", "--settings", &settings]);
    json.ends(69);
    let report = json.json();
    assert_eq!(of(&report, "reg.lab")["source"]["name"], "credential provider good");
    assert_eq!(report["document"], node.document.clone().unwrap());

    // The registries of the kubelet's own configuration.
    node.listed =
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n".into();
    node.document = None;
    node.add(
        "good",
        "reg.example, 'gcr.io/team', '*.pkg.dev'",
        &answer("reg.example", "gcr.io"),
        "",
    );
    node.registries = "\"matchImages\"".into();
    let settings = node.settings();
    let json = run(&["providers", "--json", "--settings", &settings]);
    assert_eq!((json.code, json.stderr.as_str()), (0, ""), "{}", json.stdout);
    let report = json.json();
    let registries = report["registries"].as_array().unwrap().iter();
    let names: Vec<_> = registries.map(|one| one["registry"].as_str().unwrap()).collect();
    assert_eq!(names, ["gcr.io/team", "reg.example", "gcr.io"], "{report}");
    // Nobody to ask is a mistake of the settings.
    let settings = node.folder.file("settings.toml", "transport = \"file\"\n");
    let none = run(&["providers", "--settings", &settings]);
    none.ends(65);
    none.says(&["registries = \"matchImages\""]);
}
