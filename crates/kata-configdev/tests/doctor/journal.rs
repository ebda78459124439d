//! What wrapper, shim and guest said of a sandbox stands in one log among everything else.

use std::path::Path;
use std::process::Command;

use test_command::{Folder, skip, skipped_without_root};

use crate::command::PROGRAM;
use crate::doctor::node::Node;

const JOURNALD: &str = "/usr/lib/systemd/systemd-journald";

#[test]
fn what_was_said_of_a_sandbox_is_joined() {
    let id = "3f1c0d9a5b7e";
    let node = Node::new();
    let bundle = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}");
    let spec = r#"{"annotations":{"io.katacontainers.config.runtime.imagepuller_config":
        "/etc/kata-configdev/documents/team-a.toml"}}"#;
    node.put(&format!("{bundle}/config.json"), spec);
    let document = "etc/kata-configdev/documents/team-a.toml";
    node.put(document, "");
    let log = "var/lib/rancher/k3s/agent/containerd/containerd.log";
    node.put(log, "");
    let said = [
        ("6", format!("level=info msg=started sandbox={id}")),
        ("3", format!("kata-configdev-qemu: sandbox {id}: failed to x: y\u{202e}")),
        ("3", "kata-configdev-qemu: sandbox 0000: failed to x: y".to_owned()),
        ("6", format!("level=error msg=\\\"failed to pull a.corp/x: refused\\\" sandbox={id}")),
        ("6", format!("level=error msg=\\\"stopped\\\" sandbox={id}")),
        ("6", format!("level=error msg=\\\"stopped\\\" sandbox={id}")),
    ];
    let lines = said
        .map(|(priority, text)| format!("{{\"PRIORITY\":\"{priority}\",\"MESSAGE\":\"{text}\"}}"));
    node.put("var/log/journal/one.journal", "");
    let programs = Folder::new();
    programs.file("lines", lines.join("\n"));
    let script = format!("#!/bin/sh\ncat {}\n", programs.text("lines"));
    programs.program("journalctl", "755", &script);
    let path = format!("{}:/usr/bin:/bin", programs.text(""));
    let root = node.root();
    let arguments = ["doctor", "--host-root", &root, "--sandbox", id, "--json"];
    let json = PROGRAM.finish(PROGRAM.command(&arguments).env("PATH", &path)).json();
    let sandbox = &json["sandbox"];
    let lines = |who: &str| sandbox[who].as_array().unwrap().clone();
    assert_eq!(
        lines("wrapper"),
        [format!("kata-configdev-qemu: sandbox {id}: failed to x: y\\u{{202e}}")]
    );
    assert_eq!(lines("guest").len(), 1);
    assert_eq!(lines("shim"), [format!("level=error msg=\"stopped\" sandbox={id}")]);
    let document = "/etc/kata-configdev/documents/team-a.toml, by the pod's annotation";
    assert_eq!(sandbox["document"], document);
    assert_eq!(sandbox["not_searched"], serde_json::json!([format!("/{log}")]));
    assert_eq!(sandbox["bundle"], format!("/{bundle}"));

    let refusals = "run/kata-configdev/refusals";
    let line = format!("kata-configdev-qemu: sandbox {id}: failed to x: y");
    node.put(&format!("{refusals}/{id}"), &format!("pod\n{line}\n"));
    let told = PROGRAM.run(&arguments);
    assert_eq!(told.json()["sandbox"]["refused"], line);
    PROGRAM.run(&arguments[..5]).prints(&[&format!("\n  refused   {line}\n")]);

    let nothing = PROGRAM.command(&arguments[..5]).env("PATH", "/nowhere").output();
    let said = String::from_utf8(nothing.unwrap().stdout).unwrap();
    assert!(said.contains("log       none: journalctl cannot be started"), "{said}");
}

