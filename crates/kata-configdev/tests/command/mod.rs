//! The built command `kata-configdev`, run in a folder of its own; no test lets a secret get out.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Everything in the documents of these tests that must never be printed; the last is base64 of
/// "puller:hunter2-auth".
pub const SECRETS: [&str; 6] = [
    "hunter2-password",
    "hunter2-token",
    "hunter2-identity",
    "hunter2-proxy",
    "hunter2-auth",
    "cHVsbGVyOmh1bnRlcjItYXV0aA==",
];

pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// Runs the program and requires that it prints no secret.
pub fn run(arguments: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_kata-configdev"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let run = Run {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    for secret in SECRETS {
        assert!(
            !run.stdout.contains(secret),
            "{secret} on stdout of {arguments:?}"
        );
        assert!(
            !run.stderr.contains(secret),
            "{secret} on stderr of {arguments:?}"
        );
    }
    run
}

pub struct Folder(pub TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().into()
    }

    /// Writes a file of mode 0600 and returns its path as text.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.set_mode(name, 0o600);
        self.text(name)
    }

    /// Writes a program of this mode. Another process does it: a child that a neighbour of this
    /// test has just forked has all our descriptors until its `exec`, and what somebody has open
    /// for writing cannot be executed ("text file busy").
    pub fn program(&self, name: &str, mode: &str, text: &str) {
        let written = Command::new("/bin/sh")
            .args(["-c", "printf %s \"$2\" >\"$0\" && chmod \"$1\" \"$0\""])
            .arg(self.path(name))
            .args([mode, text])
            .status();
        assert!(written.unwrap().success());
    }

    pub fn set_mode(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(mode)).unwrap();
    }
}
