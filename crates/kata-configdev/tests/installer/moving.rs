//! Upgrades and moves whose secrets are broken or missing just then.
//!
//! Such a pass once wrote what takes a document's place where the document should go, and removed
//! the last good one with the rest of the former prefix: from then on nothing was pulled.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use node_installer::{Error, Options, Outcome, install, uninstall};

use crate::installer::machine::{
    DOCUMENT, Machine, NOTHING_YET, PASSWORD, SETTINGS, broken, document, mode, parse,
};
use crate::installer::ownership::{as_the_chart, chart_text, install_as_before};

const OWN: &str = "opt/kata-configdev/system/kata";

/// Where the document of a set goes.
fn place(set: &str) -> String {
    format!("{OWN}/{set}/etc/host-config/imagepuller.toml")
}

fn lines(outcome: &Outcome) -> String {
    let problems = outcome.problems.iter().flat_map(Error::lines);
    let all: Vec<String> = problems.chain(outcome.warnings.iter().cloned()).collect();
    all.join("\n")
}

/// Requires that the former place is empty, and that another pass changes nothing.
fn assert_moved(machine: &Machine, options: &Options, code: u8) {
    assert!(!machine.host("opt/kata-configdev/default").exists());
    assert!(!machine.host(SETTINGS).exists());
    let before = machine.state();
    let again = install(options).unwrap();
    assert_eq!((again.exit_code(), again.changes), (code, 0), "{again:?}");
    assert_eq!(machine.state(), before);
}

#[test]
fn a_document_whose_secret_is_broken_moves_as_it_is() {
    let mut machine = Machine::new();
    install_as_before(&machine);
    machine.mount_document(&broken());
    let options = as_the_chart(&machine, "kata");
    let outcome = install(&options).unwrap();
    assert_eq!(outcome.exit_code(), 65, "{outcome:?}");
    let said = lines(&outcome);
    assert!(
        said.contains("failed to accept the document of the set default: 2 problems; the previous"),
        "{said}"
    );
    let line = format!("the earlier one stays, carried from /{DOCUMENT} to /{}", place("default"));
    assert!(said.contains(&line), "{said}");
    assert!(!said.contains(PASSWORD), "{said}");
    assert_eq!(machine.read(&place("default")), document("one"));
    assert_eq!(mode(&machine.host(&place("default"))), 0o600);
    assert_moved(&machine, &options, 65);

    machine.mount_document(&document("two"));
    assert_eq!(install(&options).unwrap().exit_code(), 0);
    assert_eq!(machine.read(&place("default")), document("two"));
}

#[test]
fn a_document_whose_secret_is_missing_moves_and_waits_for_it() {
    for required in [false, true] {
        let mut machine = Machine::new();
        install_as_before(&machine);
        machine.more = format!("required = {required}\n");
        let code = if required { 69 } else { 0 };
        let options = as_the_chart(&machine, "kata");
        let outcome = install(&options).unwrap();
        assert_eq!(outcome.exit_code(), code, "{outcome:?}");
        assert!(lines(&outcome).contains("the earlier one stays"), "{outcome:?}");
        assert_eq!(machine.read(&place("default")), document("one"));
        assert_moved(&machine, &options, code);
        // Each pass says so, as long as it is so.
        let said = lines(&install(&options).unwrap());
        assert!(said.contains("has not arrived on this node"), "{said}");
        assert!(said.contains("document from before"), "{said}");
        assert!(!said.contains("pull nothing"), "{said}");

        machine.mount_document(&document("two"));
        let outcome = install(&options).unwrap();
        assert_eq!((outcome.exit_code(), lines(&outcome)), (0, String::new()));
        assert_eq!(machine.read(&place("default")), document("two"));
        // From here on a secret that goes takes its credentials along.
        machine.mount(&[]);
        assert_eq!(install(&options).unwrap().exit_code(), code);
        assert_ne!(machine.read(&place("default")), document("two"));
        assert_eq!(uninstall(&options).unwrap().exit_code(), 0);
        assert_eq!(machine.files(), [""; 0]);
    }
}

/// A secret that came, was broken, and was deleted then.
#[test]
fn what_waits_ends_with_the_file_or_with_a_secret_that_was_there() {
    for is_file in [true, false] {
        let mut machine = Machine::new();
        install_as_before(&machine);
        let options = as_the_chart(&machine, "kata");
        install(&options).unwrap();
        match is_file {
            true => fs::remove_file(machine.host(&place("default"))).unwrap(),
            false => {
                machine.mount_document(&broken());
                assert_eq!(install(&options).unwrap().exit_code(), 65);
                assert_eq!(machine.read(&place("default")), document("one"));
                machine.mount(&[]);
            }
        }
        assert_eq!(install(&options).unwrap().exit_code(), 0);
        assert_eq!(machine.read(&place("default")), NOTHING_YET);
    }
}

/// The second set, whose handler is that of the first no more.
fn with_second(machine: &Machine, text: &str, prefix: &str) -> String {
    text.replace(", \"/opt/kata/qemu-tdx\"", "")
        + &format!(
            "[sets.second]\nsecret = {:?}\nhandlers = [\"/opt/kata/qemu-tdx\"]\n\
            settings-file = \"{prefix}/second/etc/kata-configdev/config.toml\"\n\
            disks = {{ timesync = \"more\" }}\nsettings = {{ qemu = \"/opt/kata/bin/qemu\" }}\n",
            machine.path("second")
        )
}

