//! What the container engine tells Kata's handlers: containerd's runtimes and CRI-O's.

use std::path::{Path, PathBuf};

use credential_sources::containerd_config::{self, MAX_CONTAINERD_CONFIG_BYTES};
use credential_sources::crio_config::{CrioConfig, MAX_CRIO_CONFIG_BYTES};

use super::finding::{Finding, Severity};
use super::handlers::Handler;
use super::node::Node;
use crate::namespace;
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

/// A runtime of an engine.
#[derive(Debug)]
pub struct Runtime {
    /// Whose runtime it is.
    pub engine: namespace::Engine,
    /// Its name, as it is.
    pub name: String,
    /// The file that has it, safe to show.
    pub source: String,
    /// The directory of Kata's configuration on the node, without a link in it.
    directory: Option<PathBuf>,
    /// Whether Kata sees the annotations of this project on a pod.
    pub passes_annotations: bool,
    /// Whether it leaves images to the guest.
    pub pulls_in_guest: bool,
    /// How long the creation of a container may take, in seconds, where the engine has such a
    /// limit and says so.
    pub create_timeout_secs: Option<u64>,
}

/// The runtimes of the node.
#[derive(Debug, Default)]
pub struct Engine {
    /// Of all engines that are configured.
    pub runtimes: Vec<Runtime>,
}

impl Engine {
    /// Reads every engine's configuration that is there.
    pub fn read(node: &Node, findings: &mut Vec<Finding>) -> Self {
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
        let directories = self.runtimes.iter().filter_map(|one| one.directory.clone());
        directories.collect()
    }

    /// The runtimes that have the configuration of `handler`.
    pub fn of<'a>(&'a self, handler: &'a Handler) -> impl Iterator<Item = &'a Runtime> {
        let is_it = |one: &&Runtime| one.directory.as_ref() == Some(&handler.directory);
        self.runtimes.iter().filter(is_it)
    }

    fn containerd(&mut self, node: &Node, path: &Path, findings: &mut Vec<Finding>) {
        let text = match node.read(path, MAX_CONTAINERD_CONFIG_BYTES) {
            Ok(text) => text,
            Err(fault) if fault.is_absent() => return,
            Err(fault) => {
                findings.push(unread(path, &fault.to_string()));
                return;
            }
        };
        let mut files = &**node;
        let config =
            containerd_config::read(&text, &path.to_string_lossy(), Some(path), &mut files);
        for fault in config.faults() {
            findings.push(unread(Path::new(&fault.source), &fault.text));
        }
        for (name, runtime) in config.runtimes() {
            self.runtimes.push(Runtime {
                engine: namespace::Engine::Containerd,
                name: name.clone(),
                source: runtime.source.clone(),
                directory: directory(node, runtime.config_path.as_deref()),
                passes_annotations: runtime.passes(ANNOTATION),
                pulls_in_guest: runtime
                    .snapshotter
                    .as_ref()
                    .is_some_and(|name| name.starts_with(NYDUS)),
                create_timeout_secs: None,
            });
        }
    }

    fn crio(&mut self, node: &Node, findings: &mut Vec<Finding>) {
        let (main, drop_ins) = (Path::new(CRIO.0), Path::new(CRIO.1));
        let listed = node.list(drop_ins).unwrap_or_default();
        let listed = listed.into_iter().filter(|entry| !entry.is_directory);
        let listed = listed.map(|entry| drop_ins.join(entry.name));
        let mut config = CrioConfig::default();
        for path in [main.to_owned()]
            .into_iter()
            .chain(listed)
            .take(MAX_CRIO_FILES)
        {
            match node.read(&path, MAX_CRIO_CONFIG_BYTES) {
                Ok(text) => {
                    if let Err(error) = config.add(&text) {
                        let finding = unread(&path, &error.message);
                        findings.push(finding.at_line(error.line));
                    }
                }
                Err(fault) if fault.is_absent() => {}
                Err(fault) => findings.push(unread(&path, &fault.to_string())),
            }
        }
        for (name, runtime) in config.runtimes {
            self.runtimes.push(Runtime {
                engine: namespace::Engine::CriO,
                name,
                source: CRIO.0.to_owned(),
                directory: directory(node, runtime.config_path.as_deref()),
                // All of a pod's, whatever allowed_annotations says: that is about CRI-O's own.
                passes_annotations: true,
                pulls_in_guest: runtime.pulls_in_guest == Some(true),
                create_timeout_secs: runtime.create_timeout_secs,
            });
        }
    }
}

/// The directory of a main file of Kata's: what a link leads to, as for Kata.
fn directory(node: &Node, config_path: Option<&str>) -> Option<PathBuf> {
    let real = node.real(Path::new(config_path?)).ok()?;
    real.parent().map(Path::to_owned)
}

fn unread(path: &Path, why: &str) -> Finding {
    let message = format!(
        "it is not looked at ({why}), so that nothing is known of the runtimes in it; correct it"
    );
    Finding::new("engine-unread", Severity::Warning, path, message)
}
