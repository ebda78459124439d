//! One sandbox: what it should have got, and what wrapper, shim and guest said of it.

pub mod journal;

use std::path::{Path, PathBuf};

use foreign_text::{one_line, shown};
use serde::Serialize;

use super::node::Node;
use super::set::Set;
use crate::sandbox_id::SandboxId;
use crate::sandbox_spec;
use crate::shared_image::record::{self, Life};
use journal::{Entry, Journal};

/// Where containerd has bundles, a directory for each of its namespaces.
const BUNDLES: &str = "/run/containerd/io.containerd.runtime.v2.task";

/// Where CRI-O has them, below the id.
const CRIO_BUNDLES: [&str; 2] = [
    "/run/containers/storage/overlay-containers",
    "/var/lib/containers/storage/overlay-containers",
];

/// The most lines of each part that are told, the last ones.
pub const MAX_LINES: usize = 10;

/// The longest line that is told. Free to change; an error of runtime-rs has a stack backtrace.
pub const MAX_LINE_CHARS: usize = 1500;

/// What the wrapper's lines have in them.
const WRAPPER: &str = "kata-configdev-qemu:";

/// What a shim's line has in it that hands on what the guest answered.
const GUEST: [&str; 5] = [
    "failed to pull",
    "the node has no configuration",
    "rpc status",
    "ttrpc err",
    "blocked by policy",
];

/// What is known of a sandbox. All of it is safe to show.
#[derive(Debug, Default, Serialize)]
pub struct Joined {
    /// Its id.
    pub id: String,
    /// Its bundle on the node; `None` once it is gone.
    pub bundle: Option<String>,
    /// Which document it gets, and who says so.
    pub document: String,
    /// Whether its hypervisor runs, as far as the lock beside its image tells.
    pub life: &'static str,
    /// Why there are no lines, if so.
    pub no_log: Option<String>,
    /// What the wrapper said.
    pub wrapper: Vec<String>,
    /// What the shim and the container engine said.
    pub shim: Vec<String>,
    /// What the guest answered, in the shim's words.
    pub guest: Vec<String>,
}

/// Joins what is known of the sandbox `id`.
#[must_use]
pub fn join(node: &Node, sets: &[Set<'_>], id: &SandboxId) -> Joined {
    let bundle = bundle(node, id);
    let mut joined = Joined {
        id: id.to_string(),
        document: document(node, sets, bundle.as_deref()),
        life: life(node, sets, id),
        bundle: bundle.map(|path| shown(path.as_os_str().as_encoded_bytes()).to_string()),
        ..Joined::default()
    };
    match Journal::of(node).and_then(Journal::read) {
        Ok(entries) => joined.add_log(&entries, id),
        Err(why) => joined.no_log = Some(why),
    }
    joined
}

impl Joined {
    /// Takes the lines about the sandbox, of which the newest comes first.
    pub fn add_log(&mut self, entries: &[Entry], id: &SandboxId) {
        for entry in entries
            .iter()
            .filter(|entry| entry.text.contains(id.as_str()))
        {
            let lines = if entry.text.contains(WRAPPER) {
                &mut self.wrapper
            } else if GUEST.iter().any(|part| entry.text.contains(part)) {
                &mut self.guest
            } else if entry.is_error() {
                &mut self.shim
            } else {
                continue;
            };
            let line = one_line(&entry.text).up_to(MAX_LINE_CHARS).to_string();
            // Both Kata and the container engine log an error.
            if lines.len() < MAX_LINES && !lines.contains(&line) {
                lines.push(line);
            }
        }
        for lines in [&mut self.wrapper, &mut self.shim, &mut self.guest] {
            lines.reverse();
        }
    }
}

/// The bundle of the sandbox.
fn bundle(node: &Node, id: &SandboxId) -> Option<PathBuf> {
    let namespaces = node.list_all(Path::new(BUNDLES)).unwrap_or_default();
    let of_containerd = namespaces
        .into_iter()
        .map(|namespace| Path::new(BUNDLES).join(namespace.name).join(id.as_str()));
    let of_crio = CRIO_BUNDLES
        .iter()
        .map(|above| Path::new(above).join(id.as_str()).join("userdata"));
    let mut all = of_containerd.chain(of_crio);
    all.find(|bundle| node.has_directory(bundle))
}

/// Which document a sandbox with this bundle gets.
fn document(node: &Node, sets: &[Set<'_>], bundle: Option<&Path>) -> String {
    let Some(bundle) = bundle else {
        return "not known: the sandbox has no bundle on this node any more".into();
    };
    let spec = node.read(
        &bundle.join(sandbox_spec::FILE_NAME),
        sandbox_spec::MAX_SPEC_BYTES,
    );
    let annotation = spec
        .map_err(|fault| fault.to_string())
        .and_then(|spec| sandbox_spec::annotation_in(&spec).map_err(|error| error.to_string()));
    match annotation {
        Err(why) => format!("not known: the spec cannot be read: {}", one_line(&why)),
        Ok(Some(value)) if value.is_empty() => "none: the pod's annotation is empty".into(),
        Ok(Some(value)) => format!("{}, by the pod's annotation", shown(&value)),
        Ok(None) => of_node(sets),
    }
}

fn of_node(sets: &[Set<'_>]) -> String {
    let named = sets.iter().filter_map(|set| {
        let document = set.settings()?.document.as_ref()?;
        let place = set.settings_file.as_os_str().as_encoded_bytes();
        let document = document.as_os_str().as_encoded_bytes();
        Some(format!("{}, by {}", shown(document), shown(place)))
    });
    let named: Vec<String> = named.collect();
    match named.is_empty() {
        true => "none: neither the pod nor settings name one".into(),
        false => named.join(", or "),
    }
}

fn life(node: &Node, sets: &[Set<'_>], id: &SandboxId) -> &'static str {
    let run_roots = sets
        .iter()
        .filter_map(Set::settings)
        .map(|settings| &settings.run_root);
    let lives = run_roots.filter_map(|run_root| {
        let real = node.real(run_root).ok()?;
        let here = node.host.join(real.strip_prefix("/").ok()?);
        record::life(&here, id).ok()
    });
    for life in lives {
        match life {
            Life::Held => return "it runs",
            Life::Released => return "it has ended",
            Life::Unknown => {}
        }
    }
    "not known: no image with a lock, as with the transport \"memory\""
}
