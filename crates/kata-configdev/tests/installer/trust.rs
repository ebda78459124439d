//! Whose lists are believed, and how much of one.
//!
//! A user to whom the prefix belonged wrote a list with `/etc/shadow` as a document: `install` and
//! `uninstall` removed it, and said that everything was as it should be.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use serde_json::{Value, json};
use test_command::{sha256sum, skipped_without_root};

use crate::installer::machine::{
    DOCUMENT, DROP_INS, MANIFEST, Machine, SETTINGS, WRAPPER, document,
};
use crate::installer::process::{program, run};

const VICTIM: &str = "etc/shadow";
const PREFIX: &str = "opt/kata-configdev";

/// A node where everything is installed, and a file that nobody here made.
fn machine() -> Machine {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    assert_eq!(run(program(&machine, "install")).0, Some(0));
    fs::write(machine.host(VICTIM), "root:x:1::::::\n").unwrap();
    machine
}

fn list(machine: &Machine, change: impl FnOnce(&mut Value)) {
    let mut list: Value = serde_json::from_str(&machine.read(MANIFEST)).unwrap();
    change(&mut list);
    fs::write(machine.host(MANIFEST), list.to_string()).unwrap();
}

fn add(machine: &Machine, entry: Value) {
    list(machine, |list| {
        list["files"].as_array_mut().unwrap().push(entry);
    });
}

fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn privileged_a_list_that_somebody_else_may_write_counts_for_nothing() {
    if skipped_without_root("giving a directory away") {
        return;
    }
    type Change = fn(&Path);
    let give: Change = |path| chown(path, Some(65534), None).unwrap();
    let group: Change = |path| open(path, 0o775);
    let sticky: Change = |path| {
        chown(path, Some(65534), None).unwrap();
        open(path, 0o1777);
    };
    let owner = "its owner is uid 65534, not root; make root its owner (chown root)";
    for (place, change, said) in [
        (MANIFEST, give, owner),
        (PREFIX, give, owner),
        ("opt", give, owner),
        ("opt", sticky, owner),
        ("", give, owner),
        (MANIFEST, group, "its mode 0775 lets others"),
        (PREFIX, group, "its mode 0775 lets others"),
        ("opt", group, "its mode 0775 lets others"),
        ("", group, "its mode 0775 lets others"),
    ] {
        let machine = machine();
        let entry = json!({"path": format!("/{VICTIM}"), "sha256": [], "kind": "document"});
        add(&machine, entry);
        change(&machine.host(place));
        let before = machine.state();
        for (command, more) in [("install", ""), ("install", "--check"), ("uninstall", "")] {
            let mut command = program(&machine, command);
            command.args(more.split_whitespace());
            let (code, log) = run(command);
            let said = format!("ERROR failed to trust /{place} on the node: {said}");
            assert!(log.contains(&said), "{more}: {log}");
            let effect = "would decide what root installs and removes; nothing is installed or";
            assert!(log.contains(effect), "{log}");
            assert_eq!(code, Some(65), "{log}");
            assert_eq!(machine.state(), before, "{place}: {more}");
        }
    }
}

/// Nothing is made below a directory that somebody else can exchange either.
#[test]
fn privileged_nothing_is_installed_below_somebody_elses_directory() {
    if skipped_without_root("giving a directory away") {
        return;
    }
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    chown(machine.host("opt"), Some(65534), None).unwrap();
    let before = machine.state();
    let (code, log) = run(program(&machine, "install"));
    assert_eq!(code, Some(65), "{log}");
    assert_eq!(machine.state(), before);
}

/// In a sticky directory of root's, such as `/tmp`, nobody exchanges what is root's.
#[test]
fn a_sticky_directory_of_roots_is_as_good_as_a_closed_one() {
    let machine = machine();
    open(&machine.host("opt"), 0o1777);
    for command in ["install", "uninstall"] {
        let (code, log) = run(program(&machine, command));
        assert_eq!(code, Some(0), "{log}");
    }
    assert_eq!(machine.files(), [VICTIM]);
}

/// Also by a list of root's: it may be an old one, or of a backup.
#[test]
fn what_is_listed_where_no_installer_puts_it_is_named_and_stays() {
    let digest = sha256sum(machine().host(VICTIM));
    let own = ["7".repeat(64)];
    for (path, kind, digests) in [
        (VICTIM, "document", vec![]),
        (VICTIM, "document", vec![&digest]),
        ("etc/default/imagepuller.toml", "document", vec![]),
        ("opt/kata-configdev/imagepuller.toml", "document", vec![]),
        ("opt/kata-configdev/default/etc/host-config/x/y.toml", "document", vec![]),
        (VICTIM, "wrapper", vec![]),
        (VICTIM, "program", vec![]),
        (VICTIM, "settings", vec![]),
        (VICTIM, "settings", vec![&own[0]]),
        (VICTIM, "drop-in", vec![&digest]),
        ("opt/kata/zz-kata-configdev.toml", "drop-in", vec![&digest]),
    ] {
        for command in ["install", "uninstall"] {
            let machine = machine();
            let victim = machine.host(path);
            fs::create_dir_all(victim.parent().unwrap()).unwrap();
            fs::copy(machine.host(VICTIM), &victim).unwrap();
            add(&machine, json!({"path": format!("/{path}"), "sha256": digests, "kind": kind}));
            let (code, log) = run(program(&machine, command));
            let said = format!("failed to remove /{path}");
            assert!(!log.contains(" everything is as it should be"), "{log}");
            assert!(log.contains(&said), "{kind}: {command}: {log}");
            assert!(victim.exists(), "{kind}: {command}: {log}");
            let removed = command == "uninstall";
            if removed {
                assert_eq!(code, Some(65), "{log}");
                let again = run(program(&machine, command));
                assert_eq!(again.0, Some(65), "{}", again.1);
                assert!(again.1.contains(&said), "{}", again.1);
            }
            for own in [DROP_INS[0], WRAPPER, SETTINGS, DOCUMENT] {
                assert_eq!(machine.host(own).exists(), !removed, "{own}: {log}");
            }
        }
    }
}
