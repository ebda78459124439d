//! A node whose sandboxes are explained.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::{Folder, Run, run};

/// The document of the node; the lines are those that the command names.
pub const DOCUMENT: &str = "\
[registries.\"own.corp\"]
username = \"robot\"
password = \"hunter2-password\"

[registries.'.Team.corp.']
auth = \"cHVsbGVyOmh1bnRlcjItYXV0aA==\"

[registries.\"hub.corp\"]
mirror = \"https://mirror.corp/\\u0068ub\"

[registries.\".lab\"]
ca-certs = \"none\"
";

pub const REGISTRIES: [&str; 7] = [
    "own.corp",
    "a.team.corp",
    "hub.corp",
    "reg.lab",
    "reg.example",
    "dead.example",
    "path.example",
];

/// A node with plugins that are real programs.
pub struct Node {
    pub folder: Folder,
    pub listed: String,
    /// The value of the settings' key.
    pub registries: String,
    pub document: Option<String>,
    pub run_root: String,
    /// Below what was built, which is on a disk where the temporary directory may be in memory.
    _disk: TempDir,
}

impl Node {
    pub fn new() -> Self {
        let folder = Folder::new();
        for name in ["bin", "bundle"] {
            std::fs::create_dir(folder.path(name)).unwrap();
        }
        let disk = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let node = Self {
            document: Some(folder.file("document.toml", DOCUMENT)),
            // On a disk, where nothing is kept.
            run_root: disk.path().to_str().unwrap().into(),
            registries: format!("{REGISTRIES:?}"),
            _disk: disk,
            listed:
                "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
                    .into(),
            folder,
        };
        node.spec("{}");
        node
    }

    /// A node with one plugin of each kind.
    pub fn full() -> Self {
        let mut node = Self::new();
        node.add("good", "'*.corp', '*.*.corp', '*.lab', '*.example'", &answer("*.*", "*.*.*"), "");
        node.add("second", "'*.example'", &answer("reg.example", "x"), "");
        let noise = "echo hunter2-token; echo hunter2-token >&2; exit 9";
        node.add("bad", "dead.example", &format!("sh -c '{noise}'"), "");
        node.add("path", "path.example", &answer("path.example/team", "path.example/Other"), "");
        node.add(
            "token",
            "reg.example",
            "exit 1",
            "tokenAttributes: \
        {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: false}",
        );
        node
    }

    pub fn add(&mut self, name: &str, images: &str, script: &str, more: &str) {
        self.listed += &format!(
            "- name: {name}\n  matchImages: [{images}]\n  defaultCacheDuration: 10m\n  apiVersion: \
            credentialprovider.kubelet.k8s.io/v1\n"
        );
        if !more.is_empty() {
            self.listed += &format!("  {more}\n");
        }
        let file = format!("bin/{name}");
        let text = format!("#!/bin/sh\n{script}\n");
        self.folder.program(&file, "755", &text);
    }

    pub fn spec(&self, annotations: &str) {
        let text = format!(r#"{{"ociVersion":"1.1.0","annotations":{annotations}}}"#);
        self.folder.file("bundle/config.json", text);
    }

    pub fn annotate(&self, value: &str) {
        let key = "io.katacontainers.config.runtime.imagepuller_config";
        self.spec(&json!({ key: value }).to_string());
    }

    pub fn settings(&self) -> String {
        let listing = self.folder.file("providers.yaml", &self.listed);
        let document = self.document.as_ref().map(|path| format!("document = {path:?}\n"));
        let text = format!(
            "{}transport = \"file\"\nrun-root = {:?}\nannotation-allow = \
            [{:?}]\n[credential-providers]\nconfig = {listing:?}\n\
             bin-dir = {:?}\nregistries = {}\ndeadline-secs = 50\n",
            document.unwrap_or_default(),
            self.run_root,
            self.folder.path("allowed"),
            self.folder.path("bin"),
            self.registries,
        );
        self.folder.file("settings.toml", text)
    }

    pub fn explain(&self, arguments: &[&str]) -> Run {
        let (settings, bundle) = (self.settings(), self.folder.text("bundle"));
        let fixed = ["explain", "--settings", &settings, "--sandbox", &bundle];
        let run = run(&[&fixed, arguments].concat());
        // What plugins say is nobody's, not even the user name.
        assert!(!run.stdout.contains("plugin-user") && !run.stderr.contains("plugin-user"));
        run
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let run = self.explain(&[&["--json"], arguments].concat());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        run.json()
    }

    /// The text about one registry, or what is said before the first.
    pub fn text(&self, registry: &str) -> String {
        let run = self.explain(&[]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        let mut parts = run.stdout.split("\n\n");
        if registry.is_empty() {
            return parts.next().unwrap().into();
        }
        let first = format!("{registry}\n");
        let part = parts.find_map(|part| part.strip_prefix(&first));
        part.unwrap_or_else(|| panic!("{registry}: {}", run.stdout)).trim_end().into()
    }
}

/// A script that answers for two keys.
pub fn answer(one: &str, other: &str) -> String {
    let pair = r#"{"username":"plugin-user","password":"hunter2-token"}"#;
    format!(
        "echo '{{\"kind\":\"CredentialProviderResponse\",\
         \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
         \"cacheKeyType\":\"Registry\",\"auth\":{{\"{one}\":{pair},\"{other}\":{pair}}}}}'"
    )
}

/// The part about one registry.
pub fn of<'a>(report: &'a Value, registry: &str) -> &'a Value {
    let mut all = report["registries"].as_array().unwrap().iter();
    all.find(|one| one["registry"] == registry).unwrap_or_else(|| panic!("{registry}: {report}"))
}
