//! `kata-configdev attach` and the library's `attach` on a node whose credential providers are
//! asked.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::command;

use std::process::Command;

use command::{Folder, SECRETS, run_line};
use config_image::Magic;
use kata_configdev::attach::{Carrier, Request, attach};
use kata_configdev::sandbox_id::SandboxId;
use kata_configdev::settings::Settings;
use registry_config::Document;

const ANSWER: &str = r#"{"kind":"CredentialProviderResponse",
"apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry",
"auth":{"reg.corp":{"username":"robot","password":"hunter2-token"}}}"#;

/// A node with one good and one bad plugin, and a sandbox's bundle; the path of its settings.
fn node(folder: &Folder) -> String {
    for name in ["bin", "bundle"] {
        std::fs::create_dir(folder.path(name)).unwrap();
    }
    folder.file("bundle/config.json", r#"{"ociVersion":"1.1.0","annotations":{}}"#);
    let mut listed =
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
            .to_owned();
    for (name, script) in [
        ("good", format!("echo '{ANSWER}'")),
        ("bad", "echo hunter2-password; echo hunter2-password >&2; exit 9".into()),
    ] {
        listed += &format!(
            "- {{name: {name}, matchImages: [reg.corp], defaultCacheDuration: 0s, apiVersion: \
            credentialprovider.kubelet.k8s.io/v1}}\n"
        );
        let text = format!("#!/bin/sh\n{script}\n");
        folder.program(&format!("bin/{name}"), "755", &text);
    }
    let listing = folder.file("providers.yaml", listed);
    let document = folder.file("document.toml", "[registries.\".corp\"]\nca-certs = \"none\"\n");
    folder.file(
        "config.toml",
        format!(
            "transport = \"file\"\ndocument = {document:?}\nrun-root = {:?}\n\
             [credential-providers]\nconfig = {listing:?}\nbin-dir = {:?}\nregistries = \
             [\"reg.corp\"]\ndeadline-secs = 50\n",
            folder.path("."),
            folder.path("bin"),
        ),
    )
}

/// What a guest would read from an image.
fn document(image: &[u8]) -> Document {
    let image = config_image::decode(image, Magic::IMAGEPULLER).unwrap();
    Document::parse(&image.document).unwrap().document
}

fn has_password_and_roots(document: &Document) {
    let shown = document.redacted();
    assert!(shown.contains("reg.corp") && shown.contains("robot"), "{shown}");
    // The new entry hides that of the suffix, and must not trust others than that did.
    let (_, entry) = document.registries.iter().find(|(name, _)| name.is_literal()).unwrap();
    assert!(entry.ca_certs.as_ref().unwrap().trusts_nobody());
    assert!(!entry.credentials.is_anonymous());
}

#[test]
fn the_command_prints_its_report_and_warns_beside_it() {
    let folder = Folder::new();
    let settings = node(&folder);
    let bundle = folder.text("bundle");
    let attached =
        run_line(&format!("attach --settings {settings} --bundle {bundle} --sandbox-id s1"));
    attached.ends(0);
    assert_eq!(
        attached.stderr,
        "kata-configdev: sandbox s1: warning: credential provider bad: reg.corp: it failed with \
        exit code 9\n"
    );
    let report = attached.json();
    assert_eq!(report["document"], folder.text("document.toml"));
    let image = std::fs::read(report["path"].as_str().unwrap()).unwrap();
    has_password_and_roots(&document(&image));
}

#[test]
fn the_library_returns_the_warnings() {
    let folder = Folder::new();
    let settings = Settings::load(node(&folder).as_ref()).unwrap();
    let sandbox = SandboxId::parse("s2").unwrap();
    let bundle = folder.path("bundle");
    let request = Request { bundle: &bundle, sandbox: &sandbox };
    let attached = attach(&settings, &request).unwrap().unwrap();
    let [warning] = attached.warnings.as_slice() else { panic!("{:?}", attached.warnings) };
    assert!(warning.to_string().contains("credential provider bad"), "{warning}");
    let debug = format!("{attached:?}");
    assert!(SECRETS.iter().all(|secret| !debug.contains(secret)), "{debug}");
    let Carrier::File(path) = attached.carrier else { panic!("{debug}") };
    has_password_and_roots(&document(&std::fs::read(path).unwrap()));
}

/// A caller that ignores SIGCHLD takes the exit codes away from whoever comes after it.
#[test]
fn where_exit_codes_are_lost_the_sandbox_starts_without_answers() {
    let folder = Folder::new();
    let settings = node(&folder);
    let output = Command::new("env")
        .args(["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_kata-configdev"), "attach"])
        .args(["--settings", &settings, "--bundle", &folder.text("bundle"), "--sandbox-id", "s3"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    for name in ["good", "bad"] {
        let line = format!("credential provider {name}: reg.corp: its exit code is lost");
        assert!(stderr.contains(&line), "{stderr}");
    }
    assert!(!stderr.contains("hunter2"), "{stderr}");
}

/// A caller ignores SIGCHLD, and a plugin hangs. It is still a child of ours then, and ends at the
/// deadline.
#[test]
fn where_exit_codes_are_lost_a_plugin_that_hangs_is_killed() {
    let folder = Folder::new();
    let settings = node(&folder);
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replace("deadline-secs = 50", "deadline-secs = 15")).unwrap();
    let pid = folder.path("pid");
    // In a process of its own, which the group of the plugin has beside it.
    let script = format!("#!/bin/sh\nsleep 120 &\necho $$ $! > {}\nwait\n", pid.display());
    folder.program("bin/good", "755", &script);
    let output = Command::new("env")
        .args(["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_kata-configdev"), "attach"])
        .args(["--settings", &settings, "--bundle", &folder.text("bundle"), "--sandbox-id", "s4"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("credential provider good: reg.corp: it took longer"), "{stderr}");
    for pid in std::fs::read_to_string(pid).unwrap().split_whitespace() {
        let runs = || {
            std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
        };
        // Only the plugin's own end is waited for; what was killed with it may take a moment more.
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while runs() {
            assert!(std::time::Instant::now() < patience, "{pid} runs");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
