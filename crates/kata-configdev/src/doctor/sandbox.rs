//! One sandbox: what it should have got, and what wrapper, shim and guest said of it.

mod document;
pub mod journal;

use std::path::{Path, PathBuf};

use foreign_text::{one_line, shown};
use serde::Serialize;

use super::node::Node;
use super::set::Set;
use crate::refusal::last;
use crate::sandbox_id::SandboxId;
use crate::settings::DEFAULT_RUN_ROOT;
use crate::shared_image::record::{self, Life};
use journal::{Entry, IDENTIFIERS, Journal};

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

/// Where containerd's log is that is not in the journal: that of k3s and of RKE2.
const LOGS: [&str; 2] = [
    "/var/lib/rancher/k3s/agent/containerd/containerd.log",
    "/var/lib/rancher/rke2/agent/containerd/containerd.log",
];

/// What the wrapper's lines have in them.
const WRAPPER: &str = "kata-configdev-qemu:";

/// What a shim's line has in it that hands on what the guest answered, or that it did not.
pub const GUEST: [&str; 5] = [
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
    /// Why the wrapper did not start it, where that was in the last day.
    pub refused: Option<String>,
    /// Why there are no lines, if so.
    pub no_log: Option<String>,
    /// What may have lines about it and was not looked at.
    pub not_searched: Vec<String>,
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
        document: document::of(node, sets, id, bundle.as_deref()),
        life: life(node, sets, id),
        refused: refused(node, sets, id),
        bundle: bundle.map(|path| shown(path.as_os_str().as_encoded_bytes()).to_string()),
        ..Joined::default()
    };
    match Journal::of(node).and_then(Journal::read) {
        Ok(found) => {
            joined.add_log(&found.entries, id);
            joined.not_searched.extend(found.cut);
            if joined.says_nothing() {
                let others =
                    format!("the journal's entries of others than {}", IDENTIFIERS.join(", "));
                joined.not_searched.push(others);
            }
        }
        Err(why) => joined.no_log = Some(why),
    }
    let logs = LOGS.iter().filter(|path| !node.is_missing(Path::new(path)));
    joined.not_searched.extend(logs.map(|path| (*path).to_owned()));
    joined
}

impl Joined {
    fn says_nothing(&self) -> bool {
        self.wrapper.is_empty() && self.shim.is_empty() && self.guest.is_empty()
    }

    /// Takes the lines about the sandbox, of which the newest comes first.
    pub fn add_log(&mut self, entries: &[Entry], id: &SandboxId) {
        for entry in entries.iter().filter(|entry| entry.text.contains(id.as_str())) {
            let lines = match speaker(&entry.text) {
                Some(Speaker::Wrapper) => &mut self.wrapper,
                Some(Speaker::Guest) => &mut self.guest,
                None if entry.is_error() => &mut self.shim,
                None => continue,
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

/// Who is quoted in a shim's line.
enum Speaker {
    Wrapper,
    Guest,
}

/// Whose words stand first: the guest repeats the wrapper's where the wrapper refused by disk, and
/// the wrapper may speak of a pull.
fn speaker(text: &str) -> Option<Speaker> {
    let guest = GUEST.iter().filter_map(|part| text.find(part)).min();
    // A path ends in its name where it could not be started.
    let mut named = text.match_indices(WRAPPER).map(|(at, _)| at);
    let wrapper = named.find(|at| !text[..*at].ends_with('/'));
    match (wrapper, guest) {
        (Some(wrapper), Some(guest)) if guest < wrapper => Some(Speaker::Guest),
        (Some(_), _) => Some(Speaker::Wrapper),
        (None, Some(_)) => Some(Speaker::Guest),
        (None, None) => None,
    }
}

/// The bundle of the sandbox.
fn bundle(node: &Node, id: &SandboxId) -> Option<PathBuf> {
    let namespaces = node.list_all(Path::new(BUNDLES)).unwrap_or_default();
    let of_containerd = namespaces
        .into_iter()
        .map(|namespace| Path::new(BUNDLES).join(namespace.name).join(id.as_str()));
    let of_crio =
        CRIO_BUNDLES.iter().map(|above| Path::new(above).join(id.as_str()).join("userdata"));
    let mut all = of_containerd.chain(of_crio);
    all.find(|bundle| node.has_directory(bundle))
}

/// Where the sets have their sandboxes, as seen from here.
fn run_roots<'a>(node: &'a Node, sets: &'a [Set<'_>]) -> impl Iterator<Item = PathBuf> + 'a {
    let settings = sets.iter().filter_map(Set::settings);
    settings.filter_map(|settings| node.seen(&settings.run_root).ok())
}

/// What the wrapper left of its refusal; where settings cannot be read, at the usual place.
fn refused(node: &Node, sets: &[Set<'_>], id: &SandboxId) -> Option<String> {
    let usual = node.seen(Path::new(DEFAULT_RUN_ROOT)).ok();
    run_roots(node, sets).chain(usual).find_map(|run_root| last::line(&run_root, id))
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
