//! `install --check`: the pass that does not write.

use std::fs;

use crate::installer::machine::{
    DOCUMENT, DROP_INS, Machine, PASSWORD, SETTINGS, WRAPPER, broken, document,
};
use crate::installer::process::{program, run};

type Replaced = &'static [(&'static str, &'static str)];

const OPTIONAL: (&str, &str) = ("required = true", "required = false");

/// Runs `install` by the configuration with some of its words replaced.
fn install(machine: &Machine, replaced: Replaced, more: &[&str]) -> (Option<i32>, String) {
    let mut command = program(machine, "install");
    let mut text = machine.configuration();
    for (old, new) in replaced {
        assert!(text.contains(old), "{old}: {text}");
        text = text.replace(old, new);
    }
    fs::write(machine.path("installer.toml"), text).unwrap();
    command.args(more);
    run(command)
}

/// All of these once ended with 0, most of them without a word.
#[test]
fn a_check_ends_as_the_pass_would() {
    let good = document("one");
    let yaml = format!("apiVersion: v1\nkind: Secret\nstringData:\n  password: {PASSWORD}\n");
    let rows: [(Replaced, &str, &str, Option<i32>, &str); 14] = [
        (&[], "imagepuller.toml", &good, Some(0), "would install"),
        (
            &[("/secret\"", "/none\"")],
            "imagepuller.toml",
            &good,
            Some(69),
            "/none has not arrived on this node; until then",
        ),
        (
            &[("/secret\"", "/none\""), OPTIONAL],
            "imagepuller.toml",
            &good,
            Some(0),
            "/none has not arrived on this node (absent, empty, ",
        ),
        (
            &[("/secret\"", "/secret/imagepuller.toml\""), OPTIONAL],
            "imagepuller.toml",
            &good,
            Some(65),
            "a file is there; name the directory that it is in",
        ),
        (&[], "config.toml", &good, Some(69), "has no key \"imagepuller.toml\", but config.toml"),
        (
            &[OPTIONAL],
            "config.toml",
            &good,
            Some(0),
            "has no key \"imagepuller.toml\", but config.toml",
        ),
        (&[], "imagepuller.toml", &broken(), Some(65), "miror: "),
        (&[], "imagepuller.toml", &yaml, Some(65), "accept the document"),
        (
            &[("/secret\"\n", "/none\"\ndocker-configs = [\"/dev/null\"]\n")],
            "imagepuller.toml",
            &good,
            Some(65),
            "/dev/null: it is not a regular file",
        ),
        (
            &[("/secret\"\n", "/none\"\ndocker-configs = [\"/none\"]\n"), OPTIONAL],
            "imagepuller.toml",
            &good,
            Some(0),
            "/none has not arrived on this node (absent, ",
        ),
        (
            &[("/secret\"\n", "/secret\"\ndocuments-secret = \"/none\"\n"), OPTIONAL],
            "imagepuller.toml",
            &good,
            Some(0),
            "/none has not arrived on this node (absent, empty, or without the key); until then \
            the set default/documents",
        ),
        (
            &[("qemu-snp\"", "qemu-snpp\"")],
            "imagepuller.toml",
            &good,
            Some(69),
            "install the drop-in below /opt/kata/qemu-snpp: there is no such directory",
        ),
        (
            &[("bin/qemu\"", "bin/qemoo\"")],
            "imagepuller.toml",
            &good,
            Some(69),
            "find the QEMU of the set default: /opt/kata/bin/qemoo",
        ),
        (&[("/wrapper\"", "/none\"")], "imagepuller.toml", &good, Some(69), "read the program "),
    ];
    for (replaced, key, text, code, words) in rows {
        let mut machine = Machine::new();
        machine.more = "required = true\n".into();
        machine.mount(&[(key, text)]);
        let before = machine.state();
        let (checked, log) = install(&machine, replaced, &["--check"]);
        assert_eq!(checked, code, "{replaced:?}: {log}");
        assert!(log.contains(words), "{words}: {log}");
        assert_eq!(machine.state(), before, "{replaced:?}");
        let last = log.lines().last().unwrap();
        let planned = format!("would install the wrapper /{WRAPPER}, install the ");
        assert_eq!(last.contains(&planned), !words.starts_with("read the program"), "{log}");
        let (installed, log) = install(&machine, replaced, &[]);
        assert_eq!(installed, code, "{log}");
        // Nothing is as it should be where a warning says that something is missing.
        assert_eq!(
            log.contains("everything is as it should be"),
            code == Some(0) && !log.contains("WARN"),
            "{log}"
        );
    }
}

