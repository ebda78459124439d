//! `kata-configdev policy`: image policies checked and explained.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod command;

use command::{Folder, run};

const POLICY: &str = r#"{
  "default": [{"type": "reject"}],
  "transports": {"docker": {
    "registry.corp/team": [{"type": "sigstoreSigned", "keyPath": "/k.pub"}],
    "registry.corp/team/app:1.0": [{"type": "sigstoreSigned", "keyPaths": ["/a", "/b"],
      "signedIdentity": {"type": "matchRepository"}}],
    "team": [{"type": "insecureAcceptAnything"}]
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
        "warning: transports.docker.team (line 7) is a scope of no image",
        "policy.json: valid, 2 scopes and the default\n",
    ]);
    let wrong = folder.file("wrong.json", POLICY.replace("keyPaths", "keyPats"));
    let refused = run(&["policy", "check", &wrong]);
    refused.ends(65);
    refused.prints(&[
        "problem: the policy is not valid: transports.docker.",
        "(line 5) is not known",
    ]);
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
}
