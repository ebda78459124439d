//! What a file is that is no document, and which command makes a document of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use credential_sources::containerd_config::MAX_CONTAINERD_CONFIG_BYTES;
use foreign_text::toml::Tree;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Another kind of file, as somebody gives one who has not met documents yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignKind {
    /// What it is.
    name: &'static str,
    /// The source of `import` that reads it.
    import: &'static str,
}

/// What of a manifest says whether `import` reads it.
#[derive(Deserialize)]
struct Manifest<'t> {
    #[serde(borrow)]
    kind: Cow<'t, str>,
}

const DOCKER: ForeignKind = kind("a docker configuration", "docker-config");
const SECRETS: ForeignKind = kind("a manifest with credentials for image pulls", "docker-config");
const KEYS: ForeignKind = kind("a manifest of Kubernetes", "decryption-secret");
const PRIVATE_KEY: ForeignKind = kind("a private key", "decryption-secret");
const K3S: ForeignKind = kind("a registries.yaml of K3s or RKE2", "registries-yaml");
const CONTAINERS: ForeignKind = kind("a registries.conf", "registries-conf");
const HOSTS: ForeignKind = kind("a hosts.toml of containerd", "certs.d");
const CONTAINERD: ForeignKind = kind("a configuration of containerd", "containerd-config");
const CDH: ForeignKind = kind("a configuration of the confidential data hub", "cdh");
const PROXIES: ForeignKind = kind("an environment with proxies", "proxy-environment");

/// The keys at the top of other files that are TOML, the more telling first.
const KEYS_OF_TOML: [(&str, ForeignKind); 11] = [
    ("registry", CONTAINERS),
    ("unqualified-search-registries", CONTAINERS),
    ("short-name-mode", CONTAINERS),
    ("host", HOSTS),
    ("server", HOSTS),
    ("plugins", CONTAINERD),
    ("kbc", CDH),
    ("image", CDH),
    ("HTTP_PROXY", PROXIES),
    ("HTTPS_PROXY", PROXIES),
    ("NO_PROXY", PROXIES),
];

/// What begins a line of the files that are neither JSON nor TOML, perhaps by a mistake.
const BEGINNINGS: [(&str, ForeignKind); 12] = [
    ("mirrors:", K3S),
    ("configs:", K3S),
    ("[[registry]]", CONTAINERS),
    ("[[registry.mirror]]", CONTAINERS),
    ("[host.", HOSTS),
    ("[plugins.", CONTAINERD),
    ("[plugins]", CONTAINERD),
    ("[kbc]", CDH),
    ("[image]", CDH),
    ("HTTP_PROXY=", PROXIES),
    ("HTTPS_PROXY=", PROXIES),
    ("NO_PROXY=", PROXIES),
];

/// The first lines of private keys.
const KEY_LINES: [&str; 4] = [
    "-----BEGIN PRIVATE KEY",
    "-----BEGIN RSA PRIVATE KEY",
    "-----BEGIN EC PRIVATE KEY",
    "-----BEGIN ENCRYPTED PRIVATE KEY",
];

/// The kinds of manifests that hold what `import` reads.
const MANIFESTS: [&str; 3] = ["Secret", "SecretList", "List"];

/// The longest text that is looked at as TOML, whose parser takes much memory; a longer one is
/// judged by its lines. As long as the longest of these files that is imported. Free to change.
const MAX_TOML_BYTES: usize = MAX_CONTAINERD_CONFIG_BYTES;

/// A document's own tables: what has one is a document, whatever else is in it.
const OWN_TABLES: [&str; 4] = ["registries", "extra-env", "decryption-keys", "resources"];

const fn kind(name: &'static str, import: &'static str) -> ForeignKind {
    ForeignKind { name, import }
}

impl ForeignKind {
    /// The kind of a file that is no valid document; `None` where nothing tells it.
    pub fn of(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?.trim_start_matches('\u{feff}');
        let found = if text.trim_start().starts_with('{') {
            Self::of_json(text)
        } else {
            let is_short = text.len() <= MAX_TOML_BYTES;
            match is_short.then(|| Tree::parse(text.as_bytes())) {
                Some(Ok(tree)) => Self::of_toml(&tree),
                _ => Self::of_lines(text),
            }
        };
        // A secret's type or its key says so.
        let is_docker = text.contains("dockerconfigjson") || text.contains("dockercfg");
        found.map(|kind| if kind == KEYS && is_docker { SECRETS } else { kind })
    }

    fn of_toml(tree: &Tree<'_>) -> Option<Self> {
        let has = |key: &str| tree.table().take(key).is_some();
        if OWN_TABLES.into_iter().any(has) {
            return None;
        }
        let mut known = KEYS_OF_TOML.into_iter();
        known.find_map(|(key, kind)| has(key).then_some(kind))
    }

    fn of_lines(text: &str) -> Option<Self> {
        // A document with a mistake may have anything in a value of several lines.
        let begins_table = |line: &str| {
            let name = line.strip_prefix('[').unwrap_or_default();
            OWN_TABLES.into_iter().any(|own| name.starts_with(own))
        };
        if text.lines().any(begins_table) {
            return None;
        }
        let first = text.lines().find(|line| !line.trim().is_empty());
        let first = first.unwrap_or_default();
        if KEY_LINES.iter().any(|known| first.starts_with(known)) {
            return Some(PRIVATE_KEY);
        }
        let kind = |line: &str| {
            let kind = line.strip_prefix("kind:")?.trim();
            Some(MANIFESTS.contains(&kind.trim_matches(['"', '\''])))
        };
        if text.lines().filter_map(kind).any(|is_read| is_read) {
            return Some(KEYS);
        }
        let begins = |beginning: &str| text.lines().any(|line| line.starts_with(beginning));
        let mut known = BEGINNINGS.into_iter();
        known.find_map(|(beginning, kind)| begins(beginning).then_some(kind))
    }

