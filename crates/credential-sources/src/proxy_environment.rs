//! The proxies of a node's own programs, as Go reads them from the environment, as `[extra-env]`.
//!
//! Of `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` in upper and lower case the upper one counts where
//! both are there and it is not empty (`golang.org/x/net/http/httpproxy`). Nothing of a proxy is
//! ever shown: its address may hold a password.

use registry_config::{Document, ExtraEnv, RegistryHost};

use crate::registry_file::{Report, Written};
use crate::systemd_unit::Variables;

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
    pub fn of_unit(unit: &str) -> Self {
        let is_k3s = ["k3s", "rke2"].iter().any(|name| {
            let rest = unit.trim_end_matches(".service").strip_prefix(name);
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
    let mut config = Document::default();
    for names in VARIABLES {
        let values = names.map(|name| variables.get(name).filter(|value| !value.is_empty()));
        let ([Some(value), other] | [None, other @ Some(value)]) = values else {
            continue;
        };
        if other.is_some_and(|other| *other != *value) {
            let text = format!("has no effect beside {}", names[0]);
            report.note(source, names[1], text);
        }
        match with(&config.extra_env, names[0], value) {
            Ok(extra_env) => (config.extra_env, config.has_extra_env) = (extra_env, true),
            Err(why) => report.lost(source, names[0], format!("left out: {why}")),
        }
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
    Written::of(&config, report)
}

/// The variables with one more.
///
/// # Errors
///
/// Why a document cannot have it, without its value.
fn with(extra_env: &ExtraEnv, name: &str, value: &str) -> Result<ExtraEnv, String> {
    let mut extra_env = extra_env.clone();
    let proxy = extra_env.set(name, value).map_err(|rule| rule.to_string())?;
    if proxy.is_some_and(|proxy| is_loopback(proxy.host())) {
        let why = "the proxy listens on the node's loopback, where guests do not reach it; name \
            an address of the node";
        return Err(why.to_owned());
    }
    Ok(extra_env)
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
