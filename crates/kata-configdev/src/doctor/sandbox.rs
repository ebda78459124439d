//! One sandbox: what it should have got, and why the wrapper refused it.

mod document;

use std::path::{Path, PathBuf};

use foreign_text::shown;
use serde::Serialize;

use super::set::Set;
use crate::node_root::NodeRoot;
use crate::refusal::last;
use crate::sandbox_id::SandboxId;
use crate::settings::DEFAULT_RUN_ROOT;
use crate::shared_image::record::{self, Life};

/// Where containerd has bundles, a directory for each of its namespaces.
const BUNDLES: &str = "/run/containerd/io.containerd.runtime.v2.task";

/// Where CRI-O has them, below the id.
const CRIO_BUNDLES: [&str; 2] = [
    "/run/containers/storage/overlay-containers",
    "/var/lib/containers/storage/overlay-containers",
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
}

/// Joins what is known of the sandbox `id`.
#[must_use]
pub fn join(node: &NodeRoot, sets: &[Set<'_>], id: &SandboxId) -> Joined {
    let bundle = bundle(node, id);
    Joined {
        id: id.to_string(),
        document: document::of(node, sets, id, bundle.as_deref()),
        life: life(node, sets, id),
        refused: refused(node, sets, id),
        bundle: bundle.map(|path| shown(path.as_os_str().as_encoded_bytes()).to_string()),
    }
}

/// The bundle of the sandbox.
fn bundle(node: &NodeRoot, id: &SandboxId) -> Option<PathBuf> {
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
fn run_roots<'a>(node: &'a NodeRoot, sets: &'a [Set<'_>]) -> impl Iterator<Item = PathBuf> + 'a {
    let settings = sets.iter().filter_map(Set::settings);
    settings.filter_map(|settings| node.seen(&settings.run_root).ok())
}

/// What the wrapper left of its refusal; where settings cannot be read, at the usual place.
fn refused(node: &NodeRoot, sets: &[Set<'_>], id: &SandboxId) -> Option<String> {
    let usual = node.seen(Path::new(DEFAULT_RUN_ROOT)).ok();
    run_roots(node, sets).chain(usual).find_map(|run_root| last::line(&run_root, id))
}

fn life(node: &NodeRoot, sets: &[Set<'_>], id: &SandboxId) -> &'static str {
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
