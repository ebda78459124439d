//! What the container engine tells Kata's handlers: containerd's runtimes and CRI-O's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use credential_sources::containerd_config::{self, MAX_CONTAINERD_CONFIG_BYTES};
use credential_sources::crio_config::{CrioConfig, MAX_CRIO_CONFIG_BYTES};
use foreign_text::shown;

use super::finding::{Finding, Severity};
use super::handlers::Handler;
use super::node::is_denied;
use crate::namespace;
use crate::node_root::NodeRoot;
use crate::sandbox_spec::ANNOTATION;

/// Where containerd's configuration is: its own, that of k3s and RKE2, of k0s and MicroK8s.
const CONTAINERD: [&str; 5] = [
    "/etc/containerd/config.toml",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "/etc/k0s/containerd.toml",
    "/var/snap/microk8s/current/args/containerd.toml",
];

/// CRI-O's configuration, and the directory of the files behind it.
const CRIO: (&str, &str) = ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d");

/// The most files of that directory. Free to change.
const MAX_CRIO_FILES: usize = 64;

/// What the name of the snapshotter begins with that leaves images to the guest; `kata-deploy` has
/// one with more behind it.
const NYDUS: &str = "nydus";

/// Where Kata's shim looks for its main file if nobody names one, in this order: what each of its
/// two runtimes has built in (Kata's `config-settings.go.in`, its packages' `CONFIG_PATH`, and
/// `kata-types`' `default.rs`). Which of them a shim is of, its name does not say.
const KATA_DEFAULTS: [&str; 6] = [
    "/etc/kata-containers/configuration.toml",
    "/usr/share/defaults/kata-containers/configuration.toml",
    "/opt/kata/share/defaults/kata-containers/configuration.toml",
    "/etc/kata-containers/runtime-rs/configuration.toml",
    "/usr/share/defaults/kata-containers/runtime-rs/configuration.toml",
    "/opt/kata/share/defaults/kata-containers/runtime-rs/configuration.toml",
];

/// What the names of Kata's shims begin with: as a type of containerd, and as a program.
const KATA_SHIMS: [&str; 2] = ["io.containerd.kata", "containerd-shim-kata"];

/// A runtime of an engine.
#[derive(Debug)]
pub struct Runtime {
    /// Whose runtime it is.
    pub engine: namespace::Engine,
    /// Its name, as it is.
    pub name: String,
    /// The file that has it, safe to show.
    pub source: String,
    /// The line there, from 1; 0 where it is not known.
    pub line: usize,
    /// The main file of Kata's configuration on the node, without a link in it.
    main: Option<PathBuf>,
    /// Whether Kata does not see this project's annotation of a pod.
    pub loses_annotation: bool,
    /// Whether it leaves images to the guest.
    pub pulls_in_guest: bool,
}

impl Runtime {
    /// The file that has it, with the line where that is known.
    #[must_use]
    pub fn place(&self) -> String {
        match self.line {
            0 => self.source.clone(),
            line => format!("{}:{line}", self.source),
        }
    }
}

/// The runtimes of the node.
#[derive(Debug, Default)]
pub struct Engine {
    /// Of all engines that are configured.
    pub runtimes: Vec<Runtime>,
    /// Whether there is a file of them that could not be read, so that there may be more.
    is_partial: bool,
}

impl Engine {
    /// Reads every engine's configuration that is there.
    pub fn read(node: &NodeRoot, findings: &mut Vec<Finding>) -> Self {
        let mut engine = Self::default();
        for path in CONTAINERD {
            engine.containerd(node, Path::new(path), findings);
        }
        engine.crio(node, findings);
        engine
    }

    /// The directories of Kata's configurations.
    #[must_use]
    pub fn directories(&self) -> Vec<PathBuf> {
        let mains = self.runtimes.iter().filter_map(|one| one.main.as_ref());
        mains.filter_map(|main| Some(main.parent()?.to_owned())).collect()
    }

    /// The names of the main files in `directory` that runtimes use; empty where that is not known.
    #[must_use]
    pub fn mains_in(&self, directory: &Path) -> BTreeSet<String> {
        if self.is_partial {
            return BTreeSet::new();
        }
        let mains = self.runtimes.iter().filter_map(|one| one.main.as_ref());
        let here = mains.filter(|main| main.parent() == Some(directory));
        here.filter_map(|main| Some(main.file_name()?.to_str()?.to_owned())).collect()
    }

