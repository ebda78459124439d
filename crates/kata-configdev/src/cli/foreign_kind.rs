//! What a file is that is no document, and which command makes a document of it.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;

/// Another kind of file, as somebody gives one who has not met documents yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignKind {
    /// What it is.
    name: &'static str,
    /// The source of `import` that reads it.
    import: &'static str,
}

const DOCKER: ForeignKind = kind("a docker configuration", "docker-config");
const SECRETS: ForeignKind = kind(
    "a manifest with credentials for image pulls",
    "docker-config",
);
const KEYS: ForeignKind = kind("a manifest of Kubernetes", "decryption-secret");
const PRIVATE_KEY: ForeignKind = kind("a private key", "decryption-secret");
const K3S: ForeignKind = kind("a registries.yaml of K3s or RKE2", "registries-yaml");
const CONTAINERS: ForeignKind = kind("a registries.conf", "registries-conf");
const HOSTS: ForeignKind = kind("a hosts.toml of containerd", "certs.d");
const CONTAINERD: ForeignKind = kind("a configuration of containerd", "containerd-config");
const CDH: ForeignKind = kind("a configuration of the confidential data hub", "cdh");
const PROXIES: ForeignKind = kind("an environment with proxies", "proxy-environment");

/// What begins a line of the files that are no JSON, the more telling first.
const BEGINNINGS: [(&str, ForeignKind); 21] = [
    ("-----BEGIN PRIVATE KEY", PRIVATE_KEY),
    ("-----BEGIN RSA PRIVATE KEY", PRIVATE_KEY),
    ("-----BEGIN EC PRIVATE KEY", PRIVATE_KEY),
    ("-----BEGIN ENCRYPTED PRIVATE KEY", PRIVATE_KEY),
    ("apiVersion:", KEYS),
    ("kind:", KEYS),
    ("mirrors:", K3S),
    ("configs:", K3S),
    ("[[registry]]", CONTAINERS),
    ("[[registry.mirror]]", CONTAINERS),
    ("unqualified-search-registries", CONTAINERS),
    ("short-name-mode", CONTAINERS),
    ("[host.", HOSTS),
    ("server =", HOSTS),
    ("[plugins.", CONTAINERD),
    ("[plugins]", CONTAINERD),
    ("[kbc]", CDH),
    ("[image]", CDH),
    ("HTTP_PROXY=", PROXIES),
    ("HTTPS_PROXY=", PROXIES),
    ("NO_PROXY=", PROXIES),
];

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
            let begins = |beginning: &str| text.lines().any(|line| line.starts_with(beginning));
            let mut known = BEGINNINGS.into_iter();
            known.find_map(|(beginning, kind)| begins(beginning).then_some(kind))
        };
        // A secret's type or its key says so.
        let is_docker = text.contains("dockerconfigjson") || text.contains("dockercfg");
        found.map(|kind| {
            if kind == KEYS && is_docker {
                SECRETS
            } else {
                kind
            }
        })
    }

    fn of_json(text: &str) -> Option<Self> {
        let members: BTreeMap<String, IgnoredAny> = serde_json::from_str(text).ok()?;
        let has = |keys: &[&str]| keys.iter().any(|key| members.contains_key(*key));
        if has(&["auths", "credsStore", "credHelpers", "HttpHeaders"]) {
            Some(DOCKER)
        } else if has(&["apiVersion", "kind"]) {
            Some(KEYS)
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
            (
                "{\"kind\": \"Secret\", \"type\": \"kubernetes.io/dockerconfigjson\"}",
                Some(SECRETS),
            ),
            ("{\"kty\": \"RSA\"}", Some(PRIVATE_KEY)),
            ("{}", None),
            ("{\"auths\": ", None),
            (
                "apiVersion: v1\nkind: Secret\ndata:\n  key: eA==\n",
                Some(KEYS),
            ),
            (
                "---\nkind: Secret\ndata:\n  .dockerconfigjson: e30=\n",
                Some(SECRETS),
            ),
            ("# k3s\nmirrors:\n  docker.io:\n", Some(K3S)),
            ("configs:\n", Some(K3S)),
            ("[[registry]]\nlocation = \"r.corp\"\n", Some(CONTAINERS)),
            (
                "unqualified-search-registries = [\"docker.io\"]\n",
                Some(CONTAINERS),
            ),
            (
                "server = \"https://r.corp\"\n[host.\"https://m\"]\n",
                Some(HOSTS),
            ),
            (
                "version = 2\n[plugins.\"io.containerd\"]\n",
                Some(CONTAINERD),
            ),
            ("socket = \"x\"\n[kbc]\nname = \"cc_kbc\"\n", Some(CDH)),
            ("HTTPS_PROXY=http://proxy.corp:3128\n", Some(PROXIES)),
            ("-----BEGIN RSA PRIVATE KEY-----\n", Some(PRIVATE_KEY)),
            ("[registries.\"r.corp\"]\nusrname = \"mirrors:\"\n", None),
            ("", None),
        ] {
            assert_eq!(ForeignKind::of(text.as_bytes()), kind, "{text}");
        }
        assert_eq!(ForeignKind::of(b"\xff"), None);
    }

    #[test]
    fn each_kind_names_a_command_that_is_there() {
        let all = BEGINNINGS.map(|(_, kind)| kind);
        let command = crate::cli::Cli::command();
        let import = command.find_subcommand("import").unwrap();
        for kind in all.into_iter().chain([DOCKER, SECRETS]) {
            assert!(import.find_subcommand(kind.import).is_some(), "{kind:?}");
        }
    }
}
