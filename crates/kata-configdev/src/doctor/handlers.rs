//! Kata's handlers: where their configurations are, and what is wrong there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use foreign_text::shown;
use node_installer::HostPath;
use node_installer::kata::standing::{self, Standing};

use super::engine::Engine;
use super::finding::{Finding, Severity};
use crate::node_root::NodeRoot;

/// Where Kata's packages and `kata-deploy` put configurations, in directories of any depth.
const PLACES: [&str; 5] = [
    "/opt/kata/share/defaults/kata-containers",
    "/usr/share/defaults/kata-containers",
    "/usr/local/share/defaults/kata-containers",
    "/usr/share/kata-containers/defaults",
    "/etc/kata-containers",
];

/// How deep directories are looked into: `kata-deploy` has two below the first.
const MAX_DEPTH: usize = 4;

/// The most directories that are looked into. Free to change; Kata has some thirty.
const MAX_DIRECTORIES: usize = 512;

/// The directory of drop-ins, which is no handler's.
const DROP_INS: &str = "config.d";

/// A handler.
#[derive(Debug)]
pub struct Handler {
    /// Its directory on the node, without a link in it.
    pub directory: PathBuf,
    /// What its files say.
    pub standing: Standing,
}

/// Every handler of the node: those at the usual places, and those whose directories `engine`
/// names.
pub fn find(node: &NodeRoot, engine: &Engine, findings: &mut Vec<Finding>) -> Vec<Handler> {
    let mut directories = Directories::default();
    for place in PLACES {
        directories.search(node, Path::new(place), MAX_DEPTH);
    }
    for place in engine.directories() {
        directories.search(node, &place, 0);
    }
    let handlers = directories.found.into_iter();
    let handlers: Vec<Handler> =
        handlers.filter_map(|directory| look_at(node, engine, directory, findings)).collect();
    findings.extend(without_wrapper(&handlers));
    if handlers.is_empty() {
        findings.push(Finding::new(
            "handler-none",
            Severity::Warning,
            PLACES[0],
            "no configuration*.toml of Kata is here, at its other usual places, or where the \
            container engine says; see that Kata is installed and --host-root is the node's /",
        ));
    }
    handlers
}

/// What is wrong with a handler's files, and whether it starts the wrapper.
fn look_at(
    node: &NodeRoot,
    engine: &Engine,
    directory: PathBuf,
    findings: &mut Vec<Finding>,
) -> Option<Handler> {
    let used = engine.mains_in(&directory);
    let path = HostPath::parse(directory.to_str().unwrap_or_default()).ok()?;
    let mut standing = match standing::look_at(node.path(), &path, &used) {
        Ok(standing) => standing?,
        Err(error) => {
            let message = format!("this handler is not looked at: {error}");
            findings.push(Finding::new("handler-unread", Severity::Warning, &directory, message));
            return None;
        }
    };
    let said = std::mem::take(&mut standing.findings);
    findings.extend(said.into_iter().map(Finding::from));
    Some(Handler { directory, standing })
}

/// The handlers that start QEMU by themselves, in one finding: a node has some twenty, most of
/// which nobody uses.
fn without_wrapper(handlers: &[Handler]) -> Option<Finding> {
    let starts_qemu = |handler: &&Handler| {
        let standing = &handler.standing;
        standing.wrapper.is_none() && standing.mains.iter().any(|main| main.starts_qemu)
    };
    let mut directories = handlers.iter().filter(starts_qemu).map(|one| &one.directory);
    let first = directories.next()?;
    let names = directories.filter_map(|path| Some(shown(path.file_name()?.as_encoded_bytes())));
    let names: Vec<String> = names.map(|name| name.to_string()).collect();
    let others = match names.is_empty() {
        true => String::new(),
        false => format!("; the same holds for {}", names.join(", ")),
    };
    let message = format!(
        "no file here or in config.d points hypervisor.qemu.path to kata-configdev-qemu, so that \
        its sandboxes get no configuration; install a drop-in if they should{others}"
    );
    let id = "handler-without-wrapper";
    Some(Finding::new(id, Severity::Note, first, message))
}

#[derive(Default)]
struct Directories {
    looked_into: BTreeSet<PathBuf>,
    found: BTreeSet<PathBuf>,
}

impl Directories {
    /// Finds the directories with a main file, at most `depth` below `path`.
    fn search(&mut self, node: &NodeRoot, path: &Path, depth: usize) {
        let Ok(path) = node.real(path) else {
            return;
        };
        let is_enough = self.looked_into.len() == MAX_DIRECTORIES;
        if is_enough || !self.looked_into.insert(path.clone()) {
            return;
        }
        for entry in node.list_all(&path).unwrap_or_default() {
            let name = entry.name;
            if !entry.is_directory {
                if name.starts_with("configuration") && name.ends_with(".toml") {
                    self.found.insert(path.clone());
                }
            } else if depth > 0 && name != DROP_INS {
                self.search(node, &path.join(name), depth - 1);
            }
        }
    }
}
