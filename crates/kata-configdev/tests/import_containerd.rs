//! The built command `kata-configdev import` with what containerd's own configuration and unit say:
//! below `--root`, from a pipe, and from the environment.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use command::{Folder, Run, importer};
use serde_json::Value;

mod command;

/// What the secrets of all inputs contain, plain and in base64.
const SECRETS: [&str; 2] = ["hunter2", "aHVudGVyMi"];

/// Runs an import with a node's file system as root.
fn import(node: &Folder, arguments: &[&str]) -> Run {
    let root = node.text("");
    let arguments = [&["import", arguments[0], "--root", &root], &arguments[1..]].concat();
    importer(&SECRETS).run(&arguments)
}

const CONFIG: &str = "/etc/containerd/config.toml";

#[test]
fn containerds_configuration_becomes_a_document() {
    let node = Folder::new();
    node.file(
        "etc/containerd/config.toml",
        "version = 2\nimports = [\"conf.d/*.toml\"]\n\
         [plugins.\"io.containerd.grpc.v1.cri\".registry]\n\
         config_path = \"/etc/containerd/certs.d:/etc/docker/certs.d\"\n",
    );
    node.file(
        "etc/containerd/conf.d/.auth.toml",
        "version = 3\n[plugins.\"io.containerd.cri.v1.images\".registry.configs.\"reg.corp:5000\"]\n\
         auth = {username = \"robot\", password = \"hunter2\"}\n",
    );
    node.file(
        "etc/containerd/certs.d/reg.corp_5000_/hosts.toml",
        "[host.\"https://mirror.corp\"]\n",
    );
    let run = import(&node, &["containerd-config", "--strict", CONFIG]);
    run.ends(0);
    assert_eq!(
        run.stdout,
        "[registries.\"mirror.corp\"]\n\n[registries.\"reg.corp:5000\"]\nusername = \"robot\"\npassword = \"hunter2\"\n\
         mirror = \"https://mirror.corp\"\nmirror-fallback = true\n"
    );
    // Relative to the root, and the same through a pipe but for what is imported.
    let relative = import(&node, &["containerd-config", "etc/containerd/config.toml"]);
    assert_eq!(relative.stdout, run.stdout);
    let text = std::fs::read_to_string(node.path("etc/containerd/config.toml")).unwrap();
    let root = node.text("");
    let arguments = [
        "import",
        "containerd-config",
        "--root",
        &root,
        "--json",
        "-",
    ];
    let piped = importer(&SECRETS).run_with(&arguments, text.as_bytes());
    let report: Value = serde_json::from_str(&piped.stdout).unwrap();
    assert!(!report["document"].as_str().unwrap().contains("robot"));
    assert_eq!(report["findings"][0]["key"], "imports");
    assert_eq!(report["findings"][0]["loss"], "lost");
    // What containerd would not start with.
    node.file("etc/containerd/conf.d/b.toml", "version = \"hunter2\"\n");
    import(&node, &["containerd-config", CONFIG]).fails(
        65,
        &["error: /etc/containerd/conf.d/b.toml: version: expected integer"],
    );
    node.file(
        "etc/containerd/config.toml",
        "imports = [\"missing.toml\"]\n",
    );
    import(&node, &["containerd-config", CONFIG]).fails(
        65,
        &["error: /etc/containerd/missing.toml: it is not there"],
    );
}
