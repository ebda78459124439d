//! Which entry is in charge, and which others match.

use pull_route::Reason;
use puller_config::{Origin, RegistryName};
use serde::Serialize;

/// An entry that matches as well, and why another one holds.
#[derive(Debug, Serialize)]
pub struct Loser {
    pub key: String,
    pub rule: &'static str,
    pub reason: String,
}

impl Loser {
    /// The entry `key` of one document beside a winner of the same or another one.
    pub fn of((origin, key): (Origin, &RegistryName), winner: Option<Origin>) -> Self {
        let reason = if winner == Some(origin) {
            Reason::loses(key)
        } else {
            Reason::LosesToMeasured
        };
        Self {
            key: key.written(),
            rule: rule(Some(key)),
            reason: reason.to_string(),
        }
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
