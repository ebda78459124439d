//! Documents in memory.

use std::fs;

use node_installer::{Options, install, uninstall};

use crate::installer::machine::{
    DOCUMENT, MANIFEST, Machine, PASSWORD, SETTINGS, WRAPPER, document, mode, parse,
};

const DIRECTORY: &str = "run/kata-configdev/system/kata";
const IN_MEMORY: &str = "run/kata-configdev/system/kata/default/imagepuller.toml";

fn options(machine: &Machine) -> Options {
    in_memory(&machine.configuration())
}

fn in_memory(text: &str) -> Options {
    let line = format!("document-dir = \"/{DIRECTORY}\"\nwrapper");
    parse(&text.replacen("wrapper", &line, 1)).unwrap()
}

/// The files of the node that have the password, but for those in memory.
fn on_disk(machine: &Machine) -> Vec<String> {
    let mut files = machine.files();
    files.retain(|file| !file.starts_with("run/") && machine.read(file).contains(PASSWORD));
    files
}

#[test]
fn no_password_is_on_a_disk() {
    let mut machine = Machine::new();
    machine.mount(&[("imagepuller.toml", &document("one"))]);
    install(&machine.options()).unwrap();
    assert_eq!(on_disk(&machine).len(), 1);
    // What was on the disk goes in the same pass.
    fs::create_dir_all(machine.host(DIRECTORY)).unwrap();
    let outcome = install(&options(&machine)).unwrap();
    assert_eq!(outcome.exit_code(), 0, "{outcome:?}");
    assert_eq!(on_disk(&machine), [""; 0]);
    assert_eq!(machine.read(IN_MEMORY), document("one"));
    assert_eq!(mode(&machine.host(IN_MEMORY)), 0o600);
    assert_eq!(mode(machine.host(IN_MEMORY).parent().unwrap()), 0o700);
    let settings = machine.read(SETTINGS);
    assert!(settings.contains(&format!("document = \"/{IN_MEMORY}\"")), "{settings}");
    assert!(!machine.host("opt/kata-configdev/default/etc").exists());
    // By its digest a password could be guessed.
    let digest = test_command::sha256sum(machine.host(IN_MEMORY));
    assert!(!machine.read(MANIFEST).contains(&digest));
    assert!(machine.read(MANIFEST).contains(&test_command::sha256sum(machine.host(WRAPPER))));
    // What somebody writes there is replaced: nobody can tell it from an earlier one.
    fs::write(machine.host(IN_MEMORY), "changed").unwrap();
    assert_eq!(install(&options(&machine)).unwrap().changes, 1);
    assert_eq!(machine.read(IN_MEMORY), document("one"));
    assert_eq!(install(&options(&machine)).unwrap().changes, 0);
    // And back. Nobody knows any more that the directory in memory was a directory of documents.
    let outcome = install(&machine.options()).unwrap();
    assert_eq!(outcome.exit_code(), 0);
    let said = format!("failed to remove /{IN_MEMORY}: the list of installed files calls it a");
    let mut warnings = outcome.warnings.iter();
    assert!(warnings.any(|line| line.starts_with(&said)), "{outcome:?}");
    assert!(machine.host(DOCUMENT).exists() && machine.host(IN_MEMORY).exists());
}

#[test]
fn after_a_reboot_the_first_pass_writes_them_again() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    let options = options(&machine);
    fs::create_dir_all(machine.host(DIRECTORY)).unwrap();
    install(&options).unwrap();
    // The kubelet makes the mounted directory again.
    let reboot = || {
        fs::remove_dir_all(machine.host("run")).unwrap();
        fs::create_dir_all(machine.host(DIRECTORY)).unwrap();
    };
    reboot();
    // The settings name it all the same: until then nothing is pulled without it.
    assert!(machine.read(SETTINGS).contains(IN_MEMORY));
    let outcome = install(&options).unwrap();
    assert_eq!((outcome.exit_code(), outcome.changes), (0, 1), "{outcome:?}");
    assert_eq!(machine.read(IN_MEMORY), document("one"));
    reboot();
    assert_eq!(uninstall(&options).unwrap().exit_code(), 0);
    assert_eq!(machine.files(), [""; 0]);
    assert!(!machine.host(WRAPPER).exists());
}

/// Kata's QEMU is not known just then, so that the settings go on naming the document where it was.
#[test]
fn a_document_stays_as_long_as_the_settings_name_it() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    let text = machine.configuration().replace("qemu = \"/opt/kata/bin/qemu\", ", "");
    install(&parse(&text).unwrap()).unwrap();
    let handlers = ["qemu-snp", "qemu-tdx"];
    let write = |handler: &str, text: &str| {
        let main = format!("opt/kata/{handler}/configuration-{handler}.toml");
        fs::write(machine.host(&main), text).unwrap();
    };
    for handler in handlers {
        write(handler, "[hypervisor.qemu]\n");
    }
    fs::create_dir_all(machine.host(DIRECTORY)).unwrap();
    let options = in_memory(&text);
    assert_ne!(install(&options).unwrap().exit_code(), 0);
    assert!(machine.read(SETTINGS).contains(&format!("document = \"/{DOCUMENT}\"")));
    assert_eq!(machine.read(DOCUMENT), document("one"));
    for handler in handlers {
        write(handler, "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu\"\n");
    }
    assert_eq!(install(&options).unwrap().exit_code(), 0);
    assert!(machine.read(SETTINGS).contains(IN_MEMORY));
    assert!(!machine.host(DOCUMENT).exists());
}