/// A document was named that the sandbox does not get.
#[test]
fn the_document_of_a_sandbox_is_what_the_wrapper_gives_it() {
    let id = "3f1c0d9a5b7e";
    let bundle = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}");
    let spec = |more: &str| {
        format!(
            r#"{{"annotations":{{{more}"io.kubernetes.cri.sandbox-namespace":"team-a",
            "io.kubernetes.cri.container-type":"sandbox"}}}}"#
        )
    };
    let annotation = |value: &str| {
        spec(&format!(r#""io.katacontainers.config.runtime.imagepuller_config":"{value}","#))
    };
    let tenants = "document = \"/etc/kata-configdev/tenants/{namespace}.toml\"\n\
        engine = \"containerd\"\n";
    let settings = "/etc/kata-configdev/config.toml";
    for (settings_text, spec, document) in [
        (
            "",
            annotation("/etc/shadow"),
            "none, by SETTINGS: the wrapper fails to use the annotation \
             io.katacontainers.config.runtime.imagepuller_config: /etc/shadow is not below a \
             directory of annotation-allow",
        ),
        ("enabled = false\n", annotation("/etc/shadow"), "none, by SETTINGS: enabled = false"),
        (
            "document = \"/etc/kata-configdev/imagepuller.toml\"\n",
            spec(""),
            "/etc/kata-configdev/imagepuller.toml, by SETTINGS",
        ),
        ("", annotation(""), "none: the pod's annotation is empty"),
        (
            &format!("{tenants}namespace-fallback = \"none\"\n"),
            spec(""),
            "none, by SETTINGS: its namespace has none (namespace-fallback)",
        ),
        (
            tenants,
            spec(""),
            "none, by SETTINGS: the wrapper fails to read the document of the namespace team-a: \
             there is no /etc/kata-configdev/tenants/team-a.toml",
        ),
        (
            &format!("{tenants}namespace-fallback = \"/etc/kata-configdev/imagepuller.toml\"\n"),
            spec(""),
            "/etc/kata-configdev/imagepuller.toml, because \
             /etc/kata-configdev/tenants/team-a.toml is not there, by SETTINGS",
        ),
        (
            "document = \"/etc/none.toml\"\nmissing-document = \"late\"\n",
            spec(""),
            "/etc/none.toml, which is not there, so that the guest gets the words of \
             missing-document, by SETTINGS",
        ),
    ] {
        let node = Node::new();
        std::fs::create_dir(node.path("etc/kata-configdev/tenants")).unwrap();
        node.put(crate::doctor::node::SETTINGS, settings_text);
        node.put(&format!("{bundle}/config.json"), &spec);
        let arguments = ["doctor", "--host-root", &node.root(), "--sandbox", id, "--json"];
        let json = PROGRAM.run(&arguments).json();
        let expected = document.replace("SETTINGS", settings);
        assert_eq!(json["sandbox"]["document"], expected, "{settings_text}");
    }
}

/// The programs of systemd, and not what somebody remembers of them.
#[test]
fn privileged_the_journal_is_read_as_systemd_writes_it() {
    if skipped_without_root("a journal of its own") {
        return;
    }
    if !Path::new(JOURNALD).is_file() || !Path::new("/etc/systemd/journald.conf").is_file() {
        skip("systemd-journald is not installed");
        return;
    }
    let node = Node::new();
    std::fs::create_dir_all(node.path("var/log/journal")).unwrap();
    let written = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor/journal.sh"))
        .arg(node.path("var/log/journal"))
        .arg(JOURNALD)
        .output()
        .unwrap();
    assert!(written.status.success(), "{written:?}");
    let root = node.root();
    let run = PROGRAM.run(&["doctor", "--host-root", &root, "--sandbox", "3f1c"]);
    run.prints(&[
        "  wrapper   kata-configdev-qemu: sandbox 3f1c: failed to x: y\n",
        "  shim      level=error msg=\"stopped\" sandbox=3f1c\n",
        "  guest     level=error msg=\"failed to pull a.corp/x: refused\" sandbox=3f1c\n",
    ]);
    assert!(!run.stdout.contains("not of Kata"), "{run:?}");
}
