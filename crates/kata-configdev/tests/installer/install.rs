//! Single passes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use node_installer::{Error, Outcome, install, uninstall};

use crate::installer::machine::{
    DOCUMENT, DROP_INS, MANIFEST, Machine, NOTHING_YET, PASSWORD, SETTINGS, WRAPPER, broken,
    document, mode, mount, parse,
};

fn problems(outcome: &Outcome) -> Vec<String> {
    let text: Vec<String> = outcome.problems.iter().flat_map(Error::lines).collect();
    assert!(!format!("{text:?}{outcome:?}").contains(PASSWORD));
    text
}

#[test]
fn everything_is_installed_and_a_second_pass_changes_no_inode() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    let outcome = install(&machine.options()).unwrap();
    assert_eq!((outcome.changes, problems(&outcome)), (5, vec![]));
    assert_eq!(machine.read(WRAPPER), "the wrapper, first version");
    assert_eq!(machine.read(DOCUMENT), document("one"));
    let settings = machine.read(SETTINGS);
    let (comment, settings) = settings.split_once('\n').unwrap();
    assert!(comment.starts_with("# "));
    assert_eq!(
        settings,
        format!(
            "annotation-allow = [\"/etc/allowed\"]\ndocument = \"/{DOCUMENT}\"\n\
             missing-document = \"the registry configuration of this node has not been installed \
             yet\"\nqemu = \"/opt/kata/bin/qemu\"\n"
        )
    );
    for drop_in in DROP_INS {
        let text = machine.read(drop_in);
        let (comment, text) = text.split_once('\n').unwrap();
        assert!(comment.starts_with("# "));
        assert_eq!(text, format!("[hypervisor.qemu]\npath = \"/{WRAPPER}\"\n"));
    }
    let modes =
        [WRAPPER, DOCUMENT, SETTINGS, DROP_INS[0], MANIFEST].map(|file| mode(&machine.host(file)));
    assert_eq!(modes, [0o755, 0o600, 0o644, 0o644, 0o600]);
    assert_eq!(mode(machine.host(DOCUMENT).parent().unwrap()), 0o700);

    let before = machine.state();
    let outcome = install(&machine.options()).unwrap();
    assert_eq!((outcome.changes, problems(&outcome)), (0, vec![]));
    assert_eq!(machine.state(), before);
}

#[test]
fn a_change_replaces_one_file_only() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    let before = machine.state();
    machine.mount_document(&document("two"));
    assert_eq!(install(&machine.options()).unwrap().changes, 1);
    assert_eq!(machine.read(DOCUMENT), document("two"));
    let after = machine.state();
    for same in [WRAPPER, SETTINGS, DROP_INS[0], DROP_INS[1]] {
        assert_eq!(after[&machine.host(same)], before[&machine.host(same)]);
    }
    assert_ne!(after[&machine.host(DOCUMENT)], before[&machine.host(DOCUMENT)]);

    fs::write(machine.path("wrapper"), "the wrapper, second version").unwrap();
    assert_eq!(install(&machine.options()).unwrap().changes, 1);
    assert_eq!(machine.read(WRAPPER), "the wrapper, second version");
}

#[test]
fn without_a_secret_the_document_says_nothing_and_the_settings_name_it() {
    let mut machine = Machine::new();
    // The secret is optional: the directory is absent, then empty, then has another key only.
    for step in 0..3 {
        match step {
            0 => {}
            1 => machine.mount(&[]),
            _ => machine.mount(&[("contrast-imagepuller.toml", "x = 1")]),
        }
        let outcome = install(&machine.options()).unwrap();
        assert_eq!(problems(&outcome), [""; 0]);
        assert_eq!(machine.read(DOCUMENT), NOTHING_YET);
        let settings = machine.read(SETTINGS);
        assert!(settings.contains("\ndocument = "));
        // A sandbox that starts before the installer has run never pulls anonymously.
        assert!(settings.contains("\nmissing-document = \"the registry configuration of "));
        assert!(machine.host(DROP_INS[1]).exists());
        let warnings = outcome.warnings.join("\n");
        let place = machine.path("secret").display().to_string();
        let told = format!("the secret {place} has not arrived on this node");
        assert!(warnings.contains(&told), "{warnings}");
        let told = "\"imagepuller.toml\", but contrast-imagepuller.toml;";
        assert_eq!(warnings.contains(told), step == 2, "{warnings}");
    }
    let other_key = machine
        .configuration()
        .replace("[sets.default]", "[sets.default]\nkey = \"contrast-imagepuller.toml\"");
    machine.mount(&[("contrast-imagepuller.toml", &document("one"))]);
    install(&parse(&other_key).unwrap()).unwrap();
    assert_eq!(machine.read(DOCUMENT), document("one"));
}