#[test]
fn each_set_moves_with_its_own_and_a_whole_one_is_made_anew() {
    for breakage in [Some(broken()), None] {
        let mut machine = Machine::new();
        machine.mount_document(&document("one"));
        let keys = [("imagepuller.toml", &*document("two")), ("more", PASSWORD)];
        machine.mount_other("second", &keys);
        let former = with_second(&machine, &machine.configuration(), "/opt/kata-configdev");
        assert_eq!(install(&parse(&former).unwrap()).unwrap().exit_code(), 0);

        machine.mount_document(&document("three"));
        match &breakage {
            Some(text) => {
                machine.mount_other("second", &[("imagepuller.toml", text), ("more", "new")]);
            }
            None => machine.mount_other("second", &[]),
        }
        let text = chart_text(&machine, "kata");
        let options = parse(&with_second(&machine, &text, &format!("/{OWN}"))).unwrap();
        let outcome = install(&options).unwrap();
        assert_eq!(outcome.exit_code(), if breakage.is_some() { 65 } else { 0 });
        assert_eq!(machine.read(&place("default")), document("three"));
        assert_eq!(machine.read(&place("second")), document("two"));
        assert!(!machine.host("opt/kata-configdev/second").exists());
        let disk = format!("{OWN}/second/etc/host-config/disk-74696d6573796e63");
        let expected = if breakage.is_some() { "new" } else { PASSWORD };
        assert_eq!(machine.read(&disk), expected);
        let settings = machine.read(&format!("{OWN}/second/etc/kata-configdev/config.toml"));
        assert!(settings.contains(&format!("source = \"/{disk}\"")), "{settings}");
        assert_moved(&machine, &options, outcome.exit_code());

        // A secret without the disk's key takes the disk along.
        machine.mount_other("second", &[("imagepuller.toml", &document("four"))]);
        assert_eq!(install(&options).unwrap().exit_code(), 0);
        assert_eq!(machine.read(&place("second")), document("four"));
        assert!(!machine.host(&disk).exists());
    }
}

/// What takes a document's place is none, and what nobody can read is none either.
#[test]
fn only_a_document_is_carried() {
    for text in [NOTHING_YET, "node-error = \"x\"\n", "no document"] {
        let mut machine = Machine::new();
        install_as_before(&machine);
        fs::write(machine.host(DOCUMENT), text).unwrap();
        machine.mount_document(&broken());
        assert_eq!(install(&as_the_chart(&machine, "kata")).unwrap().exit_code(), 65);
        let text = machine.read(&place("default"));
        assert!(text.starts_with("node-error = \"the registry"), "{text}");
    }
}

/// The wrapper refuses such a file, and so would a copy be one that somebody else has written.
#[test]
fn what_others_can_write_to_is_not_carried() {
    let mut machine = Machine::new();
    install_as_before(&machine);
    let open = fs::Permissions::from_mode(0o620);
    fs::set_permissions(machine.host(DOCUMENT), open).unwrap();
    machine.mount_document(&broken());
    assert_eq!(install(&as_the_chart(&machine, "kata")).unwrap().exit_code(), 65);
    let text = machine.read(&place("default"));
    assert!(text.starts_with("node-error = \"the registry"), "{text}");
}

fn in_memory(text: &str) -> String {
    text.replacen("wrapper", "document-dir = \"/run/documents\"\nwrapper", 1)
}

#[test]
fn a_document_moves_into_memory_and_back_while_its_secret_is_broken() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    machine.mount_document(&broken());
    fs::create_dir_all(machine.host("run/documents")).unwrap();
    let options = parse(&in_memory(&machine.configuration())).unwrap();
    assert_eq!(install(&options).unwrap().exit_code(), 65);
    let memory = "run/documents/default/imagepuller.toml";
    assert_eq!(machine.read(memory), document("one"));
    assert!(!machine.host(DOCUMENT).exists());
    assert_eq!(install(&machine.options()).unwrap().exit_code(), 65);
    assert_eq!(machine.read(DOCUMENT), document("one"));
    assert!(machine.host(memory).exists());
    // It is this installation's own: a secret that goes takes it along, wherever it moves.
    machine.mount(&[]);
    assert_eq!(install(&options).unwrap().exit_code(), 0);
    assert_eq!(machine.read(memory), NOTHING_YET);
    assert!(!machine.host(DOCUMENT).exists());
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
    fs::create_dir_all(machine.host("run/documents")).unwrap();
    let options = parse(&in_memory(&text)).unwrap();
    assert_ne!(install(&options).unwrap().exit_code(), 0);
    assert!(machine.read(SETTINGS).contains(&format!("document = \"/{DOCUMENT}\"")));
    assert_eq!(machine.read(DOCUMENT), document("one"));
    for handler in handlers {
        write(handler, "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu\"\n");
    }
    assert_eq!(install(&options).unwrap().exit_code(), 0);
    assert!(machine.read(SETTINGS).contains("document = \"/run/documents/"));
    assert!(!machine.host(DOCUMENT).exists());
}
