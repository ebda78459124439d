//! What a running program serves is updated too: `attach --transport vhost-user`, and QEMU behind the
//! wrapper.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::command::{Folder, SECRETS, run, run_line, sha256sum};
use crate::update::{
    LIMIT, NEW, OLD, attach, document_in, image_path, long_document, node, socket_path, update,
};

/// `attach --transport vhost-user` in the background; ends with its VMM.
struct Served {
    child: Child,
    vmm: PathBuf,
    report: Value,
}

impl Served {
    fn start(folder: &Folder, name: &str, more: &[&str]) -> Self {
        let vmm = folder.path(name);
        let mut child = Command::new(env!("CARGO_BIN_EXE_kata-configdev"))
            .args(["attach", "--sandbox-id", "box-1", "--transport", "vhost-user"])
            .args(["--bundle", &folder.text("bundle"), "--settings", &folder.text("settings.toml")])
            .arg("--socket")
            .arg(&vmm)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut text = String::new();
        for line in BufReader::new(child.stdout.as_mut().unwrap()).lines() {
            text.push_str(&line.unwrap());
            if text.ends_with('}') {
                break;
            }
        }
        let report = serde_json::from_str(&text).unwrap_or(Value::Null);
        Self { child, vmm, report }
    }

    /// Connects as a VMM and goes away; gives the exit code and standard error, which holds no
    /// secret.
    fn ended(self) -> (Option<i32>, String) {
        drop(UnixStream::connect(&self.vmm));
        let output = self.child.wait_with_output().unwrap();
        let events = String::from_utf8(output.stderr).unwrap();
        assert!(SECRETS.iter().all(|secret| !events.contains(secret)));
        (output.status.code(), events)
    }
}

#[test]
fn a_served_disk_is_updated_through_its_socket() {
    let folder = node("transport = \"vhost-user\"\n");
    let served = Served::start(&folder, "disk.sock", &[]);
    assert_eq!(served.report["size"], 64 << 10);
    let socket = socket_path(&folder);
    assert_eq!(socket.metadata().unwrap().mode() & 0o7777, 0o600);

    let updated = update(&folder, &["--config", &folder.text("new.toml"), "--json"]);
    updated.succeeds();
    // Of the same bytes a file would have.
    let same = folder.path("same.img");
    let packed =
        run(&["pack", "--config", &folder.text("new.toml"), "--output", same.to_str().unwrap()]);
    packed.ends(0);
    File::options().write(true).open(&same).unwrap().set_len(64 << 10).unwrap();
    assert_eq!(
        updated.json(),
        json!({
            "sandbox_id": "box-1",
            "transport": "vhost-user",
            "path": socket,
            "size": 64 << 10,
            "used": 512,
            "sha256": sha256sum(&same),
            "changed": true,
        })
    );
    let again = update(&folder, &["--config", &folder.text("new.toml"), "--json"]);
    assert_eq!(again.json()["changed"], false);

    folder.file("large.toml", long_document(70_000, "hunter2-token"));
    let refused = update(&folder, &["--config", &folder.text("large.toml")]);
    refused.fails(65, &["the disk 65536"]);

    // One process for one sandbox.
    let second = Served::start(&folder, "second.sock", &[]);
    let (code, events) = second.ended();
    assert_eq!(code, Some(69));
    assert!(events.contains("another process serves this sandbox"), "{events}");
    assert!(!folder.path("second.sock").exists());

    let (code, events) = served.ended();
    assert_eq!(code, Some(0), "{events}");
    assert_eq!(events.matches("the disk has new content").count(), 1, "{events}");
    let refused = update(&folder, &["--empty"]);
    refused.ends(69);
    refused.says(&["no process that serves one"]);

    // What it left does not keep the next one, and goes with detach.
    std::fs::remove_file(folder.path("disk.sock")).unwrap();
    let next = Served::start(&folder, "disk.sock", &["--capacity", "4K"]);
    assert_eq!(next.report["size"], 4096);
    assert_eq!(update(&folder, &["--empty"]).code, 0);
    assert_eq!(next.ended().0, Some(0));
    let settings = folder.text("settings.toml");
    let detached = run_line(&format!("detach --sandbox-id box-1 --settings {settings} --json"));
    assert_eq!(detached.json()["removed"], true);
    assert!(!socket.parent().unwrap().exists());
}

