//! What Kata's own configuration says and breaks.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use node_installer::kata::look;
use node_installer::{check, install};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::installer::machine::{DROP_INS, Machine, SETTINGS, WRAPPER, document, parse};

const GO: &str = "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu\"\n# kernel_params = \"\"\n\
    [factory]\nenable_template = false\nvm_cache_number = 0\n[runtime]\nexperimental = []\n";
const RUST: &str = "[hypervisor.qemu]\n[hypervisor.qemu.factory]\nenable_template = false\n\
    [runtime]\nhypervisor_name = \"qemu\"\nexperimental = []\n";
const SNP: &str = "opt/kata/qemu-snp";

fn put(machine: &Machine, path: &str, text: &str) {
    let path = machine.host(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The findings, without the directory before each; "!" marks a fault.
fn findings(machine: &Machine) -> Vec<String> {
    let seen = look(&machine.options()).unwrap();
    assert_eq!(seen.unseen, []);
    let line = |finding: &node_installer::kata::Finding| {
        let text = finding.to_string().replace(&format!("/{SNP}/"), "");
        format!("{}{text}", if finding.is_fault { "!" } else { "" })
    };
    seen.findings.iter().map(line).collect()
}

#[test]
fn files_that_kata_should_not_read_are_found() {
    let setting = "is no key of Kata but a setting of the wrapper";
    let cases = [
        // Nothing to say.
        (GO, "30-a.toml", "[hypervisor.qemu]\nkernel_params = \"x\"\n", ""),
        (GO, "30-a.toml", "[hypervisor.qemu]\npath = \"/x\"\n", ""),
        (RUST, "60-a.toml", "[hypervisor.clh]\npath = \"/x\"\n", ""),
        (RUST, "60-a.toml", "[hypervisor.qemu]\npath = \"/WRAPPER\"\n", ""),
        (GO, "60-a.toml", "[hypervisor.qemu]\nenable_template = true\n", ""),
        (RUST, "60-a.toml", "[factory]\nenable_template = true\n", ""),
        (GO, "60-a.toml", "[hypervisor.qemu.factory]\nenable_template = true\n", ""),
        // Names that only Kata takes for drop-ins.
        (GO, "50-x.toml~", "", "!config.d/50-x.toml~: Kata reads every file"),
        (RUST, ".a.toml", "", "!config.d/.a.toml: Kata reads every file"),
        (GO, "x\u{1b}.toml~", "", "!config.d/x\\u{1b}.toml~: Kata reads"),
        (GO, "a.toml", "\n[x", "!config.d/a.toml:2: no TOML ("),
        (GO, "a.toml", "x = 1\nx = 2\n", "!config.d/a.toml:2: no TOML (duplicate key)"),
        // Settings of the wrapper.
        (GO, "a.toml", "[hypervisor.qemu]\ndocument = \"/x\"\n", "!config.d/a.toml:2: hypervisor"),
        (GO, "a.toml", "hypervisor.qemu.annotation-allow = []\n", setting),
        (GO, "a.toml", "[agent.kata]\n\nrefuse = 1\n", "!config.d/a.toml:3: agent.kata."),
        (RUST, "a.toml", "[hypervisor.qemu]\ntransport = 1\n", "config.d/a.toml:2: hypervisor."),
        ("", "a.toml", "[hypervisor.qemu]\nguest-pull = 1\n", "!config.d/a.toml:2: hypervisor"),
        (
            GO,
            "a.toml",
            "[agent.kata]\nnosuch = 1\n",
            "config.d/a.toml:2: Kata 4.1.0 has no key agent.kata.nosuch, and the main file",
        ),
        // What wins over the drop-in.
        (GO, "50-user-overrides.toml", "[hypervisor.qemu]\npath = \"/x\"\n", ""),
        (
            GO,
            "zzz.toml",
            "[hypervisor.qemu]\npath = \"/x\"\n",
            "!config.d/zzz.toml:2: hypervisor.qemu.path is read after \
             zz-kata-configdev.toml and wins",
        ),
        // VMs that are no sandbox's.
        (
            GO,
            "a.toml",
            "factory.enable_template = true\n",
            "!config.d/a.toml:1: VM templating is on",
        ),
        (
            GO,
            "a.toml",
            "[factory]\nvm_cache_number = 0x1\n",
            "!config.d/a.toml:2: the VM cache is on",
        ),
        (
            RUST,
            "a.toml",
            "[hypervisor.qemu.factory]\nenable_template = true\n",
            "!config.d/a.toml:2: VM templating is on",
        ),
    ];
    for (main, name, text, expected) in cases {
        let machine = Machine::new();
        put(&machine, &format!("{SNP}/configuration-qemu-snp.toml"), main);
        let text = text.replace("WRAPPER", WRAPPER);
        put(&machine, &format!("{SNP}/config.d/{name}"), &text);
        let found = findings(&machine);
        assert_eq!(found.len(), usize::from(!expected.is_empty()), "{text}: {found:?}");
        let starts = ["!", "c"].iter().any(|start| expected.starts_with(start));
        let fits = |line: &String| match starts {
            true => line.starts_with(expected),
            false => line.contains(expected),
        };
        assert!(found.iter().all(fits), "{name} {text}: {found:?}");
    }
}

#[test]
fn entries_that_are_no_files_are_found() {
    let directory = |path: &Path| fs::create_dir(path).unwrap();
    let fifo = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let link = |path: &Path| symlink("elsewhere", path).unwrap();
    let cases = [
        (GO, directory as fn(&Path), "!config.d/x: not a regular file: Kata fails"),
        (RUST, fifo, "!config.d/x: not a regular file: Kata fails"),
        (GO, link, "config.d/x: a symbolic link: the Go runtime reads"),
        (RUST, link, "!config.d/x: a symbolic link: the Go runtime reads"),
    ];
    for (main, make, expected) in cases {
        let machine = Machine::new();
        put(&machine, &format!("{SNP}/configuration-qemu-snp.toml"), main);
        fs::create_dir(machine.host(&format!("{SNP}/config.d"))).unwrap();
        make(&machine.host(&format!("{SNP}/config.d/x")));
        let found = findings(&machine);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    }
}

#[test]
fn a_pass_and_a_check_tell_what_they_find() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    put(&machine, &format!("{SNP}/configuration-qemu-snp.toml"), GO);
    put(
        &machine,
        &format!("{SNP}/config.d/zzz.toml"),
        "hypervisor.qemu.path = \"/x\"\nhypervisor.qemu.nosuch = 1\n",
    );
    let before = machine.state();
    let checked = check(&machine.options()).unwrap();
    assert_eq!(machine.state(), before);
    let installed = install(&machine.options()).unwrap();
    for outcome in [checked, installed] {
        assert_eq!((outcome.exit_code(), outcome.problems.len()), (65, 1));
        let line = &outcome.problems[0].lines()[0];
        let start = format!("failed to accept Kata's configuration /{SNP}/config.d/zzz.toml:1: ");
        assert!(line.starts_with(&start), "{line}");
        assert_eq!(outcome.warnings.len(), 1, "{:?}", outcome.warnings);
    }
}

/// Kata reads every file of `config.d`, also one that is half written.
#[test]
fn nothing_but_the_drop_in_ever_appears_beside_it() {
    use rustix::fs::inotify;
    let machine = Machine::new();
    let config_d = machine.host(DROP_INS[0]).parent().unwrap().to_owned();
    fs::create_dir(&config_d).unwrap();
    let queue = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&queue, &config_d, inotify::WatchFlags::ALL_EVENTS).unwrap();
    install(&machine.options()).unwrap();
    fs::write(machine.path("wrapper"), "another").unwrap();
    let other = machine.configuration().replace("/opt/kata-configdev", "/opt/other");
    install(&parse(&other).unwrap()).unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&queue, &mut buffer);
    let mut names = Vec::new();
    while let Ok(event) = events.next() {
        names.extend(event.file_name().map(|name| name.to_str().unwrap().to_owned()));
    }
    assert!(
        !names.is_empty() && names.iter().all(|name| name == "zz-kata-configdev.toml"),
        "{names:?}"
    );
}

