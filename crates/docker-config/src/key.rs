//! Keys of docker's files, and the names that entries of the document have for the same.
//!
//! | key | name |
//! |---|---|
//! | `ghcr.io`, `https://ghcr.io`, `ghcr.io/`, `https://ghcr.io/v1/`, `ghcr.io/v2/` | `ghcr.io.` |
//! | `reg.corp:5000`, `192.0.2.1`, `[::1]:5000` | the same |
//! | `https://index.docker.io/v1/` and the other names of Docker Hub | `docker.io.` |
//! | `http://reg.corp` | `reg.corp.`; that alone does not allow plain HTTP |
//! | `quay.io/team`, `https://quay.io/v2/team/` | `quay.io/team`: some repositories |
//! | `https://reg.corp/v2`, `quay.io/Team` | none; `reg.corp.` would be wider |
//! | `https://index.docker.io/v1/access-token` | none; `docker login` keeps its own state there |
//! | `*.azurecr.io`, `*.corp:5000` | none; `.azurecr.io.` would be wider: every depth, every port |
//! | `a*.corp`, `*`, `reg.?orp` | none |
//!
//! `https://reg.corp/v2`, without the slash, is a path for kubelet and the registry itself for
//! podman, which is why it stands for neither.

use registry_config::{RegistryHost, RegistryName};

/// The versions of registries' interfaces as whole paths.
const VERSIONS: [&str; 2] = ["/v1", "/v2"];

/// Docker Hub's name in a document, and the paths under which `docker login` keeps what no registry
/// is to be sent.
const DOCKER_HUB: &str = "docker.io.";
const LOGIN_STATE: [&str; 2] = ["/access-token", "/refresh-token"];

/// What a key means to a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// One registry, or some of its repositories.
    Registry(RegistryName),
    /// Part of what a registry's entry would hold for.
    Wider {
        /// The name that holds for more.
        name: RegistryName,
        /// Why it does, as a fragment.
        why: &'static str,
    },
    /// Nothing that a document can say.
    Nothing(String),
}

/// Reads a key.
#[must_use]
pub fn meaning(key: &str) -> Meaning {
    if without_scheme(key).contains("://") {
        let why = "a docker key has no scheme but \"https://\" and \"http://\"";
        return Meaning::Nothing(why.to_owned());
    }
    let (host, path) = split(key);
    let has_path = !matches!(path, "" | "/");
    let name = match RegistryName::parse(host) {
        // Other programs know no suffixes, and to them a dot at the beginning means nothing.
        Ok(name) if name.is_literal() => name,
        Ok(_) => {
            return Meaning::Nothing("a docker key with a leading dot means no host".to_owned());
        }
        Err(reason) => return pattern(host, has_path, reason),
    };
    if !has_path {
        return Meaning::Registry(name);
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    if name.to_string() == DOCKER_HUB && LOGIN_STATE.contains(&path) {
        return Meaning::Nothing("docker login keeps its own state there".to_owned());
    }
    match RegistryName::parse(&format!("{host}{path}")) {
        Ok(name) if !VERSIONS.contains(&path) => Meaning::Registry(name),
        _ => Meaning::Wider {
            name,
            why: "what follows the host is no part of a repository's name, and an entry of the \
            host holds for all of its repositories",
        },
    }
}

/// Whether a key asks for plain HTTP.
#[must_use]
pub fn is_plain_http(key: &str) -> bool {
    key.starts_with("http://")
}

/// Whether a key is spelled as its host alone.
#[must_use]
pub fn is_bare(key: &str) -> bool {
    !key.contains('/')
}

/// How many bytes of a repository's name a key names; 0 where the key is for the whole registry,
/// `None` where it does not hold for that repository of the host.
pub(crate) fn reach(key: &str, host: &RegistryHost, repository: &str) -> Option<usize> {
    let (named, path) = split(key);
    // A pattern is no host.
    if RegistryHost::parse(named).ok()? != *host {
        return None;
    }
    if matches!(path, "" | "/") {
        return Some(0);
    }
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    let below = repository.strip_prefix(path)?;
    let is_whole = below.is_empty() || below.starts_with('/');
    (is_whole && !path.is_empty()).then_some(path.len())
}

/// Host and path; what is no part of either is left out.
fn split(key: &str) -> (&str, &str) {
    let rest = without_scheme(key);
    let (host, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    // As kubelet does: the version goes, the slash behind it stays.
    let path = match path.get(..4) {
        Some("/v1/" | "/v2/") => path.get(3..).unwrap_or_default(),
        _ => path,
    };
    (host, path)
}

fn without_scheme(key: &str) -> &str {
    key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key)
}

fn pattern(host: &str, has_path: bool, reason: registry_config::InvalidName) -> Meaning {
    if !host.contains(['*', '?', '[']) {
        return Meaning::Nothing(reason.to_string());
    }
    let why = if has_path {
        "it is a pattern for some repositories of hosts at one depth, and a document's suffix \
        holds for every repository, depth and port"
    } else {
        "it is a pattern for hosts at one depth, and a document's suffix holds for every depth and \
        port"
    };
    let parent = host.strip_prefix("*.");
    // A suffix has no port.
    let parent = parent.map(|parent| parent.split_once(':').map_or(parent, |(parent, _)| parent));
    let suffix = parent.and_then(|parent| RegistryName::parse(&format!(".{parent}")).ok());
    match suffix {
        Some(name) => Meaning::Wider { name, why },
        None => Meaning::Nothing("a document has no such pattern".to_owned()),
    }
}