#[test]
fn a_secret_that_disappears_takes_its_content_along() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    machine.mount(&[]);
    assert_eq!(install(&machine.options()).unwrap().changes, 1);
    assert_eq!(machine.read(DOCUMENT), NOTHING_YET);
    assert!(machine.host(DROP_INS[0]).exists());
    let before = machine.state();
    install(&machine.options()).unwrap();
    assert_eq!(machine.state(), before);
}

#[test]
fn a_broken_document_keeps_the_old_one_and_every_problem_is_named() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    let before = machine.state();
    machine.mount_document(&broken());
    let outcome = install(&machine.options()).unwrap();
    let lines = problems(&outcome);
    assert_eq!(
        lines[0],
        "failed to accept the document of the set default: 2 problems; the previous document stays \
        in place"
    );
    assert!(
        lines[1]
            .starts_with("document of the set default: line 4: registries.\"broken.corp\".auth: "),
        "{lines:?}"
    );
    assert!(
        lines[2]
            .starts_with("document of the set default: line 5: registries.\"broken.corp\".miror: "),
        "{lines:?}"
    );
    assert_eq!(outcome.exit_code(), 65);
    assert_eq!(machine.state(), before);
}

#[test]
fn a_first_document_that_is_broken_does_not_mean_none() {
    let mut machine = Machine::new();
    machine.mount_document(&broken());
    let outcome = install(&machine.options()).unwrap();
    assert!(problems(&outcome)[0].ends_with("sandboxes pull nothing until it is corrected"));
    assert!(machine.read(DOCUMENT).starts_with("node-error = "));
    assert!(machine.read(SETTINGS).contains(&format!("document = \"/{DOCUMENT}\"")));
}

#[test]
fn uninstall_removes_what_is_ours_and_nothing_else() {
    let mut machine = Machine::new();
    let others = [
        "etc/kata-configdev/config.d/10-site.toml",
        "opt/kata/qemu-snp/config.d/10-prefix.toml",
        "opt/kata/qemu-tdx/configuration.toml",
    ];
    for file in others {
        fs::create_dir_all(machine.host(file).parent().unwrap()).unwrap();
        fs::write(machine.host(file), "# somebody else's\n").unwrap();
    }
    let before = machine.files();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    assert_eq!(machine.files().len(), before.len() + 6);
    let outcome = uninstall(&machine.options()).unwrap();
    assert_eq!((outcome.changes, problems(&outcome)), (5, vec![]));
    assert_eq!(machine.files(), before);
    assert!(!machine.host("opt/kata-configdev").exists());
    assert!(!machine.host("opt/kata/qemu-tdx/config.d").exists());
    assert_eq!(uninstall(&machine.options()).unwrap().changes, 0);

    // A configuration without sets is the same wish.
    install(&machine.options()).unwrap();
    install(&parse(&format!("{}sets = {{}}\n", machine.head())).unwrap()).unwrap();
    assert_eq!(machine.files(), before);
}

#[test]
fn what_somebody_else_changed_is_left_and_reported() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    fs::write(machine.host(DROP_INS[0]), "# changed\n").unwrap();
    fs::write(machine.host(DOCUMENT), "changed").unwrap();
    machine.mount_document(&document("two"));
    // The changed document stops its set before the drop-ins.
    let lines = problems(&install(&machine.options()).unwrap());
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0]
            .starts_with(&format!("failed to install the document /{DOCUMENT}: a file is there"))
    );
    fs::remove_file(machine.host(DOCUMENT)).unwrap();
    let lines = problems(&install(&machine.options()).unwrap());
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with(&format!(
            "failed to install the drop-in /{}: a file is there",
            DROP_INS[0]
        ))
    );
    assert_eq!(machine.read(DOCUMENT), document("two"));

    let lines = problems(&uninstall(&machine.options()).unwrap());
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with(&format!("failed to remove /{}: somebody else", DROP_INS[0])));
    assert_eq!(machine.files(), [DROP_INS[0], MANIFEST]);
}