#[test]
fn a_file_and_a_served_disk_are_one_too_many() {
    let folder = node("transport = \"vhost-user\"\n");
    let served = Served::start(&folder, "disk.sock", &[]);
    let path = attach(&folder, &[]);
    let before = std::fs::read(&path).unwrap();
    let refused = update(&folder, &["--empty"]);
    refused.ends(69);
    refused.says(&["only one is what its guest reads"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let (_, events) = served.ended();
    assert!(!events.contains("new content"), "{events}");
}

/// A run directory whose path is longer than a socket's address can be.
#[test]
fn the_sockets_path_may_be_long() {
    let folder = node("transport = \"vhost-user\"\n");
    let long = folder.path(&"x".repeat(120));
    std::fs::create_dir(&long).unwrap();
    let root = long.to_str().unwrap();
    let served = Served::start(&folder, "disk.sock", &["--run-root", root]);
    let updated = run_line(&format!("update --sandbox-id box-1 --run-root {root} --empty"));
    updated.ends(0);
    assert_eq!(served.ended().0, Some(0));
}

#[test]
fn sweep_takes_the_socket_of_a_dead_process() {
    let folder = node("transport = \"vhost-user\"\n");
    let id = format!("test-socket-{}", std::process::id());
    let directory = folder.path("run/kata-containers/shared/initdata").join(&id);
    std::fs::create_dir_all(&directory).unwrap();
    let socket = directory.join("imagepuller.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    // A child that a neighbour has just forked may still have it.
    let start = Instant::now();
    while UnixStream::connect(&socket).is_ok() {
        assert!(start.elapsed() < LIMIT, "it still listens");
        sleep(Duration::from_millis(10));
    }
    let root = folder.text("run");
    let swept = run(&["sweep", "--run-root", &root, "--min-age", "0", "--json"]);
    assert_eq!(swept.json()["removed"], json!([id]));
    assert!(!directory.exists());
}

/// A session with QEMU's monitor. What `qemu-io` prints is in QEMU's own output, which it keeps
/// until its end.
struct Qemu {
    child: Child,
    monitor: BufReader<UnixStream>,
    output: PathBuf,
}

impl Qemu {
    /// Starts the wrapper as Kata does, and waits for the QEMU that it becomes.
    fn start(folder: &Folder) -> Self {
        let (socket, output) = (folder.path("qmp.sock"), folder.path("qemu.out"));
        let child = Command::new(env!("CARGO_BIN_EXE_kata-configdev-qemu"))
            .args(["-name", "sandbox-box-1", "-machine", "q35,accel=tcg"])
            .args(["-nodefaults", "-display", "none", "-S", "-qmp"])
            .arg(format!("unix:{},server=on,wait=off", socket.display()))
            .current_dir(folder.path("bundle"))
            .env("KATA_CONFIGDEV_CONFIG", folder.path("settings.toml"))
            .stdin(Stdio::null())
            .stdout(File::create(&output).unwrap())
            .spawn()
            .unwrap();
        let start = Instant::now();
        let monitor = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break BufReader::new(stream),
                Err(error) => assert!(start.elapsed() < LIMIT, "{error}"),
            }
            sleep(Duration::from_millis(10));
        };
        let mut qemu = Self { child, monitor, output };
        qemu.line();
        qemu.ask("qmp_capabilities", json!({}));
        qemu
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.monitor.read_line(&mut line).unwrap();
        serde_json::from_str(&line).expect("QEMU closed its monitor")
    }

    fn ask(&mut self, command: &str, arguments: Value) -> Value {
        let request = json!({"execute": command, "arguments": arguments}).to_string();
        // In one write: QEMU obeys "quit" at its last brace, and there would be nobody to write a
        // line end to.
        self.monitor.get_mut().write_all(request.as_bytes()).unwrap();
        loop {
            let answer = self.line();
            assert!(answer.get("error").is_none(), "{command}: {answer}");
            if let Some(answer) = answer.get("return") {
                return answer.clone();
            }
        }
    }

    /// Has QEMU read the whole disk through its own block layer.
    fn read_disk(&mut self) {
        let command = "qemu-io imagepuller \"read -v 0 65536\"";
        self.ask("human-monitor-command", json!({"command-line": command}));
    }

    /// Ends it; gives the disk as it was at each reading.
    fn readings(mut self) -> Vec<Vec<u8>> {
        self.ask("quit", json!({}));
        assert!(self.child.wait().unwrap().success());
        let text = std::fs::read_to_string(&self.output).unwrap();
        let mut readings: Vec<Vec<u8>> = Vec::new();
        // 00000010:  1f 8b 08 00 00 00 00 00 00 ff 01 47 00 b8 ff 5b  ...........G....
        for line in text.lines() {
            let Some((address, rest)) = line.split_once(":  ") else {
                continue;
            };
            if address == "00000000" {
                readings.push(Vec::new());
            }
            let bytes = rest.split(' ').take(16);
            let bytes = bytes.map(|byte| u8::from_str_radix(byte, 16).expect(line));
            readings.last_mut().expect(line).extend(bytes);
        }
        readings
    }
}

/// The whole way of the wrapper's transport "file": QEMU has the file open and reads the new
/// content from it.
#[test]
fn qemu_reads_what_was_updated() {
    let program = Path::new("/usr/bin/qemu-system-x86_64");
    if !program.exists() {
        return test_command::skip("no QEMU");
    }
    let folder = node(&format!("transport = \"file\"\nqemu = {program:?}\n"));
    let mut qemu = Qemu::start(&folder);
    let path = image_path(&folder);
    let inode = path.metadata().unwrap().ino();
    qemu.read_disk();
    for content in [&["--config", &folder.text("new.toml")][..], &["--empty"]] {
        let updated = update(&folder, content);
        updated.ends(0);
        qemu.read_disk();
    }
    assert_eq!(path.metadata().unwrap().ino(), inode);
    let readings = qemu.readings();
    let sizes: Vec<_> = readings.iter().map(Vec::len).collect();
    assert_eq!(sizes, [64 << 10; 3]);
    let documents: Vec<_> = readings.iter().map(|image| document_in(image)).collect();
    assert_eq!(documents, [OLD, NEW, ""]);
}

/// With the wrapper's default there is nothing that could be updated, and that is said.
#[test]
fn the_wrappers_sealed_image_is_told() {
    let program = Path::new("/usr/bin/qemu-system-x86_64");
    if !program.exists() {
        return test_command::skip("no QEMU");
    }
    let folder = node(&format!("qemu = {program:?}\n"));
    let qemu = Qemu::start(&folder);
    let refused = update(&folder, &["--config", &folder.text("new.toml")]);
    refused.ends(69);
    refused.says(&["\"memory\", seals images"]);
    assert!(qemu.readings().is_empty());
}
