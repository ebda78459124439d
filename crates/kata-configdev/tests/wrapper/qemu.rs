//! The real QEMU behind the wrapper, without a guest: stopped before its first instruction and
//! asked over QMP.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use command_fds::{CommandFdExt, FdMapping};
use serde_json::{Value, json};

use crate::wrapper::node::Node;
use test_command::skip;

pub const QEMU: &str = "/usr/bin/qemu-system-x86_64";

/// Whether QEMU is there; says so where a test must be skipped.
pub fn installed() -> bool {
    let found = Path::new(QEMU).exists();
    if !found {
        skip(&format!("{QEMU} is not installed"));
    }
    found
}

/// A QMP session. Events are skipped.
pub struct Qmp {
    lines: BufReader<UnixStream>,
}

impl Qmp {
    pub fn connect(socket: &Path) -> Self {
        let mut session = Self { lines: BufReader::new(UnixStream::connect(socket).unwrap()) };
        assert!(session.message().get("QMP").is_some());
        session.ask("qmp_capabilities", json!({}));
        session
    }

    fn message(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).expect("QEMU closed its monitor")
    }

    pub fn ask(&mut self, command: &str, arguments: Value) -> Value {
        let request = json!({"execute": command, "arguments": arguments}).to_string();
        // In one write: QEMU obeys "quit" at its last brace, and there would be nobody to write a
        // line end to.
        self.lines.get_mut().write_all(request.as_bytes()).unwrap();
        loop {
            let mut message = self.message();
            assert!(message.get("error").is_none(), "{command}: {message}");
            if let Some(answer) = message.get_mut("return") {
                return answer.take();
            }
        }
    }
}

/// Starts `command` as Kata's Go runtime does: the QMP listener is descriptor 3.
pub fn start(mut command: Command, socket: &Path) -> (Child, Qmp) {
    let listener = UnixListener::bind(socket).unwrap();
    command
        .args(["-qmp", "unix:fd=3,server=on,wait=off"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .fd_mappings(vec![FdMapping { parent_fd: OwnedFd::from(listener), child_fd: 3 }])
        .unwrap();
    let child = command.spawn().unwrap();
    // The socket listens already, so the connection waits for QEMU; it is reset where QEMU ends
    // before.
    drop(command);
    (child, Qmp::connect(socket))
}

fn assert_disk(machine: &str) {
    let node = Node::new(QEMU);
    let mut command = node.wrapper();
    command
        .args(["-name", "sandbox-0123,debug-threads=on"])
        .args(["-machine", machine, "-cpu", "max", "-m", "64M"])
        .args(["-vga", "none", "-no-user-config", "-nodefaults"])
        .args(["-nographic", "--no-reboot", "-S", "-sandbox"])
        .arg("on,obsolete=deny,spawn=deny,resourcecontrol=deny")
        .arg("-pidfile")
        .arg(node.path("pid"))
        .stderr(Stdio::piped());
    let (child, mut qmp) = start(command, &node.path("qmp.sock"));
    let pid = child.id();

    assert_eq!(
        std::fs::read_link(format!("/proc/{pid}/exe")).unwrap(),
        std::fs::canonicalize(QEMU).unwrap()
    );
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(
        command_line.starts_with(format!("{QEMU}\0-name\0").as_bytes()),
        "argv[0] is the real path"
    );
    let pidfile = std::fs::read_to_string(node.path("pid")).unwrap();
    assert_eq!(pidfile.trim(), pid.to_string());

    let sets = qmp.ask("query-fdsets", json!({}));
    let set = &sets.as_array().unwrap()[0];
    assert_eq!(set["fdset-id"], 1_000_000, "{sets}");
    assert_eq!(set["fds"][0]["opaque"], "imagepuller", "{sets}");

    let disks = qmp.ask("query-block", json!({}));
    let disk = disks
        .as_array()
        .unwrap()
        .iter()
        .find(|disk| disk["inserted"]["node-name"] == "imagepuller")
        .unwrap_or_else(|| panic!("{machine}: {disks:#}"));
    assert_eq!(disk["inserted"]["ro"], true, "{disk:#}");
    assert_eq!(disk["inserted"]["drv"], "raw", "{disk:#}");
    assert_eq!(disk["inserted"]["image"]["virtual-size"], 512, "{disk:#}");
    let serial = json!({"path": "/machine/peripheral/imagepuller", "property": "serial"});
    assert_eq!(qmp.ask("qom-get", serial), "imagepuller");

    qmp.ask("quit", json!({}));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn real_qemu_attaches_the_disk_read_only() {
    if installed() {
        for machine in ["q35,accel=tcg", "pc,accel=tcg", "microvm,accel=tcg"] {
            assert_disk(machine);
        }
    }
}

#[test]
fn real_qemu_tells_its_version() {
    if !installed() {
        return;
    }
    let node = Node::new(QEMU);
    // The document is not even looked at.
    std::fs::remove_file(node.path("document.toml")).unwrap();
    let direct = Command::new(QEMU).arg("--version").output().unwrap();
    let wrapped = node.wrapper().arg("--version").output().unwrap();
    assert!(wrapped.status.success());
    assert_eq!(wrapped.stdout, direct.stdout);
    assert!(wrapped.stderr.is_empty());
}

#[test]
fn the_wrapper_tells_its_own_version_only_where_nothing_else_is_asked() {
    let node = Node::new("/bin/echo");
    let own = node.wrapper().arg("--wrapper-version").output().unwrap();
    let line = String::from_utf8(own.stdout).unwrap();
    let version = concat!("kata-configdev-qemu ", env!("CARGO_PKG_VERSION"), " (commit ");
    assert!(own.status.success() && line.starts_with(version), "{line}");
    let both = ["--wrapper-version", "--version"];
    let qemus = node.wrapper().args(both).output().unwrap();
    assert_eq!(qemus.stdout, b"--wrapper-version --version\n");
}
