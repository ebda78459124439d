//! Why an entry holds, in the words of `docs/document.md`.

use puller_config::{RegistryHost, RegistryName};
use serde::Serialize;

/// An entry that matches as well, and why another one holds.
#[derive(Debug, Serialize)]
pub struct Loser {
    pub key: String,
    pub rule: &'static str,
    pub reason: &'static str,
}

impl Loser {
    pub fn of(key: &RegistryName) -> Self {
        Self {
            key: key.written(),
            rule: rule(Some(key)),
            // A literal with a port is never here: nothing beats it.
            reason: if key.is_literal() {
                "the name with the port is more specific"
            } else if key.is_any() {
                "every other name is more specific"
            } else {
                "a host's own name, and a longer suffix, are more specific"
            },
        }
    }
}

/// The kind of name by which the matcher decided.
pub fn rule(winner: Option<&RegistryName>) -> &'static str {
    match winner {
        None => "defaults",
        Some(name) if name.has_port() => "literal with port",
        Some(name) if name.is_literal() => "literal",
        Some(name) if name.is_any() => "everything",
        Some(_) => "suffix",
    }
}

/// The decision as a sentence.
pub fn why(winner: Option<&RegistryName>, host: &RegistryHost) -> String {
    let Some(name) = winner else {
        return format!("no entry matches {host}");
    };
    let key = name.written();
    let because = match rule(winner) {
        "literal with port" => "is this host's name with its port; nothing is more specific",
        "literal" => "is this host's name, on every port; no entry names it with its port",
        "everything" => "matches every host; no entry is more specific",
        _ => "is the longest suffix that this host is below; no entry names the host itself",
    };
    let mut text = format!("\"{key}\" {because}");
    if name.has_port() && host.port().is_none() {
        text.push_str(" (a host without a port is at port 443)");
    }
    text
}
