//! What a running QEMU reads behind the wrapper is updated.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::command::Folder;
use crate::update::{LIMIT, NEW, OLD, document_in, image_path, node, update};

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
