//! Whose an installation is.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;

use node_installer::watch::{RESCAN, watch};
use node_installer::{Error, Options, install, uninstall};
use test_command::wait_until;

use crate::installer::machine::{DOCUMENT, DROP_INS, MANIFEST, Machine, document, parse};

const PREFIX: &str = "prefix = \"/opt/kata-configdev\"";

fn owned_text(machine: &Machine, owner: &str) -> String {
    let line = format!("{PREFIX}\nowner = \"{owner}\"");
    machine.configuration().replace(PREFIX, &line)
}

fn owned(machine: &Machine, owner: &str) -> Options {
    parse(&owned_text(machine, owner)).unwrap()
}

/// Two releases with the default prefix once exchanged each other's document, both of them ready:
/// one tenant's passwords were in the other's sandboxes.
#[test]
fn another_owner_is_refused_and_changes_nothing() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    let first = owned(&machine, "tenant-a/kata");
    assert_eq!(install(&first).unwrap().exit_code(), 0);
    let before = machine.state();

    machine.mount_document(&document("two"));
    let second = owned(&machine, "tenant-b/kata");
    for options in [second.clone(), machine.options()] {
        let error = install(&options).unwrap_err();
        assert_eq!(error.exit_code(), 69, "{error}");
        let said = error.to_string();
        let expected = "use /opt/kata-configdev on the node: what is installed there belongs to \
            tenant-a/kata;";
        assert!(said.starts_with(expected), "{said}");
    }
    assert_eq!(machine.state(), before);
    // The other release has nothing here that could be removed.
    let outcome = uninstall(&second).unwrap();
    assert_eq!((outcome.exit_code(), outcome.changes), (0, 0));
    assert!(outcome.warnings[0].contains("belongs to tenant-a/kata"), "{outcome:?}");
    assert!(matches!(uninstall(&machine.options()), Err(Error::Owned { .. })));
    assert_eq!(machine.state(), before);

    assert_eq!(install(&first).unwrap().exit_code(), 0);
    assert_eq!(machine.read(DOCUMENT), document("two"));
    assert_eq!(uninstall(&first).unwrap().exit_code(), 0);
    assert_eq!(machine.files(), [""; 0]);
}

/// Both wait for each other, and neither is ready by chance.
#[test]
fn a_watching_installer_is_not_ready_on_somebody_elses_prefix() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&owned(&machine, "tenant-a/kata")).unwrap();
    let options = owned(&machine, "tenant-b/kata");
    let (mut stop, stopped) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&options, &BTreeSet::new(), stopped, |_| RESCAN));
        // The first owner's removal is noticed.
        thread::sleep(std::time::Duration::from_millis(300));
        assert!(machine.read(MANIFEST).contains("tenant-a/kata"));
        uninstall(&owned(&machine, "tenant-a/kata")).unwrap();
        wait_until("the second owner", || {
            fs::read_to_string(machine.host(MANIFEST))
                .is_ok_and(|list| list.contains("tenant-b/kata"))
                && machine.host(DROP_INS[1]).exists()
        });
        stop.write_all(b"x").unwrap();
        watching.join().unwrap().unwrap();
    });
}

#[test]
fn what_belongs_to_nobody_belongs_to_the_first_that_finds_it() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    let first = owned(&machine, "tenant-a/kata");
    let outcome = install(&first).unwrap();
    assert_eq!((outcome.exit_code(), outcome.changes), (0, 0), "{outcome:?}");
    let list: serde_json::Value = serde_json::from_str(&machine.read(MANIFEST)).unwrap();
    assert_eq!((&list["owner"], &list["format"]), (&"tenant-a/kata".into(), &2.into()));
    assert!(install(&owned(&machine, "tenant-b/kata")).is_err());
}

#[test]
fn a_list_of_a_newer_version_is_left_alone_and_an_owner_has_a_form() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&owned(&machine, "tenant-a/kata")).unwrap();
    let list = machine.read(MANIFEST);
    let newer = list.replace("\"format\": 2", "\"format\": 3, \"more\": 1");
    fs::write(machine.host(MANIFEST), newer).unwrap();
    let error = install(&owned(&machine, "tenant-a/kata")).unwrap_err().to_string();
    assert!(error.contains("a newer version wrote it, in format 3"), "{error}");
    for owner in ["", "a b", "a\\nb"] {
        parse(&owned_text(&machine, owner)).unwrap_err();
    }
}
