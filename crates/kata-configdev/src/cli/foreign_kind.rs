//! What a file is that is no document, and which command it is for.

/// Another kind of file: how it begins, or a line of it; what it is; the command that takes it.
type Kind = (&'static str, &'static str, &'static str);

/// Files of lines, the more telling first. What begins with a dash has to be the first line.
const LINES: [Kind; 29] = [
    ("-----BEGIN CERTIFICATE", "a PEM certificate", "new --ca"),
    ("-----BEGIN PRIVATE KEY", PRIVATE_KEY, "import decryption-secret"),
    ("-----BEGIN RSA PRIVATE KEY", PRIVATE_KEY, "import decryption-secret"),
    ("-----BEGIN EC PRIVATE KEY", PRIVATE_KEY, "import decryption-secret"),
    ("-----BEGIN ENCRYPTED PRIVATE KEY", PRIVATE_KEY, "import decryption-secret"),
    ("kind: Secret", MANIFEST, "import decryption-secret"),
    ("kind: List", MANIFEST, "import decryption-secret"),
    ("kind: SecretList", MANIFEST, "import decryption-secret"),
    ("mirrors:", "a registries.yaml of K3s or RKE2", "import registries-yaml"),
    ("configs:", "a registries.yaml of K3s or RKE2", "import registries-yaml"),
    ("[[registry", "a registries.conf", "import registries-conf"),
    ("unqualified-search-registries", "a registries.conf", "import registries-conf"),
    ("short-name-mode", "a registries.conf", "import registries-conf"),
    ("[sets", "a configuration of the installer", "install --config"),
    ("[plugins", "a configuration of containerd", "import containerd-config"),
    ("[kbc", HUB, "import cdh"),
    ("[image", HUB, "import cdh"),
    ("[Service]", "a unit of systemd", "import node"),
    ("HTTP_PROXY", PROXIES, "import node --shown"),
    ("HTTPS_PROXY", PROXIES, "import node --shown"),
    ("NO_PROXY", PROXIES, "import node --shown"),
    ("[host", "a hosts.toml of containerd", "import certs.d"),
    ("server", "a hosts.toml of containerd", "import certs.d"),
    ("handlers", "a configuration of the installer", "install --config"),
    ("qemu", SETTINGS, "config --settings"),
    ("document", SETTINGS, "config --settings"),
    ("transport", SETTINGS, "config --settings"),
    ("annotation-allow", SETTINGS, "config --settings"),
    ("[credential-providers", SETTINGS, "config --settings"),
];

/// Files of JSON, by a key anywhere in them, the more telling first.
const KEYS: [Kind; 7] = [
    ("auths", DOCKER, "import docker-config"),
    ("credsStore", DOCKER, "import docker-config"),
    ("credHelpers", DOCKER, "import docker-config"),
    ("HttpHeaders", DOCKER, "import docker-config"),
    ("kty", PRIVATE_KEY, "import decryption-secret"),
    ("kind", MANIFEST, "import decryption-secret"),
    // What is left of a .dockercfg: hosts and their accounts.
    ("auth", DOCKER, "import docker-config"),
];

const DOCKER: &str = "a docker configuration";
const MANIFEST: &str = "a manifest of Kubernetes";
const PRIVATE_KEY: &str = "a private key";
const HUB: &str = "a configuration of the confidential data hub";
const PROXIES: &str = "an environment with proxies";
const SETTINGS: &str = "the settings of a node";

/// A document's own tables: what has one is a document, whatever stands in its values.
const OWN: [&str; 4] = ["registries", "extra-env", "decryption-keys", "resources"];

/// The lines that only a document has: a registries.conf of version 1 has [registries.search].
const TABLES: [&str; 3] = ["[registries.\"", "[extra-env]", "[decryption-keys"];

/// What to tell who gave a file that is no valid document as one; `None` where nothing tells its
/// kind.
pub fn told(text: &[u8]) -> Option<String> {
    let text = trimmed(text)?;
    let is_yaml =
        |line: &str| line.trim_end().strip_suffix(':').is_some_and(|key| OWN.contains(&key));
    if text.lines().any(is_yaml) {
        let told = "this is YAML, and a document is TOML: [registries.\"registry.corp\"] begins an \
            entry, and \"=\" stands behind a key";
        return Some(told.to_owned());
    }
    let is_own = |line: &str| OWN.iter().any(|own| begins(line.trim_start_matches('['), own));
    let is_own = !text.starts_with('{') && text.lines().any(is_own);
    let (name, command) = kind(text).filter(|_| !is_own)?;
    let makes = match command.starts_with("import") || command.starts_with("new") {
        true => "makes one of it",
        false => "takes it",
    };
    Some(format!("this is {name}, not a document: `kata-configdev {command}` {makes}"))
}

/// What to tell who gave a file to an import of which `own` is the command, and which found nothing
/// in it; `None` where it is of that import's kind, or of none that is known.
pub fn told_by_import(text: &[u8], own: &str) -> Option<String> {
    let text = trimmed(text)?;
    let is_table = |line: &str| TABLES.iter().any(|table| line.starts_with(table));
    if text.lines().any(is_table) {
        return Some("this is a registry config, to which --into adds".to_owned());
    }
    // Manifests are for two of them.
    let is_other = |(name, command): &(&str, &str)| *name != MANIFEST && *command != own;
    let (name, command) = kind(text).filter(is_other)?;
    Some(format!("this is {name}, which `kata-configdev {command}` takes"))
}

fn trimmed(text: &[u8]) -> Option<&str> {
    Some(str::from_utf8(text).ok()?.trim_start_matches('\u{feff}').trim_start())
}

/// Another kind of file, and the command that takes it.
fn kind(text: &str) -> Option<(&'static str, &'static str)> {
    let found = if text.starts_with('{') {
        let has = |key: &str| text.contains(&format!("\"{key}\""));
        // Other manifests are nobody's.
        let is_read =
            |key: &str| key != "kind" || ["Secret", "SecretList", "List"].into_iter().any(has);
        KEYS.iter().find(|(key, ..)| has(key) && is_read(key))
    } else {
        let has = |mark: &str| match mark.starts_with('-') {
            true => text.starts_with(mark),
            false => text.lines().any(|line| begins(line, mark)),
        };
        LINES.iter().find(|(mark, ..)| has(mark))
    };
    let &(_, name, command) = found?;
    // A secret's type or its key says so.
    let is_docker = text.contains("dockerconfigjson") || text.contains("dockercfg");
    Some(match name == MANIFEST && is_docker {
        true => ("a manifest with credentials for image pulls", "import docker-config"),
        false => (name, command),
    })
}

/// Whether a line has this beginning, and it is a whole word.
fn begins(line: &str, beginning: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    line.strip_prefix(beginning).is_some_and(|rest| !rest.starts_with(is_word))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn a_foreign_file_is_known_by_what_only_it_has() {
        for (text, kind) in [
            ("{\"auths\": {\"r.corp\": {\"auth\": \"x\"}}}", "a docker configuration"),
            ("\u{feff}\n {\"credsStore\": \"desktop\"}", "a docker configuration"),
            ("{\"auths\": {\"r.corp\": {},}}", "a docker configuration"),
            ("{\"https://r.corp\": {\"auth\": \"x\"}}", "a docker configuration"),
            (
                "{\"kind\": \"Secret\", \"type\": \"kubernetes.io/dockerconfigjson\"}",
                "a manifest with credentials",
            ),
            ("{\"kty\": \"RSA\"}", "a private key"),
            ("{}", ""),
            ("apiVersion: v1\nkind: Secret\ndata:\n  key: eA==\n", "a manifest of Kubernetes"),
            ("---\nkind: Secret\ndata:\n  .dockerconfigjson: e30=\n", "a manifest with"),
            ("# k3s\nmirrors:\n  docker.io:\n", "a registries.yaml"),
            ("configs:\n", "a registries.yaml"),
            ("[[registry]]\nlocation = \"r.corp\"\n", "a registries.conf"),
            ("[[registry.mirror]]\n", "a registries.conf"),
            ("unqualified-search-registries = [\"docker.io\"]\n", "a registries.conf"),
            ("server = \"https://r.corp\"\n[host.\"https://m\"]\n", "a hosts.toml"),
            ("version = 2\n[plugins.\"io.containerd\"]\n", "a configuration of containerd"),
            ("socket = \"x\"\n[kbc]\nname = \"cc_kbc\"\n", "a configuration of the conf"),
            ("HTTPS_PROXY=http://proxy.corp:3128\n", "an environment"),
            ("HTTPS_PROXY=\"http://proxy.corp:3128\"\n", "an environment"),
            ("-----BEGIN RSA PRIVATE KEY-----\n", "a private key"),
            ("-----BEGIN CERTIFICATE-----\n", "a PEM certificate"),
            ("[Unit]\n[Service]\nEnvironment=A=b\n", "a unit of systemd"),
            ("registries:\n  r.corp:\n    plain-http: true\n", "this is YAML"),
            // Our own.
            (include_str!("../../../../deploy/host/node.toml"), "a configuration of the installer"),
            ("document = \"/x\"\n", "the settings of a node"),
            ("[registry.\"r.corp\"]\nusername = \"x\"\n", ""),
            ("[registries.\"r.corp\"]\nusrname = \"mirrors:\"\n", ""),
            // Lines of a value.
            (
                "[registries.\"r.corp\"]\nca-certs = \"\"\"\nkind: Secret\nmirrors:\n\
                 [host.\n\"\"\"\n",
                "",
            ),
            ("[image]\n[registries.\"r.corp\"]\nusrname = \"x\"\n", ""),
            ("note = \"\"\"\n-----BEGIN RSA PRIVATE KEY-----\n", ""),
            // No import reads those.
            ("apiVersion: apps/v1\nkind: DaemonSet\n", ""),
            (r#"{"apiVersion": "v1", "kind": "Pod"}"#, ""),
            (r#"{"apiVersion": "v1", "kind": 1}"#, ""),
            (r#"{"apiVersion": "v1", "kind": "List"}"#, "a manifest of Kubernetes"),
            ("apiVersion: v1\nkind: List\n", "a manifest of Kubernetes"),
            ("kind: SecretStore\n", ""),
            ("", ""),
        ] {
            let told = told(text.as_bytes()).unwrap_or_default();
            assert_eq!(told.is_empty(), kind.is_empty(), "{text}: {told}");
            assert!(told.contains(kind), "{text}: {told}");
        }
        assert_eq!(told(b"\xff"), None);
    }

    #[test]
    fn each_kind_names_a_command_that_is_there() {
        for (.., line) in LINES.iter().chain(&KEYS) {
            let mut command = crate::cli::Cli::command();
            for word in line.split(' ').filter(|word| !word.starts_with("--")) {
                command = command.find_subcommand(word).unwrap_or_else(|| panic!("{line}")).clone();
            }
            let mut options = line.split(' ').filter_map(|word| word.strip_prefix("--"));
            let is_there = |option: &str| {
                command.get_arguments().any(|known| known.get_long() == Some(option))
            };
            assert!(options.all(is_there), "{line}");
        }
    }
}
