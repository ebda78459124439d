//! A list at the former default prefix that cannot be taken over.
//!
//! One that was damaged, or that a newer version wrote, once ended every pass of every release on
//! the node, whoever's it was.

use std::fs::{self, File};

use node_installer::{Error, Outcome, install, uninstall};
use rustix::fs::{FlockOperation, flock};

use crate::installer::machine::{MANIFEST, Machine, PASSWORD, document, parse};
use crate::installer::ownership::{as_the_chart, chart_text};

/// The release's own document.
const OWN: &str = "opt/kata-configdev/system/kata/default/etc/host-config/imagepuller.toml";

/// Lists that no pass can take over, by whether their owner cannot be told.
const DAMAGED: &str = "{\"format\": 2, \"files\": [";
const NEWER: &str = "{\"format\": 3, OWNER\"directories\": {}, \"files\": 7}";
const ODD: &str = "{\"format\": 2, OWNER\"directories\": [], \"files\": 7}";

fn machine(list: &str) -> Machine {
    let mut machine = Machine::new();
    fs::create_dir_all(machine.host("opt/kata-configdev/default")).unwrap();
    fs::write(machine.host("opt/kata-configdev/default/secret"), PASSWORD).unwrap();
    fs::write(machine.host(MANIFEST), list).unwrap();
    machine.mount_document(&document("one"));
    machine
}

fn problems(outcome: &Outcome) -> String {
    let lines: Vec<String> = outcome.problems.iter().flat_map(Error::lines).collect();
    lines.join("\n")
}

/// Installs and removes a release beside the list. The answers are both outcomes.
fn beside(list: &str) -> [Outcome; 2] {
    let machine = machine(list);
    let options = as_the_chart(&machine, "kata");
    // Also where nothing was installed yet.
    let before = machine.state();
    let nothing = uninstall(&options).unwrap();
    assert_eq!(machine.state(), before);
    let installed = install(&options).unwrap();
    assert_eq!(machine.read(OWN), document("one"));
    let removed = uninstall(&options).unwrap();
    assert_eq!(nothing.exit_code(), removed.exit_code());
    assert_eq!(nothing.warnings, removed.warnings);
    assert_eq!(machine.read(MANIFEST), list);
    let left = ["opt/kata-configdev/default/secret", MANIFEST];
    assert_eq!(machine.files(), left);
    [installed, removed]
}

#[test]
fn another_owners_list_is_nobodys_business_in_any_form() {
    for list in [NEWER, ODD] {
        for owner in ["\"other/kata\"", "{\"namespace\": \"other\"}"] {
            let list = list.replace("OWNER", &format!("\"owner\": {owner}, "));
            for outcome in beside(&list) {
                assert_eq!((problems(&outcome), outcome.warnings), (String::new(), vec![]));
            }
        }
    }
}

#[test]
fn a_list_of_nobody_knows_whom_is_a_warning() {
    for (list, reason) in [
        (DAMAGED.to_owned(), "it is damaged at line 1, column 24"),
        (NEWER.replace("OWNER", ""), "a newer version wrote it, in format 3"),
        (ODD.replace("OWNER", ""), "it is damaged at line 1, column"),
        (String::new(), "it is damaged at line 1, column 0"),
    ] {
        for outcome in beside(&list) {
            assert_eq!((outcome.exit_code(), problems(&outcome)), (0, String::new()));
            let [warning] = &outcome.warnings[..] else {
                panic!("{outcome:?}");
            };
            let line = format!("failed to take over what /{MANIFEST} names: {reason}");
            assert!(warning.starts_with(&line), "{warning}");
        }
    }
}

#[test]
fn a_list_of_the_release_itself_is_a_problem_and_nothing_waits_for_it() {
    for (list, reason) in [(NEWER, "a newer version wrote it"), (ODD, "it is damaged")] {
        let list = list.replace("OWNER", "\"owner\": \"system/kata\", ");
        for outcome in beside(&list) {
            assert_eq!((outcome.exit_code(), outcome.problems.len()), (65, 1));
            let line = format!("failed to take over what /{MANIFEST} names: {reason}");
            assert!(problems(&outcome).starts_with(&line), "{outcome:?}");
        }
    }
}

/// Its installer holds the lock while it works.
#[test]
fn a_pass_of_another_owner_is_not_waited_for() {
    let machine = machine(&ODD.replace("OWNER", "\"owner\": \"other/kata\", "));
    let directory = File::open(machine.host("opt/kata-configdev")).unwrap();
    flock(&directory, FlockOperation::LockExclusive).unwrap();
    let outcome = install(&as_the_chart(&machine, "kata")).unwrap();
    assert_eq!(outcome.exit_code(), 0, "{outcome:?}");
}

#[test]
fn what_cannot_be_opened_there_ends_no_pass() {
    let mut machine = Machine::new();
    fs::write(machine.host("opt/kata-configdev"), "").unwrap();
    machine.mount_document(&document("one"));
    let text = chart_text(&machine, "kata").replace("/opt/kata-configdev/system", "/srv");
    let outcome = install(&parse(&text).unwrap()).unwrap();
    assert_eq!(outcome.exit_code(), 0, "{outcome:?}");
    let [warning] = &outcome.warnings[..] else {
        panic!("{outcome:?}");
    };
    assert!(warning.starts_with("failed to take over what /opt/kata-configdev"), "{warning}");
    let place = "srv/kata/default/etc/host-config/imagepuller.toml";
    assert_eq!(machine.read(place), document("one"));
}
