//! "Everything is as it should be" means that a sandbox would start.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use node_installer::{Error, Outcome, check, install};

use crate::installer::machine::{DROP_INS, Machine, SETTINGS, document, parse};

const SNP: &str = "opt/kata/qemu-snp/configuration-qemu-snp.toml";
const TDX: &str = "opt/kata/qemu-tdx/configuration-qemu-tdx.toml";
const OTHER: &str = "opt/kata/qemu-snp/config.d/50-other.toml";

fn put(machine: &Machine, path: &str, text: &str) {
    let path = machine.host(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Main files of both runtimes with this QEMU.
fn put_mains(machine: &Machine, snp: &str, tdx: &str) {
    put(machine, SNP, &format!("[hypervisor.qemu]\npath = \"{snp}\"\n"));
    let rust =
        format!("[hypervisor.qemu]\npath = \"{tdx}\"\n[runtime]\nhypervisor_name = \"qemu\"\n");
    put(machine, TDX, &rust);
}

/// The configuration, without the QEMU that it names.
fn of_kata(machine: &Machine) -> String {
    let text = machine.configuration();
    let changed = text.replace("qemu = \"/opt/kata/bin/qemu\", ", "");
    assert_ne!(text, changed);
    changed
}

fn install_text(text: &str) -> Outcome {
    install(&parse(text).unwrap()).unwrap()
}

fn lines(outcome: &Outcome) -> Vec<String> {
    outcome.problems.iter().flat_map(Error::lines).collect()
}

/// Requires that a check and a pass say the same, with this exit code and this text.
fn assert_refused(machine: &Machine, text: &str, code: u8, said: &str) {
    let options = parse(text).unwrap();
    let before = machine.state();
    let checked = check(&options).unwrap();
    assert_eq!(machine.state(), before);
    let installed = install(&options).unwrap();
    for outcome in [checked, installed] {
        let lines = lines(&outcome);
        assert_eq!(outcome.exit_code(), code, "{lines:?}");
        assert!(lines.iter().any(|line| line.contains(said)), "{said}: {lines:?}");
    }
}

#[test]
fn qemu_is_that_of_kata() {
    let machine = Machine::new();
    for name in ["one", "two", "installation-prefix"] {
        machine.program(&format!("opt/kata/bin/{name}"));
    }
    let text = of_kata(&machine);
    let qemu = |machine: &Machine| {
        let outcome = install_text(&text);
        assert_eq!(outcome.exit_code(), 0, "{outcome:?}");
        assert_eq!(install_text(&text).changes, 0, "our own drop-in does not count");
        let settings = machine.read(SETTINGS);
        let line = settings.lines().find(|line| line.starts_with("qemu = "));
        line.unwrap().to_owned()
    };
    put_mains(&machine, "/opt/kata/bin/one", "/opt/kata/bin/one");
    assert_eq!(qemu(&machine), "qemu = \"/opt/kata/bin/one\"");
    // Kata was upgraded.
    put_mains(&machine, "/opt/kata/bin/two", "/opt/kata/bin/two");
    assert_eq!(qemu(&machine), "qemu = \"/opt/kata/bin/two\"");
    // kata-deploy points to a wrapper of its own; users have a slot behind that.
    let drop_in = "hypervisor.qemu.path = \"/opt/kata/bin/installation-prefix\"\n";
    for handler in ["qemu-snp", "qemu-tdx"] {
        let directory = format!("opt/kata/{handler}/config.d");
        put(&machine, &format!("{directory}/10-installation-prefix.toml"), drop_in);
    }
    assert_eq!(qemu(&machine), "qemu = \"/opt/kata/bin/installation-prefix\"");
    for handler in ["qemu-snp", "qemu-tdx"] {
        let path = format!("opt/kata/{handler}/config.d/50-user-overrides.toml");
        put(&machine, &path, "hypervisor.qemu.path = \"/opt/kata/bin/one\"\n");
    }
    assert_eq!(qemu(&machine), "qemu = \"/opt/kata/bin/one\"");
    let last = fs::read_dir(machine.host("opt/kata/qemu-snp/config.d")).unwrap();
    let last = last.map(|entry| entry.unwrap().file_name()).max().unwrap();
    assert!(DROP_INS[0].ends_with(last.to_str().unwrap()), "Kata reads ours last");
}

#[test]
fn kata_is_a_value_as_well() {
    let machine = Machine::new();
    let base = of_kata(&machine);
    for (setting, expected) in [
        ("qemu = \"kata\", ", "qemu = \"/opt/kata/bin/qemu\"\n"),
        (
            "qemu = { default = \"kata\", microvm = \"/opt/kata/bin/qemu\" }, ",
            "[qemu]\ndefault = \"/opt/kata/bin/qemu\"\nmicrovm = \"/opt/kata/bin/qemu\"\n",
        ),
    ] {
        let text = base.replace("settings = { ", &format!("settings = {{ {setting}"));
        assert_eq!(install_text(&text).exit_code(), 0);
        assert!(machine.read(SETTINGS).contains(expected), "{}", machine.read(SETTINGS));
    }
}

#[test]
fn handlers_of_one_set_have_one_qemu() {
    let machine = Machine::new();
    machine.program("opt/kata/bin/other");
    put_mains(&machine, "/opt/kata/bin/qemu", "/opt/kata/bin/other");
    let said = format!(
        "/{TDX}:2: hypervisor.qemu.path is /opt/kata/bin/other, but /opt/kata/bin/qemu at /{SNP}:2"
    );
    assert_refused(&machine, &of_kata(&machine), 65, &said);
    assert!(machine.host(DROP_INS[0]).exists() && !machine.host(DROP_INS[1]).exists());
    assert_eq!(install_text(&machine.configuration()).exit_code(), 0);
}

#[test]
fn a_handler_that_starts_no_qemu_gets_no_drop_in() {
    let rust = "[hypervisor.qemu]\n[runtime]\nhypervisor_name = \"dragonball\"\n";
    for (main, said) in [
        ("[hypervisor.clh]\npath = \"/x\"\n", "[hypervisor.qemu] is neither here nor in config.d"),
        (rust, "runtime.hypervisor_name is dragonball, so that its sandboxes start no QEMU"),
    ] {
        let machine = Machine::new();
        assert_eq!(install_text(&machine.configuration()).exit_code(), 0);
        put(&machine, SNP, main);
        assert_refused(&machine, &machine.configuration(), 65, said);
        assert!(!machine.host(DROP_INS[0]).exists(), "{main}");
        assert!(machine.host(DROP_INS[1]).exists());
    }
    let machine = Machine::new();
    let two = "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu\"\n[hypervisor.clh]\n";
    put(&machine, SNP, two);
    let said = format!("/{SNP}:3: [hypervisor.clh] is beside [hypervisor.qemu]");
    assert_refused(&machine, &machine.configuration(), 65, &said);
    fs::remove_file(machine.host(SNP)).unwrap();
    assert_refused(&machine, &of_kata(&machine), 65, "no configuration*.toml is in it");
}

/// Without a QEMU there are no settings, which must not look like success.
#[test]
fn a_configuration_that_cannot_be_read_is_refused() {
    let machine = Machine::new();
    let text = of_kata(&machine);
    put(&machine, SNP, &"#".repeat((256 << 10) + 1));
    assert_refused(&machine, &text, 65, "in it can be read, so that its QEMU is not known");
    assert!(!machine.host(DROP_INS[0]).exists() && machine.host(DROP_INS[1]).exists());
    assert_eq!(install_text(&machine.configuration()).exit_code(), 0);
    // Nothing to be taken from, and nothing that starts.
    let handlers = "handlers = [\"/opt/kata/qemu-snp\", \"/opt/kata/qemu-tdx\"]";
    let none = text.replace(handlers, "handlers = []");
    assert_ne!(none, text);
    assert_eq!(install_text(&none).exit_code(), 0);
    assert!(!machine.read(SETTINGS).contains("qemu ="));
    let kata = none.replace("settings = { ", "settings = { qemu = \"kata\", ");
    let refused = parse(&kata).unwrap_err().to_string();
    assert!(refused.contains("no handlers to take it from"), "{refused}");
}

#[test]
fn a_qemu_that_is_not_there_is_refused() {
    let machine = Machine::new();
    let away = |name: &str| put_mains(&machine, name, name);
    away("/opt/kata/bin/gone");
    let text = of_kata(&machine);
    let said = format!("/opt/kata/bin/gone (/{SNP}:2): it is not there");
    assert_refused(&machine, &text, 69, &said);
    assert!(!machine.host(DROP_INS[0]).exists(), "nothing new points to it");
    put(&machine, "opt/kata/bin/gone", "");
    assert_refused(&machine, &text, 69, "it is no program");
    machine.program("opt/kata/bin/gone");
    assert_eq!(install_text(&text).exit_code(), 0);
    // What is in place stays: sandboxes would fail without it as well.
    fs::remove_file(machine.host("opt/kata/bin/gone")).unwrap();
    assert_refused(&machine, &text, 69, &said);
    assert!(machine.host(DROP_INS[0]).exists());

    let explicit = machine.configuration().replace("bin/qemu", "bin/nope");
    let said = "/opt/kata/bin/nope (qemu of its settings): it is not there";
    assert_refused(&machine, &explicit, 69, said);
    // Links are the node's own, as for Kata.
    symlink("/opt/kata/bin/qemu", machine.host("opt/kata/bin/nope")).unwrap();
    assert_eq!(install_text(&explicit).exit_code(), 0);
}

#[test]
fn a_qemu_out_of_sight_is_a_warning() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    let text = machine.configuration().replace("/opt/kata/bin/qemu", "/usr/bin/qemu");
    let outcome = install_text(&text);
    assert_eq!((outcome.exit_code(), outcome.warnings.len()), (0, 1), "{outcome:?}");
    assert!(
        outcome.warnings[0].contains("/usr/bin/qemu, the QEMU of the set default, is not seen")
    );
    let link = machine.host("opt/kata/bin/link");
    symlink("/elsewhere/qemu", link).unwrap();
    let text = machine.configuration().replace("bin/qemu", "bin/link");
    let outcome = install_text(&text);
    assert_eq!((outcome.exit_code(), outcome.warnings.len()), (0, 1), "{outcome:?}");
}

/// These were green, and every sandbox failed.
#[test]
fn settings_that_the_wrapper_would_refuse_are_refused() {
    for transport in ["loop", "vhost-user"] {
        let machine = Machine::new();
        let text = machine.configuration();
        let text = text.replace("{ qemu", &format!("{{ transport = \"{transport}\", qemu"));
        let said = format!("transport: the wrapper cannot use \"{transport}\"");
        assert_refused(&machine, &text, 65, &said);
        assert!(!machine.host(DROP_INS[0]).exists());
    }
    let machine = Machine::new();
    let drop_in = "etc/kata-configdev/config.d/10-site.toml";
    put(&machine, drop_in, "\ndocumnet = 1\n");
    let text = machine.configuration();
    let said = format!("/{drop_in}:2: unknown field `documnet`");
    assert_refused(&machine, &text, 65, &said);
    put(&machine, drop_in, "");
    fs::set_permissions(machine.host(drop_in), PermissionsExt::from_mode(0o666)).unwrap();
    assert_refused(&machine, &text, 65, "its mode 0666 lets others");
    fs::set_permissions(machine.host(drop_in), PermissionsExt::from_mode(0o644)).unwrap();
    put(&machine, "etc/kata-configdev/config.d/10-site.toml~", "documnet = 1\n");
    assert_eq!(install_text(&text).exit_code(), 0);
    // A drop-in may also name a QEMU.
    put(&machine, drop_in, "qemu = \"/opt/kata/bin/nope\"\n");
    assert_refused(&machine, &text, 69, "/opt/kata/bin/nope (qemu of its settings)");
}

#[test]
fn a_set_that_is_turned_off_stays_installed() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    // Whatever its settings say.
    let text = machine.configuration();
    let text = text.replace("{ qemu", "{ transport = \"loop\", nonsense = 1, qemu");
    parse(&text).unwrap_err();
    let off = text.replace("[sets.default]\n", "[sets.default]\nenabled = false\n");
    let outcome = install_text(&off);
    assert_eq!((outcome.exit_code(), outcome.warnings.len()), (0, 1), "{outcome:?}");
    assert!(outcome.warnings[0].contains("the set default is turned off"), "{outcome:?}");
    assert!(machine.read(SETTINGS).contains("\nenabled = false\n"));
    let inside = machine.configuration().replace("{ qemu", "{ enabled = false, qemu");
    parse(&inside).unwrap_err();
}

