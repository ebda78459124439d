//! The proxies of a node's own programs, as Go reads them from the environment, as `[extra-env]`.
//!
//! Of `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` in upper and lower case the upper one counts where
//! both are there and it is not empty (`golang.org/x/net/http/httpproxy`). Nothing of a proxy is
//! ever shown: its address may hold a password.

use registry_config::{Document, RegistryHost, Secret};
use zeroize::Zeroizing;

use crate::entry_keys::{MAX_ESCAPE_BYTES, push_key};
use crate::registry_file::{Report, Written};
use crate::systemd_unit::{UnitName, Variables};

/// The variables, upper case first.
const VARIABLES: [[&str; 2]; 3] =
    [["HTTP_PROXY", "http_proxy"], ["HTTPS_PROXY", "https_proxy"], ["NO_PROXY", "no_proxy"]];

/// What curl and others read, and Go does not.
const ALL: [&str; 2] = ["ALL_PROXY", "all_proxy"];

/// What K3s and RKE2 put in front of variables that are for their containerd.
const CONTAINERD: &str = "CONTAINERD_";

/// Whose environment it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// One that pulls images itself.
    Engine,
    /// K3s or RKE2, which start one.
    K3s,
}

impl Program {
    /// The program that a unit starts.
    #[must_use]
    pub fn of_unit(unit: &UnitName) -> Self {
        let is_k3s = ["k3s", "rke2"].iter().any(|name| {
            let rest = unit.stem().strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        });
        if is_k3s { Self::K3s } else { Self::Engine }
    }

    /// Whether a variable is about proxies.
    #[must_use]
    pub fn wants(self, name: &str) -> bool {
        let bare = match self {
            Self::K3s => name.strip_prefix(CONTAINERD).unwrap_or(name),
            Self::Engine => name,
        };
        VARIABLES.iter().flatten().chain(&ALL).any(|known| *known == bare)
    }

    /// What is said where there are none.
    fn none(self) -> &'static str {
        match self {
            Self::Engine => {
                "sets none of HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in upper or lower case"
            }
            Self::K3s => {
                "sets none of HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in upper or lower case, with \
                CONTAINERD_ in front or without"
            }
        }
    }

    /// The variables as the engine has them.
    fn engines(self, variables: &Variables) -> Variables {
        let mut engines = variables.clone();
        if self == Self::K3s {
            engines.retain(|name, _| !name.starts_with(CONTAINERD));
            for (name, value) in variables {
                if let Some(bare) = name.strip_prefix(CONTAINERD) {
                    engines.insert(bare.to_owned(), value.clone());
                }
            }
        }
        engines
    }
}

/// Makes a document of variables. What they came from is `source`, and what is known about that
/// already, `report`.
#[must_use]
pub fn document(
    variables: &Variables,
    program: Program,
    source: &str,
    mut report: Report,
) -> Written {
    let variables = program.engines(variables);
    let length: usize = variables.values().map(|value| value.len()).sum();
    // Large enough from the start: a string that grows leaves copies of its secrets behind.
    let capacity = HEADER.len() + length * MAX_ESCAPE_BYTES + 128;
    let mut text = Zeroizing::new(String::with_capacity(capacity));
    for names in VARIABLES {
        let values = names.map(|name| variables.get(name).filter(|value| !value.is_empty()));
        let ([Some(value), other] | [None, other @ Some(value)]) = values else {
            continue;
        };
        if other.is_some_and(|other| *other != *value) {
            let text = format!("has no effect beside {}", names[0]);
            report.note(source, names[1], text);
        }
        if let Some(why) = refused(names[0], value) {
            report.lost(source, names[0], format!("left out: {why}"));
            continue;
        }
        if text.is_empty() {
            text.push_str(HEADER);
        }
        push_key(names[0], value, &mut text);
    }
    for name in ALL {
        if variables.get(name).is_some_and(|value| !value.is_empty()) {
            report.note(source, name, "has no part: programs in Go do not read it");
        }
    }
    let is_there = |name: &&str| variables.contains_key(*name);
    if report.faults.is_empty() && !VARIABLES.iter().flatten().any(is_there) {
        report.note(source, "", program.none());
    }
    let is_usable = report.faults.is_empty();
    Written { document: is_usable.then(|| Secret::from(text)), report }
}

const HEADER: &str = "[extra-env]\n";

/// Why a document cannot have a variable, without its value.
fn refused(name: &str, value: &str) -> Option<String> {
    let capacity = HEADER.len() + value.len() * MAX_ESCAPE_BYTES + 64;
    let mut text = Zeroizing::new(String::with_capacity(capacity));
    text.push_str(HEADER);
    push_key(name, value, &mut text);
    let checked = match Document::parse(text.as_bytes()) {
        Ok(checked) => checked,
        Err(problems) => {
            return problems.iter().next().map(|problem| problem.rule.to_string());
        }
    };
    let extra_env = &checked.document.extra_env;
    let proxies = [&extra_env.http_proxy, &extra_env.https_proxy];
    let mut hosts = proxies.into_iter().flatten().map(|proxy| proxy.host());
    hosts.any(is_loopback).then(|| {
        "the proxy listens on the node's loopback, where guests do not reach it; name an address \
        of the node"
            .to_owned()
    })
}

/// Whether a host is the machine itself.
fn is_loopback(host: &RegistryHost) -> bool {
    let name = host.name();
    let address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    match address {
        Ok(address) => address.is_loopback(),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}
