//! What is wrong on a node, found without starting a sandbox.
//!
//! Everything is read below one directory that stands for the node's `/`; no link leads out of it,
//! nothing is written, and nothing is started. Foreign text is shown safely, and
//! no secret at all.
//!
//! Not here: what is wrong with Kata's own files (`node_installer::kata`, by which the installer is
//! ready or not), with the settings ([`crate::settings`]) and with a document (`registry-config`, as
//! `check` shows it). Each check is a file with one function that says its findings:
//!
//! - [`handlers`]: Kata's configurations. [`set`]: a wrapper, its settings, its handlers.
//! - [`wrapper`], [`settings`], [`qemu`], [`document`], [`namespaces`], [`annotation_documents`],
//!   in the order in which a sandbox needs them.
//! - [`engine`]: what containerd and CRI-O tell the handlers. [`annotations`]: whether a pod's
//!   reach Kata. [`guest_pull`]: whether anybody reads the disk. [`timeouts`]: whether Kata waits
//!   for a pull.
//! - [`plugins`]: the kubelet's. [`docker_config`]: what it pulls with beside them.
//!   `kubelet_flags`: what it was told. [`leftovers`]: of dead sandboxes. [`installation`]: whose
//!   the node is. [`sandbox`]: what is known of one.
//! - [`finding`]: what they say. [`node`]: what they look at.

pub mod annotation_documents;
pub mod annotations;
pub mod docker_config;
pub mod document;
pub mod engine;
pub mod finding;
pub mod guest_pull;
pub mod handlers;
pub mod installation;
mod kubelet_flags;
pub mod leftovers;
pub mod namespaces;
pub mod node;
pub mod plugins;
pub mod qemu;
pub mod sandbox;
pub mod set;
pub mod settings;
pub mod timeouts;
pub mod wrapper;

use std::path::Path;

use serde::Serialize;

use crate::node_root::NodeRoot;
use crate::sandbox_id::SandboxId;

use engine::Engine;
pub use finding::{Finding, Severity};
use sandbox::Joined;

/// What was found on a node.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The worst first, and among equals in the order in which a sandbox would meet them.
    pub findings: Vec<Finding>,
    /// What is known of the sandbox that was asked about.
    pub sandbox: Option<Joined>,
}

/// Looks at the node, and at one sandbox of it; `settings` names another settings file than each
/// wrapper's own.
#[must_use]
pub fn examine(node: &NodeRoot, settings: Option<&Path>, sandbox: Option<&SandboxId>) -> Report {
    let mut report = Report::default();
    let findings = &mut report.findings;
    findings.extend(node::other_than_root().map(|user| {
        let message = format!(
            "doctor runs as uid {user}, and does not look at what only root may read; run it as \
            root"
        );
        Finding::new("not-root", Severity::Warning, "/", message)
    }));
    let engine = Engine::read(node, findings);
    let handlers = handlers::find(node, &engine, findings);
    let mut sets = set::sets(node, &handlers, settings);
    for set in &mut sets {
        wrapper::check(node, set, findings);
        settings::check(node, set, findings);
        qemu::check(node, set, findings);
        document::check(node, set, findings);
        annotation_documents::check(node, set, findings);
        namespaces::check_engine(&engine, set, findings);
        annotations::check(&engine, set, findings);
        guest_pull::check(&engine, set, findings);
        timeouts::check(set, findings);
        plugins::check(node, set, findings);
        docker_config::check(node, set, findings);
    }
    leftovers::check(node, &sets, findings);
    installation::check(node, &sets, findings);
    report.sandbox = sandbox.map(|id| sandbox::join(node, &sets, id));
    findings.sort_by_key(|finding| finding.severity);
    report
}

impl Report {
    /// How many findings are that severe.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.severity == severity).count()
    }
}