#[test]
fn what_was_there_before_is_not_taken_over() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    fs::create_dir(machine.host("etc/kata-configdev")).unwrap();
    fs::write(machine.host(SETTINGS), "qemu = \"/usr/bin/own\"\n").unwrap();
    let lines = problems(&install(&machine.options()).unwrap());
    assert!(
        lines[0]
            .starts_with(&format!("failed to install the settings /{SETTINGS}: a file is there"))
    );
    assert!(!machine.host(DROP_INS[0]).exists(), "Kata is not pointed to it");
    // A link is never written through, and never removed.
    fs::remove_file(machine.host(SETTINGS)).unwrap();
    symlink(machine.path("elsewhere"), machine.host(SETTINGS)).unwrap();
    assert_eq!(problems(&install(&machine.options()).unwrap()).len(), 1);
    assert!(!machine.path("elsewhere").exists());
    uninstall(&machine.options()).unwrap();
    assert!(machine.host(SETTINGS).is_symlink());
}

#[test]
fn a_lost_or_readable_file_is_put_right() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    fs::set_permissions(machine.host(DOCUMENT), PermissionsExt::from_mode(0o644)).unwrap();
    fs::remove_file(machine.host(DROP_INS[1])).unwrap();
    let outcome = install(&machine.options()).unwrap();
    assert_eq!((outcome.changes, problems(&outcome)), (2, vec![]));
    assert_eq!(mode(&machine.host(DOCUMENT)), 0o600);
    assert!(machine.host(DROP_INS[1]).exists());
}

#[test]
fn a_missing_handler_does_not_concern_the_others() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    fs::remove_dir_all(machine.host("opt/kata/qemu-snp")).unwrap();
    let outcome = install(&machine.options()).unwrap();
    assert_eq!(outcome.exit_code(), 69);
    assert!(
        problems(&outcome)[0].starts_with(
            "failed to install the drop-in below /opt/kata/qemu-snp: there is no such"
        )
    );
    assert!(!machine.host("opt/kata/qemu-snp").exists());
    assert!(machine.host(DROP_INS[1]).exists());
}

#[test]
fn a_handler_or_set_that_is_no_longer_wanted_goes() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    let mut generation = 0;
    mount(&machine.path("second"), &mut generation, &[("imagepuller.toml", &document("two"))]);
    let two = machine.configuration().replace(", \"/opt/kata/qemu-tdx\"", "")
        + &format!(
            "[sets.second]\nsecret = {:?}\nhandlers = [\"/opt/kata/qemu-tdx\"]\nsettings-file \
            = \"/opt/kata-configdev/second/etc/kata-configdev/config.toml\"\n",
            machine.path("second")
        );
    install(&machine.options()).unwrap();
    let outcome = install(&parse(&two).unwrap()).unwrap();
    assert_eq!(problems(&outcome), [""; 0]);
    assert!(
        machine
            .read(DROP_INS[1])
            .contains("\"/opt/kata-configdev/second/bin/kata-configdev-qemu\"")
    );
    assert_eq!(machine.read(&DOCUMENT.replace("default", "second")), document("two"));
    assert_eq!(machine.read(DOCUMENT), document("one"));
    assert!(
        machine
            .read("opt/kata-configdev/second/etc/kata-configdev/config.toml")
            .contains("/second/etc/host-config/imagepuller.toml")
    );

    install(&machine.options()).unwrap();
    assert!(!machine.host("opt/kata-configdev/second").exists());
    assert!(machine.read(DROP_INS[1]).contains("/default/bin/"));
}

#[test]
fn what_is_not_mounted_any_more_is_not_forgotten() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    let (mounted, unmounted) = (machine.host("opt/kata/qemu-snp"), machine.path("unmounted"));
    fs::rename(&mounted, &unmounted).unwrap();
    let one_handler = machine.configuration().replace("\"/opt/kata/qemu-snp\", ", "");
    let no_set = format!("{}sets = {{}}\n", machine.head());
    // The drop-in that cannot be removed still points to the wrapper; but no secret stays.
    for (text, stays) in [(&one_handler, true), (&no_set, false)] {
        let outcome = install(&parse(text).unwrap()).unwrap();
        let lines = problems(&outcome);
        assert_eq!((lines.len(), outcome.exit_code()), (if stays { 1 } else { 2 }, 69));
        assert!(lines[0].starts_with(&format!(
            "failed to remove /{}: its directory is not mounted",
            DROP_INS[0]
        )));
        assert_eq!(machine.host(DROP_INS[1]).exists(), stays);
        assert_eq!(machine.host(DOCUMENT).exists(), stays);
        assert!(machine.host(WRAPPER).exists() && machine.host(SETTINGS).exists());
    }
    fs::rename(&unmounted, &mounted).unwrap();
    assert_eq!(problems(&install(&parse(&no_set).unwrap()).unwrap()), [""; 0]);
    assert_eq!(machine.files(), [""; 0]);
}

