//! The device in a process of its own, as it is meant to run.
#![allow(dead_code, reason = "not every test file uses all of it")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use test_command::example;

pub mod vm;

/// Only a machine that is very busy, or a fault, takes so long.
pub const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(10);

/// `bytes` bytes in which every sector differs.
pub fn image(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n / 512 * 31 + n % 251) as u8).collect()
}

/// A process with its output in a file, killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    pub fn start(name: &'static str, folder: &Path, mut command: Command) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).expect("a log file");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a log file")).stderr(file);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("failed to start {name} ({command:?}): {error}"));
        Self { name, child, log }
    }

    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the output has `text`, and gives all of it.
    pub fn wait_for(&mut self, text: &str) -> String {
        self.wait(|process| {
            let ended = process.status();
            let output = process.output();
            let found = output.contains(text);
            assert!(found || ended.is_none(), "{} ended without {text:?}: {output}", process.name);
            found.then_some(output)
        })
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> String {
        self.wait(|process| process.status().map(|_| process.output()))
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child")
    }

    fn wait<T>(&mut self, look: impl Fn(&mut Self) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(start.elapsed() < LIMIT, "{} takes too long: {}", self.name, self.output());
            sleep(POLL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `examples/serve` with an image.
#[derive(Debug)]
pub struct Disk {
    process: Process,
    folder: TempDir,
}

impl Disk {
    pub fn serve(image: &[u8], options: &[&str]) -> Self {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("image");
        fs::write(&path, image).expect("an image");
        let mut command = Command::new(example("serve"));
        command.arg(folder.path().join("socket")).arg(path).args(options);
        Self { process: Process::start("disk", folder.path(), command), folder }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn output(&self) -> String {
        self.process.output()
    }

    pub fn wait_for(&mut self, text: &str) -> String {
        self.process.wait_for(text)
    }

    /// Waits for its end, and requires that it said `text`; gives all of it.
    pub fn ended_after(&mut self, text: &str) -> String {
        let output = self.process.ended();
        assert!(output.contains(text), "{text:?} is missing in {output}");
        output
    }
}
