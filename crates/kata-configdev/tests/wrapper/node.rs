//! A node with settings, documents and one sandbox's bundle, below a temporary directory.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Stands in the documents of these tests and must never be seen anywhere else.
pub const PASSWORD: &str = "hunter2-node";

pub const ANNOTATION: &str = "io.katacontainers.config.runtime.imagepuller_config";

pub struct Node {
    dir: TempDir,
}

impl Node {
    /// A node whose QEMU is `qemu`, with the document [`Node::document`] and the allowed directory
    /// `allowed`.
    pub fn new(qemu: impl AsRef<Path>) -> Self {
        let node = Self { dir: tempfile::tempdir().unwrap() };
        for folder in ["bundle", "allowed", "forbidden"] {
            std::fs::create_dir(node.path(folder)).unwrap();
        }
        node.write("bundle/config.json", r#"{"ociVersion":"1.1.0"}"#);
        node.write("document.toml", node.document());
        node.set_qemu(qemu);
        node
    }

    /// Writes the settings, with `qemu` in them.
    pub fn set_qemu(&self, qemu: impl AsRef<Path>) {
        self.write(
            "settings.toml",
            format!(
                "qemu = {:?}\ndocument = {:?}\nannotation-allow = [{:?}]\n",
                qemu.as_ref(),
                self.path("document.toml"),
                self.path("allowed"),
            ),
        );
    }

    /// Adds to the settings.
    pub fn add_settings(&self, text: &str) {
        let settings = std::fs::read_to_string(self.path("settings.toml")).unwrap();
        self.write("settings.toml", settings + text);
    }

    pub fn document(&self) -> String {
        format!(
            "[registries.\"registry.corp.\"]\nusername = \"puller\"\npassword = \"{PASSWORD}\"\n"
        )
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
        self.set_mode(name, 0o600);
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

    /// Writes the sandbox's spec with `value` in the annotation.
    pub fn annotate(&self, value: impl AsRef<OsStr>) {
        let value = value.as_ref().to_str().unwrap();
        self.write(
            "bundle/config.json",
            format!(r#"{{"ociVersion":"1.1.0","annotations":{{"{ANNOTATION}":{value:?}}}}}"#),
        );
    }

    /// The wrapper as Kata's shims start it: in the bundle.
    pub fn wrapper(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kata-configdev-qemu"));
        self.place(&mut command);
        command
    }

    /// Gives `command` the directory and the environment that the wrapper gets.
    pub fn place(&self, command: &mut Command) {
        command
            .current_dir(self.path("bundle"))
            .env("KATA_CONFIGDEV_CONFIG", self.path("settings.toml"));
    }
}
