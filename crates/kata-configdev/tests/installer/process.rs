//! `kata-configdev install` and `uninstall`: their log, signals and exit codes, and what they may
//! do.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use test_command::{skipped_without_root, wait_until};

use crate::installer::machine::{DOCUMENT, DROP_INS, Machine, PASSWORD, WRAPPER, broken, document};

const PROGRAM: &str = env!("CARGO_BIN_EXE_kata-configdev");

/// The answer to a request for `path`.
pub fn get(address: SocketAddr, path: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    write!(client, "GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

/// `node-agent`, which ends when this is dropped.
pub struct Watching {
    process: Child,
    log: PathBuf,
    pub address: SocketAddr,
}

impl Watching {
    /// Starts it and waits for the end of the first pass, in which nothing fails.
    pub fn start(machine: &Machine) -> Self {
        let log = machine.path("log");
        let mut command = program(machine, "watch");
        command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let process = command.spawn().unwrap();
        let mut watching = Self { process, log, address: ([127, 0, 0, 1], 0).into() };
        wait_until("the first pass", || watching.log().contains(" is as it should be"));
        let log = watching.log();
        let (_, said) = log.split_once("answering health checks on ").unwrap();
        watching.address = said.lines().next().unwrap().parse().unwrap();
        watching
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub fn is_ready(&self) -> bool {
        get(self.address, "/readyz").starts_with("HTTP/1.1 200 ")
    }

    /// Asks it to end, and returns its log.
    pub fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
        self.log()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn run(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    assert_eq!(output.stdout, b"");
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(!log.contains(PASSWORD), "{log}");
    (output.status.code(), log)
}

/// The command `install`, `uninstall` or `watch` (which is `node-agent`).
pub fn program(machine: &Machine, command: &str) -> Command {
    fs::write(machine.path("installer.toml"), machine.configuration()).unwrap();
    let mut program = Command::new(PROGRAM);
    match command {
        "watch" => program.arg("node-agent"),
        command => program.arg(command),
    };
    program.arg("--config").arg(machine.path("installer.toml"));
    program
}

#[test]
fn the_program_says_what_it_did() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    let (code, log) = run(program(&machine, "install"));
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(log.lines().count(), 6, "{log}");
    assert!(log.contains("installed the document") && log.contains(DOCUMENT), "{log}");

    machine.mount_document(&broken());
    let mut json = program(&machine, "install");
    json.args(["--log-format", "json"]);
    let (code, log) = run(json);
    assert_eq!(code, Some(65), "{log}");
    let events: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 3, "{log}");
    assert!(events.iter().all(|event| event["level"] == "ERROR" && event["timestamp"].is_string()));
    assert!(
        events[1]["message"]
            .as_str()
            .unwrap()
            .contains("line 4: registries.\"broken.corp\".auth: "),
        "{log}"
    );

    let (code, log) = run(program(&machine, "uninstall"));
    assert_eq!((code, log.lines().count()), (Some(0), 6), "{log}");
    assert_eq!(machine.files(), [""; 0]);
    assert_eq!(run(program(&machine, "remove")).0, Some(64));
}

#[test]
fn the_last_line_says_what_a_removal_left() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    assert_eq!(run(program(&machine, "install")).0, Some(0));
    let handler = machine.host("opt/kata/qemu-snp");
    fs::rename(&handler, machine.path("away")).unwrap();
    let (code, log) = run(program(&machine, "uninstall"));
    assert_eq!(code, Some(69), "{log}");
    let last = log.lines().last().unwrap();
    let said = format!("/{WRAPPER}: /{} still starts the wrapper, and without", DROP_INS[0]);
    assert!(last.contains("ERROR failed to remove ") && last.contains(&said), "{log}");
}

#[test]
fn watching_ends_on_sigterm_and_leaks_nothing() {
    let mut machine = Machine::new();
    let watching = Watching::start(&machine);
    assert!(get(watching.address, "/healthz").starts_with("HTTP/1.1 200 "));

    machine.mount_document(&document("one"));
    wait_until("the document", || machine.host(DOCUMENT).exists());
    machine.mount_document(&broken());
    wait_until("the problems", || {
        let log = watching.log();
        log.contains("line 5: registries.\"broken.corp\".miror: ")
    });
    let answer = get(watching.address, "/readyz");
    assert!(answer.starts_with("HTTP/1.1 503 "));
    assert!(answer.contains("failed to accept the document"), "{answer}");
    assert!(!answer.contains(PASSWORD), "{answer}");

    let log = watching.stop();
    assert!(log.ends_with("asked to end; what is installed stays\n"), "{log}");
    assert!(!log.contains(PASSWORD), "{log}");
    assert!(machine.host(DOCUMENT).exists());
}

#[test]
fn privileged_root_without_any_capability_is_enough() {
    if skipped_without_root("the installer as the DaemonSet runs it") {
        return;
    }
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    for command in ["install", "uninstall"] {
        let program = program(&machine, command);
        let mut confined = Command::new("setpriv");
        confined
            .args([
                "--bounding-set=-all",
                "--inh-caps=-all",
                "--ambient-caps=-all",
                "--no-new-privs",
            ])
            .arg(program.get_program())
            .args(program.get_args());
        let (code, log) = run(confined);
        assert_eq!(code, Some(0), "{log}");
        assert_eq!(machine.host(DROP_INS[1]).exists(), command == "install");
    }
}

#[test]
fn privileged_a_mount_whose_directory_was_deleted_asks_for_a_restart() {
    if skipped_without_root("a mount of its own") {
        return;
    }
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    fs::create_dir(machine.path("deleted")).unwrap();
    let program = program(&machine, "watch");
    let mut confined = Command::new("unshare");
    confined
        .args([
            "--mount",
            "--",
            "sh",
            "-c",
            "mount --bind \"$0\" \"$1\" && rmdir \"$0\" && shift && exec \"$@\"",
        ])
        .arg(machine.path("deleted"))
        .arg(machine.host("opt/kata/qemu-snp"))
        .arg(program.get_program())
        .args(program.get_args());
    let (code, log) = run(confined);
    assert_eq!(code, Some(69), "{log}");
    assert!(
        log.contains("use /opt/kata/qemu-snp: it was deleted on the node after it was mounted"),
        "{log}"
    );
}
