//! A list that a later version wrote. One key more in it once made `install` and `uninstall` say
//! that it was damaged: a chart that was rolled back could neither work nor be removed.

use std::fs;

use node_installer::{Error, Outcome, install, installation, uninstall};
use serde_json::{Value, json};

use crate::installer::machine::{
    DOCUMENT, DROP_INS, MANIFEST, Machine, SETTINGS, WRAPPER, document,
};

/// A node where the list is as `change` makes it.
fn node(change: impl Fn(&mut Value)) -> Machine {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    assert_eq!(install(&machine.options()).unwrap().exit_code(), 0);
    let mut list: Value = serde_json::from_str(&machine.read(MANIFEST)).unwrap();
    change(&mut list);
    fs::write(machine.host(MANIFEST), list.to_string()).unwrap();
    machine
}

/// The entry of a file.
fn entry<'a>(list: &'a mut Value, file: &str) -> &'a mut Value {
    let mut files = list["files"].as_array_mut().unwrap().iter_mut();
    let is_it = |entry: &&mut Value| entry["path"] == format!("/{file}");
    files.find(is_it).unwrap()
}

fn said(outcome: &Outcome) -> String {
    let problems = outcome.problems.iter().flat_map(Error::lines);
    let lines: Vec<String> = problems.chain(outcome.warnings.clone()).collect();
    lines.join("\n")
}

#[test]
fn a_key_that_this_version_does_not_know_is_kept() {
    let mut machine = node(|list| {
        list["written-by"] = json!({"version": "0.2.0"});
        entry(list, DOCUMENT)["since"] = json!(7);
    });
    let prefix = machine.options().prefix;
    let looked = installation::look_at(&machine.path("host"), &prefix, &[]);
    assert_eq!(looked.unwrap().unwrap().files, 5);
    machine.mount_document(&document("two"));
    let outcome = install(&machine.options()).unwrap();
    assert_eq!((outcome.changes, said(&outcome)), (1, String::new()));
    let mut list: Value = serde_json::from_str(&machine.read(MANIFEST)).unwrap();
    assert_eq!(list["written-by"]["version"], "0.2.0");
    assert_eq!(entry(&mut list, DOCUMENT)["since"], 7);
    let before = machine.state();
    assert_eq!(install(&machine.options()).unwrap().changes, 0);
    assert_eq!(machine.state(), before);
    let outcome = uninstall(&machine.options()).unwrap();
    assert_eq!((outcome.exit_code(), said(&outcome)), (0, String::new()));
    assert_eq!(machine.files(), [""; 0]);
}

/// A list has its number, and each of its files a kind.
#[test]
fn a_list_of_no_known_form_is_damaged() {
    for key in ["format", "files"] {
        let machine = node(|list| {
            if key == "format" {
                list.as_object_mut().unwrap().remove(key);
            } else {
                entry(list, DOCUMENT).as_object_mut().unwrap().remove("kind");
            }
        });
        let before = machine.state();
        for error in [install(&machine.options()), uninstall(&machine.options())] {
            let error = error.unwrap_err();
            assert_eq!(error.exit_code(), 65);
            assert!(error.to_string().contains("it is damaged at line"), "{error}");
        }
        assert_eq!(machine.state(), before);
    }
}

#[test]
fn a_newer_list_is_left_alone_and_its_files_can_be_removed() {
    let machine = node(|list| {
        list["format"] = json!(3);
        list["units"] = json!(["kata-configdev.service"]);
        entry(list, WRAPPER)["kind"] = json!("launcher");
        entry(list, DOCUMENT)["since"] = json!({});
    });
    let before = machine.state();
    let error = install(&machine.options()).unwrap_err();
    assert_eq!(error.exit_code(), 65);
    let shown = error.to_string();
    assert!(shown.contains("a newer version wrote it, in format 3"), "{shown}");
    assert!(shown.contains("uninstall removes what"), "{shown}");
    assert_eq!(machine.state(), before);

    let outcome = uninstall(&machine.options()).unwrap();
    assert_eq!((outcome.exit_code(), outcome.changes), (0, 5), "{outcome:?}");
    assert_eq!(
        said(&outcome),
        format!(
            "a newer version wrote /{MANIFEST}, in format 3: only files whose digest is on it are \
            removed; 1 of its keys are not understood"
        )
    );
    assert_eq!(machine.files(), [""; 0]);
    assert!(!machine.host("opt/kata-configdev").exists());
}

