//! All that ends a pull, or the boot before it, in one table.
//!
//! The limits are in several places, each with a default of its own, and the shortest one wins. Times
//! and defaults are those of Kata 4.1.0 and Kubernetes 1.26 and later.

mod kata;
mod kubelet;
mod order;

use std::time::Duration;

use foreign_text::shown;
use serde::{Serialize, Serializer};

use super::engine::Engine;
use super::finding::Finding;
use super::node::Node;
use super::set::Set;
use crate::settings::Origin;

/// What a limit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ends {
    /// The wait for a container with all its pulls.
    Pull,
    /// The guest's start, before anything is pulled.
    Boot,
    /// Something else that a pull meets.
    Other,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Timeout {
    /// The handler's directory, safe to show; `None` where it holds for all of them.
    pub handler: Option<String>,
    /// Who gives up.
    pub who: &'static str,
    /// The key, as its file has it.
    pub key: &'static str,
    /// How long it waits, in seconds.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub limit: Duration,
    /// What it ends.
    pub ends: Ends,
    /// The file, safe to show; `None` for a default.
    pub path: Option<String>,
    /// The line, from 1; 0 where it is not known.
    pub line: usize,
    /// What follows.
    pub then: &'static str,
}

/// The limits of the node, and of each handler of `sets`.
pub fn check(
    node: &Node,
    engine: &Engine,
    sets: &[Set<'_>],
    findings: &mut Vec<Finding>,
) -> Vec<Timeout> {
    let kubelet = kubelet::limit(node, findings);
    let mut timeouts: Vec<Timeout> = kubelet.iter().cloned().chain(ours()).collect();
    for set in sets {
        timeouts.extend(of_providers(set));
        for handler in &set.handlers {
            let of_handler = kata::limits(engine, handler);
            order::check(kubelet.as_ref(), &of_handler, handler, set, findings);
            timeouts.extend(of_handler);
        }
    }
    timeouts
}

/// The key of [`of_providers`].
const PROVIDERS_DEADLINE: &str = "credential-providers.deadline-secs";

/// How long the wrapper of a set waits for credential providers, where it asks any.
fn of_providers(set: &Set<'_>) -> Option<Timeout> {
    let effective = set.effective.as_ref()?;
    let asked = &effective.settings.credential_providers;
    let is_asking = effective.settings.enabled && asked.is_wanted();
    let (path, line) = match effective.origins.of(PROVIDERS_DEADLINE) {
        Origin::BuiltIn => (None, 0),
        Origin::File { path, line } => {
            let path = shown(path.as_os_str().as_encoded_bytes()).to_string();
            (Some(path), *line)
        }
    };
    is_asking.then_some(Timeout {
        handler: None,
        who: "wrapper",
        key: PROVIDERS_DEADLINE,
        limit: asked.deadline,
        ends: Ends::Other,
        path,
        line,
        then: "QEMU starts without the credentials of those that have not answered",
    })
}

/// What holds in the guest unless its image says otherwise.
fn ours() -> [Timeout; 2] {
    let built_in = |key, secs, then| Timeout {
        handler: None,
        who: "imagepuller",
        key,
        limit: Duration::from_secs(secs),
        ends: Ends::Other,
        path: None,
        line: 0,
        then,
    };
    [
        built_in(
            "--stall-timeout",
            30,
            "a silent registry is asked again, until whoever waits gives up",
        ),
        built_in(
            "--linger",
            300,
            "a fetch that nobody waits for ends; until then the next request joins it",
        ),
    ]
}

fn seconds<S: Serializer>(limit: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(limit.as_secs_f64())
}

/// One line of the table.
impl std::fmt::Display for Timeout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let limit = format!("{} s", self.limit.as_secs_f64());
        write!(f, "{limit:>8}  {:<12} {:<26} ", self.who, self.key)?;
        match &self.path {
            None => f.write_str("built in")?,
            Some(path) if self.line == 0 => f.write_str(path)?,
            Some(path) => write!(f, "{path}:{}", self.line)?,
        }
        write!(f, ": {}", self.then)
    }
}
