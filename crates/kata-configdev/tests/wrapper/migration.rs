//! A template is saved and a clone of it started as Kata's Go runtime does both, through the
//! wrapper, by the real QEMU.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::wrapper::node::Node;
use crate::wrapper::qemu::{QEMU, Qmp, installed, start};
use crate::wrapper::vectors::vector;

const MEMORY_BYTES: u64 = 64 << 20;

/// Longer than any migration of so little takes.
const LIMIT: Duration = Duration::from_secs(60);

/// The options of the recorded vector `name` that a machine without KVM, vsock and a guest's kernel
/// has: the CPU is emulated, the memory small, the firmware runs alone, and Kata's `/run/vc/vm` is
/// `vms`. The monitor is left to [`start`].
fn adapted(name: &str, vms: &Path) -> Vec<String> {
    let left_out = ["-kernel", "-initrd", "-append", "-qmp"];
    let mut arguments = vector(name);
    while let Some(place) = arguments.iter().position(|argument| {
        left_out.contains(&argument.as_str()) || argument.starts_with("vhost-vsock-pci,")
    }) {
        let option = place - usize::from(!arguments[place].starts_with('-'));
        arguments.drain(option..option + 2);
    }
    for argument in &mut arguments {
        *argument = argument
            .replace("accel=kvm", "accel=tcg")
            .replace("host,pmu=off", "max")
            .replace("512M", "64M")
            .replace("/run/vc/vm", vms.to_str().unwrap());
        if let Some(folder) = argument.strip_suffix("/pid") {
            std::fs::create_dir_all(folder).unwrap();
        }
    }
    arguments
}

/// Shows what QEMU said where the test fails.
struct Log(PathBuf);

impl Drop for Log {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(&self.0).unwrap_or_default());
        }
    }
}

/// Lets QEMU take or give everything but the memory file, and waits for the end of it.
fn migrate(qmp: &mut Qmp, command: &str, uri: String) {
    let capability = json!({"capability": "x-ignore-shared", "state": true});
    qmp.ask("migrate-set-capabilities", json!({"capabilities": [capability]}));
    qmp.ask(command, json!({"uri": uri}));
    let started = Instant::now();
    loop {
        let status = qmp.ask("query-migrate", json!({}));
        match status["status"].as_str() {
            Some("completed") => return,
            Some("failed") => panic!("{status}"),
            _ => assert!(started.elapsed() < LIMIT, "{status}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A template once had the node's document on a disk that no clone had, and QEMU refused each:
/// "Unknown savevm section or instance '0000:00:05.0/virtio-blk'".
#[test]
fn a_clone_runs_from_what_its_template_saved() {
    if !installed() {
        return;
    }
    let node = Node::new(QEMU);
    // The pod asks for no document: the node's has to be there, or no template had a disk.
    node.annotate("");
    let log = Log(node.path("log"));
    let file = || File::options().create(true).append(true).open(&log.0);
    let wrapper = |name: &str| -> Command {
        let mut command = node.wrapper();
        let vms = node.path("vms");
        command.args(adapted(name, &vms)).stderr(file().unwrap());
        command
    };

    let mut command = wrapper("go-template");
    command.current_dir(node.path("forbidden"));
    let memory = File::create(node.path("vms/template/memory")).unwrap();
    memory.set_len(MEMORY_BYTES).unwrap();
    let (template, mut qmp) = start(command, &node.path("template.sock"));
    assert_eq!(qmp.ask("query-block", json!({})), json!([]));
    qmp.ask("stop", json!({}));
    let state = node.path("vms/template/state");
    migrate(&mut qmp, "migrate", format!("exec:cat >{}", state.display()));
    qmp.ask("quit", json!({}));
    assert!(template.wait_with_output().unwrap().status.success());
    let saved = state.metadata().unwrap().len();
    assert!((1..MEMORY_BYTES).contains(&saved), "{saved} bytes without the memory");

    let command = wrapper("go-template-clone");
    let (clone, mut qmp) = start(command, &node.path("clone.sock"));
    migrate(&mut qmp, "migrate-incoming", format!("exec:cat {}", state.display()));
    qmp.ask("cont", json!({}));
    assert_eq!(qmp.ask("query-status", json!({}))["status"], "running");
    qmp.ask("quit", json!({}));
    assert!(clone.wait_with_output().unwrap().status.success());
}
