//! One sandbox: what it should have got, and what wrapper, shim and guest said of it.

pub mod journal;

use std::path::{Path, PathBuf};

use foreign_text::{one_line, shown};
use serde::Serialize;

use super::node::Node;
use super::set::Set;
use crate::choice;
use crate::namespace_path::NamespacePaths;
use crate::sandbox_id::SandboxId;
use crate::sandbox_spec::{self, Pod};
use crate::shared_image::record::{self, Life, Record};
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
        document: document(node, sets, id, bundle.as_deref())
            .unwrap_or_else(|why| format!("not known: {}", one_line(&why))),
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

/// Which document the sandbox has, by its record, or gets by its bundle.
fn document(
    node: &Node,
    sets: &[Set<'_>],
    id: &SandboxId,
    bundle: Option<&Path>,
) -> Result<String, String> {
    let mut records =
        run_roots(node, sets).filter_map(|run_root| record::read(&run_root, id).ok()?);
    if let Some(found) = records.next() {
        return Ok(of_record(&found));
    }
    let bundle = bundle.ok_or("the sandbox has no bundle on this node any more")?;
    let path = bundle.join(sandbox_spec::FILE_NAME);
    let spec = node
        .read(&path, sandbox_spec::MAX_SPEC_BYTES)
        .map_err(|fault| format!("the spec cannot be read: {fault}"))?;
    let pod = sandbox_spec::parse_pod(&spec)
        .map_err(|error| format!("the spec cannot be read: {error}"))?;
    Ok(match &pod.document {
        Some(value) if value.is_empty() => "none: the pod's annotation is empty".into(),
        Some(value) => format!("{}, by the pod's annotation", shown(value)),
        None => of_node(sets, &pod),
    })
}

/// What the wrapper wrote down when the sandbox started.
fn of_record(record: &Record) -> String {
    let path = |path: &Path| shown(path.as_os_str().as_encoded_bytes()).to_string();
    let mut text = match record.document() {
        Some(document) => path(document),
        None => "none".into(),
    };
    if let Some(fallback) = &record.fallback {
        text = format!("{}, until {text} is there", path(fallback));
    }
    if let Some(namespace) = &record.namespace {
        text.push_str(&format!(", of the namespace {namespace}"));
    }
    if record.only().is_some() {
        text.push_str(", without what its registries do not need");
    }
    format!("{text}, by the record beside its image")
}

/// What the settings have for `pod`.
fn of_node(sets: &[Set<'_>], pod: &Pod) -> String {
    let named = sets.iter().filter_map(|set| {
        let settings = set.settings()?;
        let path = |path: &Path| shown(path.as_os_str().as_encoded_bytes()).to_string();
        let by = path(&set.settings_file);
        let Some(paths) = NamespacePaths::of(settings).document else {
            return Some(format!("{}, by {by}", path(settings.document.as_ref()?)));
        };
        Some(match choice::namespace(settings, pod) {
            Ok(namespace) => format!("{}, by {by}", path(&paths.path(&namespace))),
            Err(error) => format!("none, by {by}: the wrapper fails to {error}"),
        })
    });
    let named: Vec<String> = named.collect();
    match named.is_empty() {
        true => "none: neither the pod nor settings name one".into(),
        false => named.join(", or "),
    }
}

/// Where the sets have their sandboxes, as seen from here.
fn run_roots<'a>(node: &'a Node, sets: &'a [Set<'_>]) -> impl Iterator<Item = PathBuf> + 'a {
    let settings = sets.iter().filter_map(Set::settings);
    settings.filter_map(|settings| node.seen(&settings.run_root).ok())
}

fn life(node: &Node, sets: &[Set<'_>], id: &SandboxId) -> &'static str {
    let lives = run_roots(node, sets).filter_map(|run_root| record::life(&run_root, id).ok());
    for life in lives {
        match life {
            Life::Held => return "it runs",
            Life::Released => return "it has ended",
            Life::Unknown => {}
        }
    }
    "not known: no image with a lock, as with the transport \"memory\""
}