#[test]
fn what_a_newer_list_does_not_prove_stays_and_is_told_each_time() {
    let machine = node(|list| {
        list["format"] = json!(3);
        let document = entry(list, DOCUMENT);
        document["sha512"] = document["sha256"].take();
        let files = list["files"].as_array_mut().unwrap();
        files.push(json!({"inode": 7}));
    });
    let list = machine.read(MANIFEST);
    for changes in [3, 0] {
        let outcome = uninstall(&machine.options()).unwrap();
        assert_eq!((outcome.exit_code(), outcome.changes), (65, changes));
        let said = said(&outcome);
        let unproven = format!("failed to remove /{DOCUMENT}: a newer version lists it without");
        assert!(said.contains(&unproven), "{said}");
        assert!(said.contains("wrote 1 of its entries in a form"), "{said}");
        // What is not understood may be a drop-in that starts the wrapper.
        assert!(said.contains("in a form of its own may start the wrapper"), "{said}");
        assert_eq!(machine.files(), [SETTINGS, WRAPPER, DOCUMENT, MANIFEST]);
        assert_eq!(machine.read(MANIFEST), list);
    }
}

/// A later version may have another kind of drop-in, with a name of its own.
#[test]
fn a_file_of_an_unknown_kind_and_name_keeps_the_wrapper() {
    let machine = node(|list| {
        list["format"] = json!(3);
        let entry = entry(list, DROP_INS[1]);
        entry["kind"] = json!("runtime-class");
        entry["path"] = json!("/opt/kata-configdev/later.toml");
    });
    let outcome = uninstall(&machine.options()).unwrap();
    assert!(said(&outcome).contains("may start the wrapper"), "{outcome:?}");
    assert_eq!(machine.files(), [SETTINGS, DROP_INS[1], WRAPPER, MANIFEST]);
}

/// A document is removed whoever changed it, by a list that this version knows. What a newer one
/// means by a path, nobody knows.
#[test]
fn what_was_changed_since_is_not_removed_by_a_newer_list() {
    let machine = node(|list| list["format"] = json!(3));
    fs::write(machine.host(DOCUMENT), document("two")).unwrap();
    let outcome = uninstall(&machine.options()).unwrap();
    assert_eq!((outcome.exit_code(), outcome.changes), (65, 4));
    let told = format!("failed to remove /{DOCUMENT}: somebody else changed it");
    assert!(said(&outcome).contains(&told), "{outcome:?}");
    fs::remove_file(machine.host(DOCUMENT)).unwrap();
    assert_eq!(uninstall(&machine.options()).unwrap().exit_code(), 0);
    assert_eq!(machine.files(), [""; 0]);
}

/// Without its wrapper no sandbox of that handler would start.
#[test]
fn a_drop_in_that_is_not_proven_keeps_the_wrapper_that_it_starts() {
    let machine = node(|list| {
        list["format"] = json!(3);
        entry(list, DROP_INS[1])["sha256"] = json!({});
    });
    let outcome = uninstall(&machine.options()).unwrap();
    assert_eq!(outcome.exit_code(), 65);
    assert!(said(&outcome).contains("still starts the wrapper"), "{outcome:?}");
    assert_eq!(machine.files(), [SETTINGS, DROP_INS[1], WRAPPER, MANIFEST]);
    assert!(!machine.read(SETTINGS).contains("document"));
}

#[test]
fn a_newer_list_of_somebody_else_or_nobody_knows_whom_is_left_alone() {
    for owner in [json!("tenant-a/kata"), json!({"namespace": "tenant-a"})] {
        let machine = node(|list| {
            list["format"] = json!(3);
            list["owner"] = owner.clone();
        });
        let before = machine.state();
        let error = uninstall(&machine.options()).unwrap_err();
        assert!(error.exit_code() == 65 || error.exit_code() == 69, "{error}");
        assert_eq!(machine.state(), before);
    }
}