#[test]
fn settings_that_are_not_mounted_any_more_are_not_forgotten() {
    let machine = Machine::new();
    install(&machine.options()).unwrap();
    let (mounted, unmounted) = (machine.host("etc/kata-configdev"), machine.path("unmounted"));
    // `/etc` stays visible, as it does where another mount needs it.
    fs::rename(&mounted, &unmounted).unwrap();
    let no_set = parse(&format!("{}sets = {{}}\n", machine.head())).unwrap();
    let lines = problems(&install(&no_set).unwrap());
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0]
            .starts_with(&format!("failed to remove /{SETTINGS}: its directory is not mounted"))
    );
    fs::rename(&unmounted, &mounted).unwrap();
    assert_eq!(problems(&install(&no_set).unwrap()), [""; 0]);
    assert_eq!(machine.files(), [""; 0]);
}

#[test]
fn nothing_unfinished_survives_the_next_pass() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    let before = machine.files();
    let in_handler = "opt/kata/qemu-snp/.zz-kata-configdev.toml.unfinished";
    let in_prefix = "opt/kata-configdev/.installed.json.unfinished";
    let in_set = "opt/kata-configdev/default/etc/host-config/.imagepuller.toml.unfinished";
    let crash = || {
        for unfinished in [in_handler, in_prefix, in_set] {
            fs::write(machine.host(unfinished), document("two")).unwrap();
        }
    };
    // The secret is what it was before the crash: nothing is written, and still nothing stays.
    crash();
    assert_eq!(install(&machine.options()).unwrap().changes, 0);
    assert_eq!(machine.files(), before);
    // The file itself never came, or somebody else changed it: it may hold a password all the same.
    for lost in [true, false] {
        install(&machine.options()).unwrap();
        crash();
        match lost {
            true => fs::remove_file(machine.host(DOCUMENT)).unwrap(),
            false => fs::write(machine.host(DOCUMENT), "changed").unwrap(),
        }
        uninstall(&machine.options()).unwrap();
        assert_eq!(machine.files(), [""; 0]);
    }
}

#[test]
fn a_crash_between_two_steps_leaves_everything_ours() {
    // The list names the new content before it is written: both are recognised.
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    let settled = machine.read(MANIFEST);
    machine.mount_document(&document("two"));
    install(&machine.options()).unwrap();
    let digest_of = |text: &str| {
        let list: serde_json::Value = serde_json::from_str(text).unwrap();
        let files = list["files"].as_array().unwrap().clone();
        let file = files.into_iter().find(|file| file["path"] == format!("/{DOCUMENT}")).unwrap();
        file["sha256"][0].as_str().unwrap().to_owned()
    };
    let (old, new) = (digest_of(&settled), digest_of(&machine.read(MANIFEST)));
    let both = settled.replace(&format!("\"{old}\""), &format!("\"{old}\", \"{new}\""));
    fs::write(machine.host(MANIFEST), &both).unwrap();
    for text in ["one", "two"] {
        fs::write(machine.host(DOCUMENT), document(text)).unwrap();
        fs::write(machine.host(MANIFEST), &both).unwrap();
        // An unfinished file of the killed process is in the way of nobody.
        let unfinished = machine.host(DOCUMENT).with_file_name(".imagepuller.toml.unfinished");
        fs::write(unfinished, "half").unwrap();
        let outcome = install(&machine.options()).unwrap();
        assert_eq!(problems(&outcome), [""; 0]);
        assert_eq!(machine.read(DOCUMENT), document("two"));
        assert_eq!(digest_of(&machine.read(MANIFEST)), new);
    }
    assert_eq!(problems(&uninstall(&machine.options()).unwrap()), [""; 0]);
    assert_eq!(machine.files(), [""; 0]);
}

#[test]
fn a_damaged_list_stops_everything() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    fs::write(machine.host(MANIFEST), "{").unwrap();
    let before = machine.state();
    for result in [install(&machine.options()), uninstall(&machine.options())] {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Manifest { .. }), "{error}");
    }
    assert_eq!(machine.state(), before);
}

#[test]
fn nothing_is_read_that_is_no_document() {
    let mut machine = Machine::new();
    machine.mount(&[("imagepuller.toml", &"#".repeat((1 << 20) + 1))]);
    assert!(
        problems(&install(&machine.options()).unwrap())[0]
            .ends_with("it has more than 1048576 bytes")
    );
    fs::remove_file(machine.path("secret/imagepuller.toml")).unwrap();
    fs::create_dir(machine.path("secret/imagepuller.toml")).unwrap();
    assert!(
        problems(&install(&machine.options()).unwrap())[0].ends_with("it is not a regular file")
    );
    assert!(machine.has_stand_in());
}