#[test]
fn settings_say_that_guests_pull_where_all_handlers_have_it_so() {
    let go_on = &GO.replace("[runtime]", "[runtime]\nexperimental_force_guest_pull = true");
    let rust_on = &RUST.replace("= []", "= [\"force_guest_pull\"]");
    let drop_in = "runtime.experimental_force_guest_pull = ";
    let (on, off) = (&format!("{drop_in}true\n"), &format!("{drop_in}false\n"));
    let cases: [(&str, &str, [&str; 2], bool); 9] = [
        (go_on, rust_on, ["", ""], true),
        (GO, go_on, [on, ""], true),
        // The last file wins.
        (go_on, go_on, [on, off], false),
        // One handler without it, or one that cannot be seen whole.
        (go_on, GO, ["", ""], false),
        (go_on, "", ["", ""], false),
        (go_on, go_on, ["x", on], false),
        // Each runtime has a key of its own, and the other's means nothing to it.
        (go_on, RUST, ["", ""], false),
        (
            rust_on,
            &RUST.replace("experimental", "experimental_force_guest_pull = true #"),
            ["", ""],
            false,
        ),
        (&GO.replace("= []", "= [\"force_guest_pull\"]"), go_on, ["", ""], false),
    ];
    for (snp, tdx, drop_ins, expected) in cases {
        let machine = Machine::new();
        put(&machine, &format!("{SNP}/configuration-qemu-snp.toml"), snp);
        if !tdx.is_empty() {
            put(&machine, "opt/kata/qemu-tdx/configuration-qemu-tdx.toml", tdx);
        }
        for (index, text) in drop_ins.iter().enumerate() {
            put(&machine, &format!("{SNP}/config.d/{index}.toml"), text);
        }
        install(&machine.options()).unwrap();
        let settings = machine.read(SETTINGS);
        let said = settings.contains("\nguest-pull = true\n");
        assert_eq!(said, expected, "{snp} {tdx} {drop_ins:?}: {settings}");
        // The administrator knows better.
        let own = machine.configuration().replace("{ qemu", "{ guest-pull = false, qemu");
        install(&parse(&own).unwrap()).unwrap();
        assert!(machine.read(SETTINGS).contains("\nguest-pull = false\n"));
    }
}