/// The check said that it had taken the line out, and its plan did not have it.
#[test]
fn a_check_takes_no_line_out_of_a_changed_drop_in() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    assert_eq!(install(&machine, &[], &[]).0, Some(0));
    let changed = machine.read(DROP_INS[0]) + "default_vcpus = 2\n";
    fs::write(machine.host(DROP_INS[0]), &changed).unwrap();
    let (code, log) = install(&machine, &[], &["--check", "--remove"]);
    assert_eq!(code, Some(65), "{log}");
    let planned = format!("take the line with the wrapper out of /{}", DROP_INS[0]);
    assert!(log.contains(&planned), "{log}");
    assert!(log.contains("its line with the wrapper goes"), "{log}");
    assert_eq!(machine.read(DROP_INS[0]), changed);
}

#[test]
fn a_check_says_what_a_pass_would_change() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    assert_eq!(install(&machine, &[], &[]).0, Some(0));
    let before = machine.state();
    let (code, log) = install(&machine, &[], &["--check"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.ends_with(" everything is as it should be\n"), "{log}");
    machine.mount_document(&document("two"));
    let (code, log) = install(&machine, &[], &["--check"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.ends_with(&format!(" would replace the document /{DOCUMENT}\n")), "{log}");
    let (code, log) = install(&machine, &[], &["--check", "--remove"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains(&format!("would remove /{}, remove /", DROP_INS[1])), "{log}");
    assert_eq!(machine.state(), before);
    assert_eq!(machine.read(DOCUMENT), document("one"));
}

/// The chart's job sees no node; a configuration that no node can have is refused all the same.
#[test]
fn a_check_without_a_node_reads_the_configuration_alone() {
    const ELSEWHERE: Replaced = &[("/host\"", "/elsewhere\"")];
    const TYPO: Replaced = &[("annotation-allow", "anotation-allow")];
    let machine = Machine::new();
    let check = ["--check", "--without-node"];
    let (code, log) = install(&machine, &[], &check);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("no node was looked at"), "{log}");
    assert_eq!(install(&machine, ELSEWHERE, &check).0, Some(0));
    assert_eq!(install(&machine, ELSEWHERE, &["--check"]).0, Some(69));
    let (code, log) = install(&machine, TYPO, &check);
    assert_eq!(code, Some(65), "{log}");
    assert_eq!(install(&machine, &[], &["--without-node"]).0, Some(64));
}

/// The wrapper was taken out of the handler that worked, and only then the new one was not found.
#[test]
fn a_handler_that_is_not_found_takes_no_drop_in_away() {
    const FILE: Replaced = &[("qemu-snp\"", "qemu-snp/configuration-qemu-snp.toml\"")];
    const PARENT: Replaced = &[("kata/qemu-snp\"", "kata\"")];
    const TYPO: Replaced = &[("qemu-snp\"", "qemu-snpp\"")];
    const MEANT: Replaced = &[("\"/opt/kata/qemu-snp\", ", "")];
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    assert_eq!(install(&machine, &[], &[]).0, Some(0));
    let before = machine.read(DROP_INS[0]);
    let (code, log) = install(&machine, TYPO, &[]);
    assert_eq!(code, Some(69), "{log}");
    assert!(log.contains("No other drop-in of the set is removed"), "{log}");
    assert_eq!(machine.read(DROP_INS[0]), before);
    for other in [FILE, PARENT] {
        let (code, log) = install(&machine, other, &[]);
        assert_ne!(code, Some(0), "{log}");
        assert_eq!(machine.read(DROP_INS[0]), before, "{other:?}: {log}");
    }
    // Nor does one to which the wrapper is not handed, here because somebody's file is there.
    fs::rename(machine.host(DROP_INS[1]), machine.path("ours")).unwrap();
    fs::write(machine.host(DROP_INS[1]), "").unwrap();
    let (code, log) = install(&machine, MEANT, &[]);
    assert_eq!(code, Some(65), "{log}");
    assert_eq!(machine.read(DROP_INS[0]), before, "{log}");
    fs::rename(machine.path("ours"), machine.host(DROP_INS[1])).unwrap();
    // Whoever means another handler has it, and then the old one goes.
    let (code, log) = install(&machine, MEANT, &[]);
    assert_eq!(code, Some(0), "{log}");
    assert!(!machine.host(DROP_INS[0]).exists());
    assert!(machine.host(DROP_INS[1]).exists());
    // Also where something else is wrong, which its successor does not need.
    assert_eq!(install(&machine, &[], &[]).0, Some(0));
    fs::write(machine.host(SETTINGS), "# mine\n").unwrap();
    let (code, log) = install(&machine, MEANT, &[]);
    assert_eq!(code, Some(65), "{log}");
    assert!(!machine.host(DROP_INS[0]).exists(), "{log}");
}
