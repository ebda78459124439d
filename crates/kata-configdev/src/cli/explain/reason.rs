//! Which entry is in charge, and which others match.

use pull_route::{EntryName, Reason};
use registry_config::{Origin, RegistryName};
use serde::Serialize;

/// An entry that matches as well, and why another one holds.
#[derive(Debug, Serialize)]
pub struct Loser {
    pub key: String,
    pub rule: &'static str,
    pub reason: String,
}

impl Loser {
    /// The entry `key` of one document beside those of which something holds.
    pub fn of((origin, key): (Origin, &RegistryName), winners: &[&EntryName]) -> Self {
        let is_same = |winner: &&EntryName| winner.origin() == Some(origin);
        let reason =
            if winners.iter().any(is_same) { Reason::loses(key) } else { Reason::LosesToMeasured };
        Self { key: key.written(), rule: rule(Some(key)), reason: reason.to_string() }
    }
}

/// The kind of name by which the matcher decided.
pub fn rule(winner: Option<&RegistryName>) -> &'static str {
    match winner {
        None => "defaults",
        Some(name) if name.repositories().is_some() => "repositories",
        Some(name) if name.has_port() => "literal with port",
        Some(name) if name.is_literal() => "literal",
        Some(name) if name.is_any() => "everything",
        Some(_) => "suffix",
    }
}
