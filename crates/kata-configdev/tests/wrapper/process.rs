//! What the kernel says about a running process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::Signal;

/// An open descriptor: what it leads to and the kernel's notes about it (position, flags).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub target: PathBuf,
    pub notes: String,
}

impl Descriptor {
    /// The flags of `open(2)`, close-on-exec among them.
    pub fn flags(&self) -> u32 {
        let flags = self.notes.lines().find_map(|line| line.strip_prefix("flags:"));
        u32::from_str_radix(flags.unwrap().trim(), 8).unwrap()
    }
}

/// A program that takes QEMU's place, says that it runs, and waits for a line on its standard
/// input.
pub const WAITING_PROGRAM: &str = "#!/bin/sh\necho ready\nread line\nexit 7\n";

/// A child that runs the [waiting program](WAITING_PROGRAM).
pub struct Waiting {
    pub child: Child,
}

impl Waiting {
    /// Starts `command` and waits until the program in it runs.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        if line != "ready\n" {
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            panic!("the program did not start: {stderr}");
        }
        Self { child }
    }

    pub fn entry(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.child.id()).into()
    }

    /// The arguments behind the interpreter and the script's own name.
    pub fn arguments(&self) -> Vec<OsString> {
        strings(&self.entry("cmdline")).into_iter().skip(2).collect()
    }

    pub fn environment(&self) -> Vec<OsString> {
        strings(&self.entry("environ"))
    }

    pub fn directory(&self) -> PathBuf {
        std::fs::read_link(self.entry("cwd")).unwrap()
    }

    /// The lines of `/proc/PID/status` about signals.
    pub fn signals(&self) -> Vec<String> {
        let status = std::fs::read_to_string(self.entry("status")).unwrap();
        let lines = status.lines().filter(|line| line.starts_with("Sig"));
        // A count of queued signals is shared by the whole user.
        lines.filter(|line| !line.starts_with("SigQ")).map(String::from).collect()
    }

    /// Whether `signal` is in the set that `/proc/PID/status` calls `set`.
    pub fn has_signal(&self, set: &str, signal: Signal) -> bool {
        let signals = self.signals();
        let mask =
            signals.iter().find_map(|line| line.strip_prefix(set)?.strip_prefix(":\t")).unwrap();
        u64::from_str_radix(mask, 16).unwrap() & (1 << (signal.as_raw() - 1)) != 0
    }

    /// Every descriptor but the three standard ones, which are pipes of this test.
    pub fn descriptors(&self) -> BTreeMap<u32, Descriptor> {
        let mut descriptors = BTreeMap::new();
        for entry in std::fs::read_dir(self.entry("fd")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let number: u32 = name.parse().unwrap();
            if number > 2 {
                let target = std::fs::read_link(self.entry(&format!("fd/{name}"))).unwrap();
                let notes = std::fs::read_to_string(self.entry(&format!("fdinfo/{name}"))).unwrap();
                descriptors.insert(number, Descriptor { target, notes });
            }
        }
        descriptors
    }

    /// Lets the program end by itself; its exit status and what stood on standard error.
    pub fn finish(mut self) -> (ExitStatus, String) {
        // Fails where the program is gone already.
        let _ = self.child.stdin.take().unwrap().write_all(b"\n");
        let output = self.child.wait_with_output().unwrap();
        (output.status, String::from_utf8(output.stderr).unwrap())
    }
}

fn strings(path: &Path) -> Vec<OsString> {
    let bytes = std::fs::read(path).unwrap();
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    bytes.split(|byte| *byte == 0).map(|string| OsString::from_vec(string.to_vec())).collect()
}
