//! Secrets that come late, or not at all, as the program installs them.

use std::path::PathBuf;

use test_command::wait_until;

use crate::installer::machine::{DOCUMENT, Machine, NOTHING_YET, SETTINGS, broken, document};
use crate::installer::process::{Watching, program, run};

const CONFIG: &str = ".dockerconfigjson";
const FILLED: &str = r#"{"auths":{"b.corp":{"username":"robot","password":"1"}}}"#;

/// A machine whose set requires its secrets, with names for those at `places`.
fn machine(docker: &[&str], places: &[&str]) -> Machine {
    let mut machine = Machine::new();
    let docker: Vec<PathBuf> = docker.iter().map(|place| machine.path(place)).collect();
    let names: Vec<String> = places
        .iter()
        .map(|place| format!("{:?} = \"kata/{place}\"", machine.path(place)))
        .collect();
    machine.more = format!(
        "required = true\ndocker-configs = {docker:?}\nsecret-names = {{ {} }}\n",
        names.join(", ")
    );
    machine
}

/// The exit code, and the log.
fn install(machine: &Machine) -> (Option<i32>, String) {
    run(program(machine, "install"))
}

/// Requires that nothing is pulled until the secrets come, by these words.
fn assert_waits(machine: &Machine, words: &str) {
    let (code, log) = install(machine);
    assert_eq!(code, Some(69), "{log}");
    let line = format!("failed to find what the set default requires: {words}; until then");
    assert!(log.contains(&line), "{log}");
    assert_eq!(machine.read(DOCUMENT), format!("node-error = {words:?}\n"));
}

/// A secret that was missing, had the wrong key or was deleted once left the node ready and its
/// sandboxes anonymous.
#[test]
fn a_required_secret_is_waited_for_by_name() {
    let mut machine = machine(&[], &["secret"]);
    let words = "the secret kata/secret has not arrived on this node";
    assert_waits(&machine, words);
    let settings = machine.read(SETTINGS);
    assert!(settings.contains(&format!("\nmissing-document = {words:?}\n")), "{settings}");
    machine.mount(&[("config.toml", &document("one"))]);
    assert_waits(&machine, words);
    for _ in 0..2 {
        machine.mount_document(&document("one"));
        let (code, log) = install(&machine);
        assert_eq!(code, Some(0), "{log}");
        assert_eq!(machine.read(DOCUMENT), document("one"));
        assert_eq!(machine.read(SETTINGS), settings);
        machine.mount(&[]);
        assert_waits(&machine, words);
    }
}

#[test]
fn a_placeholder_that_nobody_filled_is_missing() {
    let mut machine = machine(&["team", "placeholder"], &["placeholder"]);
    let place = machine.path("team").display().to_string();
    assert_waits(
        &machine,
        &format!("the secrets {place}, kata/placeholder have not arrived on this node"),
    );
    machine.mount_other("team", &[(CONFIG, FILLED)]);
    for empty in ["", "{}", "{\"auths\":{}}"] {
        machine.mount_other("placeholder", &[(CONFIG, empty)]);
        let words = "the secret kata/placeholder has not arrived on this node";
        assert_waits(&machine, words);
    }
    // A document of the set's own is one more source, not the one that is waited for.
    machine.mount_document(&document("one"));
    let words = "the secret kata/placeholder has not arrived on this node";
    assert_waits(&machine, words);
    machine.mount_other("placeholder", &[(CONFIG, &FILLED.replace('b', "c"))]);
    assert_eq!(install(&machine).0, Some(0));
    let text = machine.read(DOCUMENT);
    assert!(text.contains(&document("one")) && text.contains("c.corp"), "{text}");

    machine.more = machine.more.replace("required = true", "");
    for place in ["team", "placeholder"] {
        machine.mount_other(place, &[(CONFIG, "{}")]);
    }
    machine.mount(&[]);
    assert_eq!(install(&machine).0, Some(0));
    assert_eq!(machine.read(DOCUMENT), NOTHING_YET);
}

/// What stands in for a document is none: the first broken secret must not leave it in place.
#[test]
fn a_broken_secret_never_means_that_none_has_come() {
    let mut machine = Machine::new();
    assert_eq!(install(&machine).0, Some(0));
    assert_eq!(machine.read(DOCUMENT), NOTHING_YET);
    machine.mount_document(&broken());
    let (code, log) = install(&machine);
    assert_eq!(code, Some(65), "{log}");
    assert!(log.contains("pull nothing until"), "{log}");
    let text = machine.read(DOCUMENT);
    assert!(text.starts_with("node-error = \"the registry configuration of this node cannot be"));
    machine.mount_document(&document("one"));
    assert_eq!(install(&machine).0, Some(0));
    machine.mount_document(&broken());
    assert_eq!(install(&machine).0, Some(65));
    assert_eq!(machine.read(DOCUMENT), document("one"));
}

#[test]
fn the_node_is_ready_when_the_secret_comes() {
    let mut machine = machine(&[], &["secret"]);
    machine.mount_document(&document("one"));
    let watching = Watching::start(&machine);
    assert!(watching.is_ready());
    machine.mount(&[]);
    wait_until("the removal", || !watching.is_ready());
    assert!(machine.has_stand_in());
    machine.mount_document(&document("two"));
    wait_until("the secret", || watching.is_ready());
    assert_eq!(machine.read(DOCUMENT), document("two"));
    let log = watching.stop();
    assert!(log.contains("kata/secret has not arrived"), "{log}");
}
