//! Whose an installation is.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::thread;

use node_installer::watch::{RESCAN, watch};
use node_installer::{Error, Options, install, uninstall};
use test_command::wait_until;

use crate::installer::machine::{
    DOCUMENT, DROP_INS, MANIFEST, Machine, SETTINGS, WRAPPER, document, parse,
};

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

/// As the chart before this version left a node.
pub fn install_as_before(machine: &Machine) {
    for (file, mode, text) in [
        (WRAPPER, 0o755, "the wrapper, first version".to_owned()),
        (DOCUMENT, 0o600, document("one")),
        (
            SETTINGS,
            0o644,
            format!(
                "# Written by the node installer of kata-configdev; change its configuration \
                instead.\ndocument = \"/{DOCUMENT}\"\n\
                qemu = \"/opt/kata/bin/qemu-system-x86_64-snp-experimental\"\n"
            ),
        ),
        (
            "opt/kata/qemu-snp/config.d/50-configdev.toml",
            0o644,
            format!(
                "# Written by the node installer of kata-configdev.\n[hypervisor.qemu]\n\
                 path = \"/{WRAPPER}\"\n"
            ),
        ),
        (MANIFEST, 0o600, include_str!("data/installed-by-kustomize.json").to_owned()),
    ] {
        let path = machine.host(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }
}

/// As this version's chart writes it: a prefix and settings of the release's own.
pub fn as_the_chart(machine: &Machine, release: &str) -> Options {
    parse(&chart_text(machine, release)).unwrap()
}

pub fn chart_text(machine: &Machine, release: &str) -> String {
    let prefix = format!("/opt/kata-configdev/system/{release}");
    owned_text(machine, &format!("system/{release}"))
        .replace(PREFIX, &format!("prefix = \"{prefix}\""))
        .replace(
            "handlers",
            &format!(
                "settings-file = \"{prefix}/default/etc/kata-configdev/config.toml\"\nhandlers"
            ),
        )
}

#[test]
fn what_the_chart_before_installed_moves_in_one_pass() {
    let mut machine = Machine::new();
    install_as_before(&machine);
    machine.mount_document(&document("one"));
    let outcome = install(&as_the_chart(&machine, "kata")).unwrap();
    assert_eq!(outcome.exit_code(), 0, "{outcome:?}");
    let own = "opt/kata-configdev/system/kata";
    let mut expected = vec![
        DROP_INS[0].to_owned(),
        DROP_INS[1].to_owned(),
        format!("{own}/default/bin/kata-configdev-qemu"),
        format!("{own}/default/etc/host-config/imagepuller.toml"),
        format!("{own}/default/etc/kata-configdev/config.toml"),
        format!("{own}/installed.json"),
    ];
    expected.sort();
    let mut files = machine.files();
    files.sort();
    assert_eq!(files, expected);
    assert!(!machine.host("opt/kata-configdev/default").exists());
    assert!(machine.read(DROP_INS[0]).contains(&format!("/{own}/default/bin/")));

    let before = machine.state();
    assert_eq!(install(&as_the_chart(&machine, "kata")).unwrap().changes, 0);
    assert_eq!(machine.state(), before);
    // A second release takes nothing over.
    let second = as_the_chart(&machine, "tdx");
    assert_ne!(install(&second).unwrap().exit_code(), 0, "both have the same handlers");
    assert!(machine.read(DROP_INS[0]).contains(&format!("/{own}/default/bin/")));
    uninstall(&second).unwrap();
    assert_eq!(uninstall(&as_the_chart(&machine, "kata")).unwrap().exit_code(), 0);
    assert_eq!(machine.files(), [""; 0]);
}

/// Requires that each drop-in starts a wrapper which finds its settings and its document.
fn assert_no_sandbox_is_broken(machine: &Machine) {
    for handler in ["qemu-snp", "qemu-tdx"] {
        for drop_in in ["50-configdev.toml", "zz-kata-configdev.toml"] {
            let path = format!("opt/kata/{handler}/config.d/{drop_in}");
            if !machine.host(&path).exists() {
                continue;
            }
            let value = |text: &str, key: &str| {
                let table: toml::Table = text.parse().unwrap();
                table.get(key).map(|value| value.as_str().unwrap()[1..].to_owned())
            };
            let text = machine.read(&path).replace("[hypervisor.qemu]", "");
            let wrapper = value(&text, "path").unwrap();
            assert!(machine.host(&wrapper).exists(), "{path}: {wrapper}");
            let own = wrapper.replace("bin/kata-configdev-qemu", "etc/kata-configdev");
            let settings = match machine.host(&own).is_dir() {
                true => own + "/config.toml",
                false => SETTINGS.to_owned(),
            };
            let document = value(&machine.read(&settings), "document").unwrap();
            assert!(machine.host(&document).exists(), "{settings}: {document}");
        }
    }
}

#[test]
fn a_move_that_is_killed_breaks_no_sandbox() {
    let mut moved = 0;
    for round in 0..40_u64 {
        let mut machine = Machine::new();
        install_as_before(&machine);
        machine.mount_document(&document("one"));
        let mut program = crate::installer::process::program(&machine, "install");
        fs::write(machine.path("installer.toml"), chart_text(&machine, "kata")).unwrap();
        program.stderr(std::process::Stdio::null());
        let mut process = program.spawn().unwrap();
        thread::sleep(std::time::Duration::from_micros(round * 500));
        process.kill().unwrap();
        process.wait().unwrap();
        assert_no_sandbox_is_broken(&machine);
        moved += usize::from(!machine.host(MANIFEST).exists());
        let outcome = install(&as_the_chart(&machine, "kata")).unwrap();
        assert_eq!(outcome.exit_code(), 0, "{outcome:?}");
        assert_no_sandbox_is_broken(&machine);
        assert!(!machine.host(WRAPPER).exists() && !machine.host(SETTINGS).exists());
        assert_eq!(machine.files().len(), 6, "{:?}", machine.files());
    }
    println!("{moved} of 40 took the list over before they were killed");
}

#[test]
fn an_uninstallation_takes_over_and_removes_what_the_chart_before_installed() {
    let machine = Machine::new();
    install_as_before(&machine);
    let outcome = uninstall(&as_the_chart(&machine, "kata")).unwrap();
    assert_eq!((outcome.exit_code(), outcome.changes), (0, 4), "{outcome:?}");
    assert_eq!(machine.files(), [""; 0]);
    assert!(!machine.host("opt/kata-configdev/system").exists());
}

/// The new wrapper cannot be put in place: what there was goes on working.
#[test]
fn nothing_of_the_chart_before_goes_until_everything_has_moved() {
    let mut machine = Machine::new();
    install_as_before(&machine);
    machine.mount_document(&document("one"));
    let blocked = "opt/kata-configdev/system/kata/default/etc/kata-configdev/config.toml";
    fs::create_dir_all(machine.host(blocked)).unwrap();
    let options = as_the_chart(&machine, "kata");
    assert_eq!(install(&options).unwrap().exit_code(), 65);
    let old = "opt/kata/qemu-snp/config.d/50-configdev.toml";
    assert!(machine.read(old).contains(&format!("\"/{WRAPPER}\"")));
    assert!(machine.read(SETTINGS).contains(&format!("document = \"/{DOCUMENT}\"")));
    assert!(machine.host(WRAPPER).exists() && machine.host(DOCUMENT).exists());
    fs::remove_dir(machine.host(blocked)).unwrap();
    assert_eq!(install(&options).unwrap().exit_code(), 0);
    assert!(!machine.host(WRAPPER).exists() && !machine.host(SETTINGS).exists());
}

/// Only the pass that takes a list over knows the prefix that it is from.
#[test]
fn an_edited_drop_in_of_the_chart_before_loses_its_wrapper_in_a_later_pass() {
    let mut machine = Machine::new();
    install_as_before(&machine);
    machine.mount_document(&document("one"));
    let old = "opt/kata/qemu-snp/config.d/50-configdev.toml";
    let edited = machine.read(old) + "default_memory = 4096\n";
    fs::write(machine.host(old), edited).unwrap();
    let blocked = "opt/kata-configdev/system/kata/default/etc/kata-configdev/config.toml";
    fs::create_dir_all(machine.host(blocked)).unwrap();
    let options = as_the_chart(&machine, "kata");
    assert_eq!(install(&options).unwrap().exit_code(), 65);
    fs::remove_dir(machine.host(blocked)).unwrap();
    install(&options).unwrap();
    assert!(!machine.host(WRAPPER).exists());
    let left = machine.read(old);
    assert!(!left.contains("path"), "{left}");
    assert!(left.contains("default_memory = 4096"), "{left}");
}

#[test]
fn lists_of_others_and_of_newer_versions_are_left_alone() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&owned(&machine, "tenant-a/kata")).unwrap();
    let list = machine.read(MANIFEST);
    // At the former default, of somebody else.
    let other = as_the_chart(&machine, "kata");
    assert_ne!(install(&other).unwrap().exit_code(), 0);
    assert_eq!(machine.read(MANIFEST), list);
    assert_eq!(machine.read(DOCUMENT), document("one"));

    let newer = list.replace("\"format\": 2", "\"format\": 3, \"more\": 1");
    fs::write(machine.host(MANIFEST), newer).unwrap();
    let error = install(&owned(&machine, "tenant-a/kata")).unwrap_err().to_string();
    assert!(error.contains("a newer version wrote it, in format 3"), "{error}");
    for owner in ["", "a b", "a\\nb"] {
        parse(&owned_text(&machine, owner)).unwrap_err();
    }
}