    /// The runtimes that have the configuration of `handler`.
    pub fn of<'a>(&'a self, handler: &'a Handler) -> impl Iterator<Item = &'a Runtime> {
        let is_it = |one: &&Runtime| {
            let directory = one.main.as_ref().and_then(|main| main.parent());
            directory == Some(&*handler.directory)
        };
        self.runtimes.iter().filter(is_it)
    }

    fn containerd(&mut self, node: &NodeRoot, path: &Path, findings: &mut Vec<Finding>) {
        let text = match node.read(path, MAX_CONTAINERD_CONFIG_BYTES) {
            Ok(text) => text,
            Err(fault) if fault.is_absent() => return,
            Err(fault) if is_denied(&fault) => {
                self.is_partial = true;
                return;
            }
            Err(fault) => {
                self.unread(findings, path, &fault.to_string(), 0);
                return;
            }
        };
        let mut files = node;
        let (runtimes, report) = containerd_config::runtimes(text, path, &mut files);
        for fault in &report.faults {
            self.unread(findings, Path::new(&fault.source), &fault.text, 0);
        }
        for (name, runtime) in runtimes {
            self.runtimes.push(Runtime {
                engine: namespace::Engine::Containerd,
                name,
                line: 0,
                main: main_file(node, runtime.config_path.as_deref(), runtime.program.as_deref()),
                loses_annotation: !runtime.passes(ANNOTATION),
                pulls_in_guest: runtime
                    .snapshotter
                    .as_ref()
                    .is_some_and(|name| name.starts_with(NYDUS)),
                source: runtime.source,
            });
        }
    }

    fn crio(&mut self, node: &NodeRoot, findings: &mut Vec<Finding>) {
        let (main, drop_ins) = (Path::new(CRIO.0), Path::new(CRIO.1));
        let listed = node.list(drop_ins).unwrap_or_default();
        let listed = listed.into_iter().filter(|entry| !entry.is_directory);
        let listed = listed.map(|entry| drop_ins.join(entry.name));
        let mut config = CrioConfig::default();
        for path in [main.to_owned()].into_iter().chain(listed).take(MAX_CRIO_FILES) {
            let name = shown(path.as_os_str().as_encoded_bytes()).to_string();
            match node.read(&path, MAX_CRIO_CONFIG_BYTES) {
                Ok(text) => {
                    if let Err(error) = config.add(&text, &name) {
                        self.unread(findings, &path, &error.message, error.line);
                    }
                }
                Err(fault) if fault.is_absent() => {}
                Err(fault) if is_denied(&fault) => self.is_partial = true,
                Err(fault) => self.unread(findings, &path, &fault.to_string(), 0),
            }
        }
        for (name, runtime) in config.runtimes {
            let path = runtime.config_path;
            self.runtimes.push(Runtime {
                engine: namespace::Engine::CriO,
                name,
                main: main_file(
                    node,
                    path.as_ref().map(|placed| placed.value.as_str()),
                    runtime.program.as_deref(),
                ),
                line: path.as_ref().map_or(0, |placed| placed.line),
                source: path.map_or(runtime.source, |placed| placed.source),
                // It hands on all of a pod's, whatever allowed_annotations says: that is about
                // CRI-O's own.
                loses_annotation: false,
                pulls_in_guest: runtime.pulls_in_guest == Some(true),
            });
        }
    }

    fn unread(&mut self, findings: &mut Vec<Finding>, path: &Path, why: &str, line: usize) {
        self.is_partial = true;
        let message = format!(
            "it is not looked at ({why}), so that nothing is known of the runtimes in it; \
            correct it"
        );
        let finding = Finding::new("engine-unread", Severity::Warning, path, message);
        findings.push(finding.at_line(line));
    }
}

/// The main file of Kata's that a runtime uses: the one that is named, else that of Kata's shim;
/// what a link leads to, as for Kata.
fn main_file(node: &NodeRoot, config_path: Option<&str>, program: Option<&str>) -> Option<PathBuf> {
    if let Some(named) = config_path.filter(|path| !path.is_empty()) {
        return node.real(Path::new(named)).ok();
    }
    let name = program?.rsplit('/').next()?;
    let is_kata = KATA_SHIMS.iter().any(|shim| name.starts_with(shim));
    let mut defaults = KATA_DEFAULTS.iter().filter(|_| is_kata);
    defaults.find_map(|path| node.real(Path::new(path)).ok())
}
