//! The installer's command line, and the wrapper as it stands on a node afterwards.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::command;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use command::run;

const DOCUMENT: &str =
    "[registries.\"registry.corp.\"]\nusername = \"puller\"\npassword = \"hunter2-password\"\n";

/// A node, a secret and a configuration below one folder: the node's root is the real one, its
/// directories are not.
fn configuration(folder: &Path, settings: &str) -> String {
    fs::create_dir_all(folder.join("secret")).unwrap();
    fs::create_dir_all(folder.join("handler")).unwrap();
    let document = folder.join("secret/imagepuller.toml");
    fs::write(&document, DOCUMENT).unwrap();
    fs::set_permissions(&document, fs::Permissions::from_mode(0o400)).unwrap();
    // In the place of QEMU: says what it was started with. Written by another process, for a child
    // that a neighbour has just forked has all our descriptors until its exec, and what is open for
    // writing cannot be executed.
    let written = Command::new("/bin/sh")
        .args(["-c", "printf '#!/bin/sh\\necho \"$@\"\\n' >\"$0\" && chmod 755 \"$0\""])
        .arg(folder.join("qemu"))
        .status();
    assert!(written.unwrap().success());
    let at = |name: &str| folder.join(name).display().to_string();
    let text = format!(
        "host = \"/\"\nprefix = \"{}\"\nwrapper = \"{}\"\n\n[sets.team-a]\nsecret \
        = \"{}\"\nhandlers = [\"{}\"]\n\
         settings-file = \"{}\"\n\n[sets.team-a.settings]\n{settings}\n",
        at("prefix"),
        env!("CARGO_BIN_EXE_kata-configdev-qemu"),
        at("secret"),
        at("handler"),
        at("prefix/team-a/etc/kata-configdev/config.toml"),
    );
    fs::create_dir_all(folder.join("prefix")).unwrap();
    let main = format!("[hypervisor.qemu]\npath = \"{}\"\n", at("qemu"));
    fs::write(folder.join("handler/configuration-qemu.toml"), main).unwrap();
    let path = folder.join("installer.toml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn settings_that_the_wrapper_would_refuse_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(folder.path(), "qemoo = \"/usr/bin/qemu\"");
    let checked = run(&["install", "--check", "--config", &config]);
    checked.ends(65);
    checked.says(&["qemoo"]);
}

#[test]
fn a_check_looks_at_kata_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(folder.path(), "");
    let check = ["install", "--check", "--config", &config];
    let checked = run(&check);
    checked.ends(0);
    checked.says(&["would install the wrapper "]);
    fs::create_dir_all(folder.path().join("handler/config.d/backup")).unwrap();
    let checked = run(&check);
    checked.ends(65);
    checked.says(&["handler/config.d/backup: not a regular file: Kata fails every sandbox"]);
    assert_eq!(fs::read_dir(folder.path().join("prefix")).unwrap().count(), 0);
}

#[test]
fn privileged_an_installed_wrapper_finds_the_settings_of_its_set() {
    if test_command::skipped_without_root("an installation on a node") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let config = configuration(folder.path(), "");
    let pull = "[runtime]\nexperimental_force_guest_pull = true\n";
    fs::create_dir(at("handler/config.d")).unwrap();
    fs::write(at("handler/config.d/30-pull.toml"), pull).unwrap();
    let installed = run(&["install", "--log-format", "json", "--config", &config]);
    installed.ends(0);
    let drop_in = fs::read_to_string(at("handler/config.d/zz-kata-configdev.toml")).unwrap();
    let wrapper = at("prefix/team-a/bin/kata-configdev-qemu");
    assert!(drop_in.contains(&wrapper.display().to_string()), "{drop_in}");

    let settings = fs::read_to_string(at("prefix/team-a/etc/kata-configdev/config.toml")).unwrap();
    assert!(settings.contains("guest-pull = true\n"), "{settings}");
    // The QEMU of Kata's own configuration.
    let qemu = format!("qemu = {:?}\n", at("qemu"));
    assert!(settings.contains(&qemu), "{settings}");
    // No variable names the settings: the wrapper's place does.
    let started = Command::new(&wrapper)
        .args(["-name", "sandbox-1", "-machine", "q35"])
        .env_remove("KATA_CONFIGDEV_CONFIG")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let arguments = String::from_utf8_lossy(&started.stdout);
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    assert!(arguments.starts_with("-name sandbox-1 -machine q35 -add-fd "), "{arguments}");

    let removed = run(&["uninstall", "--config", &config]);
    removed.ends(0);
    assert!(!wrapper.exists());
    assert!(!at("handler/config.d/zz-kata-configdev.toml").exists());
    assert!(at("secret/imagepuller.toml").exists());

    // With its own argument, which a fleet's removal adds, the installer does the same.
    run(&["install", "--config", &config]).ends(0);
    assert!(wrapper.exists());
    run(&["install", "--remove", "--config", &config]).ends(0);
    assert!(!wrapper.exists());
    assert!(!at("handler/config.d/50-configdev.toml").exists());
}

#[test]
fn privileged_docker_configurations_can_be_named_on_the_command_line() {
    if test_command::skipped_without_root("an installation on a node") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(folder.path(), "");
    let file = |name: &str, registry: &str| {
        let entry = format!("\"username\":\"puller\",\"password\":\"hunter2-{name}\"");
        let text =
            format!("{{\"auths\":{{\"{registry}\":{{{entry}}},\"both.corp\":{{{entry}}}}}}}");
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (one, two) = (file("one", "registry.corp"), file("two", "two.corp"));
    let arguments = ["install", "--config", &config];
    let named = ["--docker-config", &one, "--docker-config", &two];
    let installed = run(&[&arguments[..], &named[..]].concat());
    installed.ends(0);
    assert!(!installed.stderr.contains("hunter2"), "{}", installed.stderr);
    let document = "prefix/team-a/etc/host-config/imagepuller.toml";
    let document = fs::read_to_string(folder.path().join(document)).unwrap();
    assert!(document.contains(DOCUMENT), "the document wins");
    assert_eq!(document.matches("hunter2-two").count(), 2, "the last one wins");
    let (_, of_both) = document.split_once("both.corp").unwrap();
    let places = ["hunter2-two", "hunter2-one"].map(|password| of_both.find(password).unwrap());
    assert!(places[0] < places[1], "the other one is tried after it");
    assert_eq!(document.matches("hunter2-one").count(), 1);

    let refused = run(&[&arguments[..], &["--docker-config", ""]].concat());
    refused.ends(64);
    let many = [&arguments[..], &["--docker-config", &one].repeat(17)].concat();
    let refused = run(&many);
    refused.ends(65);
    refused.says(&["docker-configs: more than 16"]);
}
