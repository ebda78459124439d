//! A node on which all is well, until somebody breaks it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use test_command::Folder;

use crate::command::PROGRAM;

pub const HANDLER: &str = "opt/kata/share/defaults/kata-containers/runtimes/qemu-snp";
pub const MAIN: &str =
    "opt/kata/share/defaults/kata-containers/runtimes/qemu-snp/configuration-qemu-snp.toml";
pub const DROP_IN: &str =
    "opt/kata/share/defaults/kata-containers/runtimes/qemu-snp/config.d/zz-kata-configdev.toml";
pub const WRAPPER: &str = "usr/local/bin/kata-configdev-qemu";
pub const QEMU: &str = "opt/kata/bin/qemu-system-x86_64";
pub const SETTINGS: &str = "etc/kata-configdev/config.toml";
pub const DOCUMENT: &str = "etc/kata-configdev/imagepuller.toml";
pub const ALLOWED: &str = "etc/kata-configdev/documents";

pub const CONTAINERD: &str = "etc/containerd/config.toml";

const PASSWORD: &str = "hunter2-password";

pub struct Node(Folder);

impl Node {
    pub fn new() -> Self {
        let node = Self(Folder::with(&[ALLOWED]));
        node.put(
            MAIN,
            "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu-system-x86_64\"\n\
             kernel_params = \"agent.guest_components_procs=none\"\n\
             [agent.kata]\ndial_timeout = 90\n\
             [runtime]\ncreate_container_timeout = 600\nexperimental_force_guest_pull = true\n",
        );
        node.put(DROP_IN, "[hypervisor.qemu]\npath = \"/usr/local/bin/kata-configdev-qemu\"\n");
        node.program(WRAPPER);
        node.program(QEMU);
        node.put(
            SETTINGS,
            "qemu = \"/opt/kata/bin/qemu-system-x86_64\"\n\
             document = \"/etc/kata-configdev/imagepuller.toml\"\n\
             annotation-allow = [\"/etc/kata-configdev/documents\"]\nguest-pull = true\n",
        );
        node.put(
            DOCUMENT,
            &format!("[registries.\"a.corp\"]\nusername = \"robot\"\npassword = \"{PASSWORD}\"\n"),
        );
        node.put(
            CONTAINERD,
            "version = 3\n\
             [plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.kata-qemu-snp]\n\
             runtime_type = \"io.containerd.kata-qemu-snp.v2\"\n\
             pod_annotations = [\"io.katacontainers.*\"]\n\
             [plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.kata-qemu-snp.options]\n\
             ConfigPath = \"/opt/kata/share/defaults/kata-containers/runtimes/qemu-snp/\
             configuration-qemu-snp.toml\"\n",
        );
        node
    }

    pub fn root(&self) -> String {
        self.0.text("")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    /// Writes a file that only its owner can write; documents only their owner can read.
    pub fn put(&self, name: &str, text: &str) {
        self.0.file(name, text);
        let mode = if name.ends_with("imagepuller.toml") { 0o600 } else { 0o644 };
        self.0.set_mode(name, mode);
    }

    /// Replaces a part of a file.
    pub fn edit(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        assert!(text.contains(from), "{from}: {text}");
        self.put(name, &text.replace(from, to));
    }

    pub fn append(&self, name: &str, text: &str) {
        let before = fs::read_to_string(self.path(name)).unwrap();
        self.put(name, &format!("{before}{text}"));
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    pub fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), PermissionsExt::from_mode(mode)).unwrap();
    }

    /// A file in the handler's `config.d`.
    pub fn drop_in(&self, name: &str, text: &str) {
        self.put(&format!("{HANDLER}/config.d/{name}"), text);
    }

    fn program(&self, name: &str) {
        self.put(name, "#!/bin/sh\nexit 1\n");
        self.set_mode(name, 0o755);
    }

    /// Puts `kata-configdev` itself into the node. A process of its own copies it: what this one
    /// has open for writing, a child of another test inherits, and meanwhile nobody can start it.
    pub fn put_program(&self) {
        let program = self.path("kata-configdev");
        if fs::hard_link(PROGRAM.path, &program).is_ok() {
            return;
        }
        let copied = Command::new("cp").arg(PROGRAM.path).arg(program).status();
        assert!(copied.unwrap().success());
    }
}