    fn of_json(text: &str) -> Option<Self> {
        let members: BTreeMap<String, IgnoredAny> = serde_json::from_str(text).ok()?;
        let has = |keys: &[&str]| keys.iter().any(|key| members.contains_key(*key));
        if has(&["auths", "credsStore", "credHelpers", "HttpHeaders"]) {
            Some(DOCKER)
        } else if has(&["apiVersion", "kind"]) {
            let manifest: Manifest<'_> = serde_json::from_str(text).ok()?;
            MANIFESTS.contains(&&*manifest.kind).then_some(KEYS)
        } else if has(&["kty"]) {
            Some(PRIVATE_KEY)
        } else {
            // What is left of a .dockercfg: hosts and their accounts.
            let is_host = |name: &String| name.contains('.') || name.contains("://");
            let is_hosts = !members.is_empty() && members.keys().all(is_host);
            is_hosts.then_some(DOCKER)
        }
    }

    /// What to tell who gave it as a document.
    pub fn told(self) -> String {
        let Self { name, import } = self;
        format!("this is {name}, not a document: `kata-configdev import {import}` makes one of it")
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn a_foreign_file_is_known_by_what_only_it_has() {
        for (text, kind) in [
            ("{\"auths\": {\"r.corp\": {\"auth\": \"x\"}}}", Some(DOCKER)),
            ("\u{feff}\n {\"credsStore\": \"desktop\"}", Some(DOCKER)),
            ("{\"https://r.corp\": {\"auth\": \"x\"}}", Some(DOCKER)),
            ("{\"kind\": \"Secret\", \"type\": \"kubernetes.io/dockerconfigjson\"}", Some(SECRETS)),
            ("{\"kty\": \"RSA\"}", Some(PRIVATE_KEY)),
            ("{}", None),
            ("{\"auths\": ", None),
            ("apiVersion: v1\nkind: Secret\ndata:\n  key: eA==\n", Some(KEYS)),
            ("---\nkind: Secret\ndata:\n  .dockerconfigjson: e30=\n", Some(SECRETS)),
            ("# k3s\nmirrors:\n  docker.io:\n", Some(K3S)),
            ("configs:\n", Some(K3S)),
            ("[[registry]]\nlocation = \"r.corp\"\n", Some(CONTAINERS)),
            ("unqualified-search-registries = [\"docker.io\"]\n", Some(CONTAINERS)),
            ("server = \"https://r.corp\"\n[host.\"https://m\"]\n", Some(HOSTS)),
            ("version = 2\n[plugins.\"io.containerd\"]\n", Some(CONTAINERD)),
            ("socket = \"x\"\n[kbc]\nname = \"cc_kbc\"\n", Some(CDH)),
            ("HTTPS_PROXY=http://proxy.corp:3128\n", Some(PROXIES)),
            ("-----BEGIN RSA PRIVATE KEY-----\n", Some(PRIVATE_KEY)),
            ("[registries.\"r.corp\"]\nusrname = \"mirrors:\"\n", None),
            // Lines of a value.
            (
                "[registries.\"r.corp\"]\nca-certs = \"\"\"\nkind: Secret\nmirrors:\n\
                 [host.\n\"\"\"\n",
                None,
            ),
            ("[registries.\"r.corp\"]\nusername = \nx = \"\"\"\nmirrors:\n", None),
            ("[image]\n[registries.\"r.corp\"]\nusrname = \"x\"\n", None),
            ("note = \"\"\"\n-----BEGIN RSA PRIVATE KEY-----\n\"\"\"\n", None),
            ("note = \"\"\"\n-----BEGIN RSA PRIVATE KEY-----\n", None),
            // No import reads those.
            ("apiVersion: apps/v1\nkind: DaemonSet\n", None),
            (r#"{"apiVersion": "v1", "kind": "Pod"}"#, None),
            (r#"{"apiVersion": "v1", "kind": 1}"#, None),
            (r#"{"apiVersion": "v1", "kind": "List"}"#, Some(KEYS)),
            ("apiVersion: v1\nkind: \"List\"\n", Some(KEYS)),
            ("HTTPS_PROXY=\"http://proxy.corp:3128\"\n", Some(PROXIES)),
            ("", None),
        ] {
            assert_eq!(ForeignKind::of(text.as_bytes()), kind, "{text}");
        }
        assert_eq!(ForeignKind::of(b"\xff"), None);
        let long = format!("[plugins.\"x\"]\n{}", "#\n".repeat(MAX_TOML_BYTES));
        assert_eq!(ForeignKind::of(long.as_bytes()), Some(CONTAINERD));
    }

    #[test]
    fn each_kind_names_a_command_that_is_there() {
        let all = BEGINNINGS.into_iter().chain(KEYS_OF_TOML);
        let all = all.map(|(_, kind)| kind);
        let command = crate::cli::Cli::command();
        let import = command.find_subcommand("import").unwrap();
        for kind in all.chain([DOCKER, SECRETS, KEYS, PRIVATE_KEY]) {
            assert!(import.find_subcommand(kind.import).is_some(), "{kind:?}");
        }
    }
}