/// Once nothing was written then, and the log said that the set is off.
#[test]
fn a_set_is_turned_off_while_its_qemu_is_not_known() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    let text = of_kata(&machine);
    let off = text.replace("[sets.default]\n", "[sets.default]\nenabled = false\n");
    let break_kata = |machine: &Machine| {
        for main in [SNP, TDX] {
            put(machine, main, &"#".repeat((256 << 10) + 1));
        }
    };
    assert_eq!(install_text(&text).exit_code(), 0);
    let before = machine.read(SETTINGS);
    break_kata(&machine);
    let is_off = |outcome: &Outcome| {
        let mut warnings = outcome.warnings.iter();
        warnings.any(|line| line.contains("the set default is turned off"))
    };
    let outcome = install_text(&off);
    assert!(is_off(&outcome), "{outcome:?}");
    let after = machine.read(SETTINGS);
    assert!(after.contains("enabled = false\n"), "{after}");
    assert_eq!(after.replace("enabled = false\n", ""), before);
    let again = install_text(&off);
    assert!(is_off(&again) && again.changes == 0, "{again:?}");

    let mut fresh = Machine::new();
    fresh.mount_document(&document("one"));
    let text = of_kata(&fresh);
    let off = text.replace("[sets.default]\n", "[sets.default]\nenabled = false\n");
    break_kata(&fresh);
    let outcome = install_text(&off);
    assert!(!is_off(&outcome), "{outcome:?}");
    assert!(!fresh.host(SETTINGS).exists());
}

#[test]
fn another_installation_has_the_handler() {
    let machine = Machine::new();
    let theirs = "[hypervisor.qemu]\npath = \"/opt/other/default/bin/kata-configdev-qemu\"\n";
    put(&machine, OTHER, theirs);
    let said = format!(
        "/{OTHER}:2: hypervisor.qemu.path is /opt/other/default/bin/kata-configdev-qemu, the \
        wrapper of another installation"
    );
    assert_refused(&machine, &machine.configuration(), 65, &said);
    assert!(!machine.host(DROP_INS[0]).exists() && machine.host(DROP_INS[1]).exists());
    assert_eq!(machine.read(OTHER), theirs);
}
