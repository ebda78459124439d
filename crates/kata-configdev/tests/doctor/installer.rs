//! What doctor says, and the installer.

use kata_configdev::settings::RULES;
use test_command::Folder;

use crate::command::run;
use crate::doctor::breaks;
use crate::doctor::doctor;
use crate::doctor::node::{CONTAINERD, DROP_IN, HANDLER, Node, SETTINGS};

/// Whether the installer is ready, and what doctor says, is one thing.
#[test]
fn doctor_says_of_katas_files_what_the_installer_says() {
    let wrapper = "/opt/kata-configdev/default/bin/kata-configdev-qemu";
    let mut told = 0;
    for (id, break_it) in breaks::all() {
        if !["drop-in", "hypervisor", "kata-file", "vm-"].iter().any(|kind| id.starts_with(kind)) {
            continue;
        }
        let node = Node::new();
        node.edit(DROP_IN, "/usr/local/bin/kata-configdev-qemu", wrapper);
        break_it(&node);
        if *id == "hypervisor-none" {
            // Which of two main files is used, the installer does not know.
            node.remove(CONTAINERD);
            node.put(
                &format!("{}/configuration-other.toml", HANDLER),
                "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu-system-x86_64\"\n",
            );
        }
        let text = format!(
            "host = {:?}\nprefix = \"/opt/kata-configdev\"\nwrapper = \"/wrapper\"\n\
             [sets.default]\nsecret = \"/secret\"\nhandlers = [\"/{}\"]\n",
            node.root(),
            HANDLER
        );
        let options = node_installer::Options::parse(text.as_bytes(), RULES).unwrap();
        let seen = node_installer::kata::look(&options).unwrap();
        let printed = doctor(&node, &[]).stdout;
        for finding in seen.findings {
            let place = format!("{}:{}", finding.path, finding.line);
            let place = place.trim_end_matches(":0");
            let line = printed.lines().find(|line| {
                line.starts_with(place)
                    && line.contains(&format!(" {}: {}", finding.id, finding.message))
                    && line.contains(": fault ") == finding.is_fault
            });
            assert!(line.is_some(), "{finding}:\n{printed}");
            told += 1;
        }
    }
    assert!(told >= 11, "only {told}");
}

/// Whether QEMU can be started is looked at by both, too: here by a whole installation.
#[test]
fn doctor_says_of_qemu_what_the_installer_says() {
    let container = Folder::with(&["secret"]);
    container.file("wrapper", "the wrapper");
    container.file("secret/imagepuller.toml", "");
    let mut told = 0;
    for (id, break_it) in breaks::all() {
        let rule = match *id {
            "qemu-missing" => "it is not there",
            "qemu-not-executable" => "it is no program",
            _ => continue,
        };
        let node = Node::new();
        node.remove(DROP_IN);
        node.remove(SETTINGS);
        let text = format!(
            "host = {:?}\nprefix = \"/opt/kata-configdev\"\nwrapper = {:?}\n\
             binaries = [\"/opt/kata/bin\"]\n\
             [sets.default]\nsecret = {:?}\nhandlers = [\"/{HANDLER}\"]\n",
            node.root(),
            container.path("wrapper"),
            container.path("secret")
        );
        container.file("installer.toml", &text);
        let install = || run(&["install", "--config", &container.text("installer.toml")]);
        install().ends(0);
        let run = doctor(&node, &[]);
        assert!(!run.stdout.contains(&format!(" {id}: ")), "{run:?}");
        break_it(&node);
        let refused = install();
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(refused.stderr.contains(rule), "{refused:?}");
        let run = doctor(&node, &[]);
        run.ends(65).prints(&[&format!(": fault {id}: ")]);
        told += 1;
    }
    assert_eq!(told, 2);
}
