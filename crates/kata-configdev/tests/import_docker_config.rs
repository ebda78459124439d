//! `kata-configdev import docker-config` and `secrets combine`, the built command, and skopeo as a
//! second reader of the same files.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use command::{Folder, Run, importer, run};
use puller_config::{Credentials, Document, Match, RegistryHost};

use crate::command;

/// In every password of these tests; the second is base64 of "u:hunter2-password".
const SECRETS: [&str; 3] = ["hunter2", "dTpodW50ZXIyLXBhc3N3b3Jk", "aHVudGVyM"];

fn entry(user: &str) -> String {
    let auth = STANDARD.encode(format!("{user}:hunter2-password"));
    format!("{{\"auth\":\"{auth}\"}}")
}

fn config(entries: &[(&str, &str)]) -> String {
    let entries: Vec<_> =
        entries.iter().map(|(key, user)| format!("\"{key}\":{}", entry(user))).collect();
    format!("{{\"auths\":{{{}}}}}", entries.join(","))
}

struct Import(Run);

impl std::ops::Deref for Import {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.0
    }
}

impl Import {
    /// The user that is sent to a host, or for a repository of it.
    fn user(&self, image: &str) -> Option<String> {
        let registries = Document::parse(self.stdout.as_bytes()).unwrap().document.registries;
        let (host, repository) = image.split_once('/').unwrap_or((image, ""));
        let host = RegistryHost::parse(host).unwrap();
        let own = registries.repository_entries(&host, repository).next();
        let entry = match (own, registries.entry_for(&host)) {
            (Some((_, entry)), _) | (None, Match::Entry { entry, .. }) => entry,
            (None, Match::Defaults) => return None,
        };
        match &entry.credentials {
            Credentials::Basic { username, password } => {
                assert_eq!(password.expose(), "hunter2-password");
                Some(username.clone())
            }
            _ => None,
        }
    }
}

/// Runs the import. No message may hold a secret.
fn import(arguments: &[&str], stdin: &str) -> Import {
    let arguments = [&["import", "docker-config"], arguments].concat();
    Import(importer(&SECRETS).run_with(&arguments, stdin))
}

#[test]
fn a_docker_configuration_becomes_a_document() {
    let folder = Folder::new();
    let path = folder.file(
        "config.json",
        config(&[
            ("https://index.docker.io/v1/", "hub"),
            ("reg.corp:5000", "corp"),
            ("quay.io/team", "team"),
            ("quay.io/Team", "wide"),
            ("*.azurecr.io", "azure"),
        ]),
    );
    let narrow = import(&[&path], "");
    narrow.ends(0);
    assert_eq!(narrow.user("docker.io").as_deref(), Some("hub"));
    assert_eq!(narrow.user("reg.corp:5000").as_deref(), Some("corp"));
    assert_eq!(narrow.user("quay.io/team/app").as_deref(), Some("team"));
    for host in ["reg.corp", "quay.io", "quay.io/teams", "x.azurecr.io"] {
        assert_eq!(narrow.user(host), None, "{host}");
    }
    assert_eq!(narrow.stderr.lines().count(), 2, "{}", narrow.stderr);
    narrow.says(&[&format!("warning: {path}: quay.io/Team: left out")]);

    let strict = import(&["--strict", &path], "");
    assert_eq!((strict.code, strict.stdout.as_str()), (65, ""));
    assert!(strict.stderr.starts_with("error: "), "{}", strict.stderr);

    let wide = import(&["--strict", "--allow-widening", &path], "");
    wide.ends(0);
    assert_eq!(wide.user("quay.io").as_deref(), Some("wide"));
    assert_eq!(wide.user("quay.io/team/app").as_deref(), Some("team"));
    assert_eq!(wide.user("a.b.azurecr.io").as_deref(), Some("azure"));
}

#[test]
fn secrets_and_standard_input_are_read() {
    let text = config(&[("ghcr.io", "g")]);
    let manifest = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: pull, namespace: team}}\n\
         type: kubernetes.io/dockerconfigjson\ndata: {{.dockerconfigjson: {}}}\n",
        STANDARD.encode(&text)
    );
    for input in [
        text.as_str(),
        &manifest,
        &entry("g").replacen('{', "{\"ghcr.io\":{", 1).replace("\"}", "\"}}"),
    ] {
        let import = import(&["-"], input);
        assert_eq!(import.user("ghcr.io").as_deref(), Some("g"), "{}", import.stderr);
        assert_eq!(import.stderr, "");
    }
    // A placeholder that is not filled yet.
    for input in ["{}", "{\"auths\":{}}", "", "\n"] {
        let import = import(&["--strict", "--allow-empty", "-"], input);
        assert_eq!((import.code, import.stdout.as_str()), (0, ""), "{input}");
    }
}

#[test]
fn a_document_is_added_to_and_wins() {
    let folder = Folder::new();
    let own = "# mine\n[registries.\"ghcr.io\"]\nusername = \"own\"\npassword \
    = \"hunter2-password\"\n\n\
        [registries.\".corp\"]\nplain-http = true\n\n[registries.\"docker.io\"]\nmirror \
        = \"https://m.example\"\n";
    let document = folder.file("own.toml", own);
    let path = folder
        .file("config.json", config(&[("ghcr.io", "g"), ("reg.corp", "c"), ("docker.io", "d")]));
    let merged = import(&["--into", &document, &path], "");
    merged.ends(0);
    assert!(merged.stdout.starts_with(own), "{}", merged.stdout);
    assert_eq!(merged.user("ghcr.io").as_deref(), Some("own"));
    assert_eq!(merged.user("reg.corp").as_deref(), Some("c"));
    assert_eq!(merged.user("docker.io"), None);
    assert!(merged.stdout.matches("plain-http").count() == 2);
    merged.says(&["names a mirror"]);

    let json = import(&["--json", "--into", &document, &path], "");
    let report: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(report["document"], merged.stdout);
    let winners: Vec<_> = report["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|decision| (decision["registry"].clone(), decision["winner"].clone()))
        .collect();
    assert!(winners.contains(&("ghcr.io.".into(), "the document".into())));
    assert!(winners.contains(&("reg.corp.".into(), path.as_str().into())));
    assert!(winners.contains(&("docker.io.".into(), serde_json::Value::Null)));
    assert_eq!(import(&["--strict", "--json", "--into", &document, &path], "").code, 65);

    let broken = folder.file("broken.toml", "[registries.x]\npasword = \"hunter2\"\n");
    let refused = import(&["--into", &broken, &path], "");
    assert_eq!((refused.code, refused.stdout.as_str()), (65, ""));
    refused.says(&["line 2"]);
    let reason = folder.file("reason.toml", "node-error = \"no such file\"\n");
    let refused = import(&["--into", &reason, &path], "");
    assert_eq!((refused.code, refused.stdout.as_str()), (65, ""));
    refused.says(&["the document is a \"node-error\", beside which nothing stands"]);
}

/// Everything that fails, with the secrets everywhere in it: no output shows them.
#[test]
fn no_failure_shows_a_secret() {
    let folder = Folder::new();
    let bad_document =
        folder.file("d.toml", "[registries.hunter2]\npassword = \"hunter2\"\nx = \"hunter2");
    let good = folder.file("good.json", config(&[("ghcr.io", "u")]));
    let texts = [
        "{\"auths\":{\"https://u:hunter2@ghcr.io\":{\"auth\":\"x\"}}}".to_owned(),
        "{\"auths\":{\"a.io\":{\"auth\":\"hunter2\"}}}".to_owned(),
        format!("{{\"auths\":{{\"a.io\":{{\"auth\":\"{}\"}}}}}}", STANDARD.encode("hunter2")),
        "{\"auths\":{\"a.io\":{\"username\":\"a:b\",\"password\":\"hunter2\"}}}".to_owned(),
        "{\"auths\":{\"a.io\":{\"username\":\"a\",\"password\":\"hunter2\\u0007\"}}}".to_owned(),
        "{\"auths\":{\"a.io\":{\"registrytoken\":\"hunter2 \"}}}".to_owned(),
        "{\"auths\":{\"a.io\":\"hunter2\"}}".to_owned(),
        "{\"auths\":{\"a.io\":{\"auth\":[\"hunter2\"]}}}".to_owned(),
        "{\"hunter2\":\"hunter2\"".to_owned(),
        "hunter2".to_owned(),
        "password: hunter2\nx: [".to_owned(),
        "apiVersion: v1\nkind: Secret\ndata: {a: *hunter2}\n".to_owned(),
        "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/dockercfg\nstringData: \
        {.dockercfg: hunter2}\n"
            .to_owned(),
        "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/dockercfg\ndata: \
        {.dockercfg: hunter2-password}\n"
            .to_owned(),
        format!(
            "{{\"auths\":{{\"a.io\":{{\"auth\":\"{}\"}}}}}}",
            STANDARD.encode("u:hunter2-password\u{1}")
        ),
    ];
    for text in &texts {
        for extra in [&["-"][..], &["-", &good], &["--json", "-"], &["--into", &bad_document, "-"]]
        {
            let arguments = [&["--strict"][..], extra].concat();
            let failed = import(&arguments, text);
            failed.ends(65);
        }
    }
    let many =
        import(&["--strict", "-"], &format!("{{{}}}", "\"a\":{},".repeat(2000) + "\"b\":{}"));
    many.ends(65);
    assert_eq!(import(&["/nowhere/hunter-2.json"], "").code, 65);
    assert_eq!(import(&[], "").code, 64);
}

const EXPORTED: &str = "\
apiVersion: v1
kind: Secret
metadata: {name: a, namespace: ns}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{\"auths\":{\"z.io\":{\"username\":\"u\",\"password\":\"hunter2-password\",\"email\":\"e\"},\"a.io\":{}}}'}
---
apiVersion: secretgen.carvel.dev/v1alpha1
kind: SecretExport
metadata: {name: a, namespace: ns}
spec: {toNamespaces: [kata]}
";

const PLACEHOLDER: &str = "\
apiVersion: v1
kind: Secret
metadata: {name: pull, namespace: kata, annotations: {secretgen.carvel.dev/image-pull-secret: ''}}
type: kubernetes.io/dockerconfigjson
data: {.dockerconfigjson: e30=}
";

#[test]
fn exported_secrets_are_combined_byte_for_byte() {
    let folder = Folder::new();
    folder.file("a.yaml", EXPORTED);
    folder.file("b.yml", PLACEHOLDER);
    folder.file("notes.txt", "hunter2: [");
    folder.file(".hidden.yaml", "hunter2: [");
    let combine = |arguments: &[&str]| {
        let directory = &folder.text("");
        importer(&SECRETS).run(&[&["secrets", "combine", directory], arguments].concat())
    };
    let combined = combine(&[]);
    assert_eq!(
        combined.ends(0).stdout,
        "{\"auths\":{\"a.io\":{\"username\":\"\",\"password\":\"\",\"auth\":\"\"},\
         \"z.io\":{\"username\":\"u\",\"password\":\"hunter2-password\",\"auth\":\"\"}}}"
    );
    assert_eq!(combined.stderr, "note: combined for kata: secret ns/a\n");
    // As files, and as kubectl prints them.
    let [one, two] = ["a.yaml", "b.yml"].map(|name| folder.text(name));
    let files = importer(&SECRETS).run(&["secrets", "combine", &one, &two]);
    assert_eq!(files.stdout, combined.stdout);
    let all = format!("{EXPORTED}---\n{PLACEHOLDER}");
    let piped = importer(&SECRETS).run_with(&["secrets", "combine", "-"], all);
    assert_eq!(piped.stdout, combined.stdout);
    let wrong = importer(&SECRETS).run_with(&["secrets", "combine", "-"], "hunter2: [");
    wrong.fails(65, &["read standard input: "]);

    let other = combine(&["--namespace", "other"]);
    assert_eq!(other.stdout, "{\"auths\":{}}");

    folder.file("c.json", PLACEHOLDER.replace("namespace: kata", "namespace: two"));
    combine(&[]).ends(64);
    folder.file("d.yaml", "hunter2: [");
    combine(&["--namespace", "kata"]).fails(65, &["d.yaml"]);
    run(&["secrets", "combine", "/nowhere"]).ends(65);
}

/// The user that skopeo would send, by the same file.
fn skopeo_user(file: &str, registry: &str) -> Option<String> {
    let output = Command::new("skopeo")
        .args(["login", "--get-login", "--authfile", file, registry])
        .output()
        .unwrap();
    let user = String::from_utf8(output.stdout).unwrap();
    output.status.success().then(|| user.trim_end().to_owned()).filter(|user| !user.is_empty())
}

/// Keys whose meaning podman and skopeo share with this reader, each against every registry, alone
/// and all together.
#[test]
fn skopeo_reads_the_same_users() {
    if Command::new("skopeo").arg("--version").output().is_err() {
        return test_command::skip("there is no skopeo");
    }
    let folder = Folder::new();
    let keys = [
        "ghcr.io",
        "https://quay.io",
        "https://r1.corp/v1/",
        "https://r2.corp/v2/",
        "http://r3.corp",
        "https://index.docker.io/v1/",
        "reg.corp:5000",
        "https://reg.corp:5001/v2/",
        "192.0.2.1:5000",
        "localhost:5000",
        "xn--nxasmq6b.example",
    ];
    let registries = [
        "ghcr.io",
        "quay.io",
        "r1.corp",
        "r2.corp",
        "r3.corp",
        "docker.io",
        "index.docker.io",
        "registry-1.docker.io",
        "auth.docker.io",
        "reg.corp:5000",
        "reg.corp:5001",
        "reg.corp:5002",
        "sub.ghcr.io",
        "192.0.2.1:5000",
        "localhost:5000",
        "xn--nxasmq6b.example",
    ];
    let users: Vec<String> = (0..keys.len()).map(|number| format!("user{number}")).collect();
    let entries: Vec<_> = keys.iter().copied().zip(users.iter().map(String::as_str)).collect();
    let mut cases: Vec<_> = entries.iter().map(|entry| vec![*entry]).collect();
    cases.push(entries);
    let mut found = 0;
    for case in cases {
        let path = folder.file("auth.json", config(&case));
        let import = import(&[&path], "");
        import.ends(0);
        for registry in registries {
            let theirs = skopeo_user(&path, registry);
            found += usize::from(theirs.is_some());
            assert_eq!(import.user(registry), theirs, "{case:?} {registry}");
        }
    }
    assert!(found > keys.len() * 2, "skopeo found {found} users only");
}

/// `auth` is the one field that both read; what skopeo refuses, this reader does too.
#[test]
fn skopeo_reads_the_same_auth() {
    if Command::new("skopeo").arg("--version").output().is_err() {
        return test_command::skip("there is no skopeo");
    }
    let folder = Folder::new();
    for plain in ["u:hunter2-password", "u u:hunter2-password", "hunter2", "é:hunter2-password"] {
        let auth = STANDARD.encode(plain);
        let path =
            folder.file("auth.json", format!("{{\"auths\":{{\"r.io\":{{\"auth\":\"{auth}\"}}}}}}"));
        let import = import(&[&path], "");
        assert_eq!(import.user("r.io"), skopeo_user(&path, "r.io"), "{plain}");
    }
}

/// What Docker Desktop and every user of a credential helper has became an empty document, with
/// exit code 0: pulls were anonymous from then on.
#[test]
fn files_without_any_credentials_are_an_error() {
    let folder = Folder::new();
    let desktop = r#"{"auths":{"ghcr.io":{}},"credsStore":"desktop"}"#;
    let base = folder.file("base.toml", "[registries.\"a.corp\"]\nmirror = \"https://m.corp\"\n");
    for text in [desktop, "{}", r#"{"auths":{}}"#] {
        let path = folder.file("config.json", text);
        let empty = import(&[&path], "");
        assert_eq!((empty.code, empty.stdout.as_str()), (65, ""), "{text}");
        empty.says(&["error: the import: nothing is in it that a document can have"]);
        let json = import(&["--json", &path], "");
        json.ends(65);
        assert!(json.json()["document"].is_null());
        assert_eq!(json.json()["faults"].as_array().unwrap().len(), 1);
        let allowed = import(&["--allow-empty", &path], "");
        assert_eq!((allowed.code, allowed.stdout.as_str()), (0, ""), "{text}");
        let into = import(&["--into", &base, &path], "");
        assert_eq!((into.code, into.stdout.as_str()), (65, ""));
        let into = import(&["--allow-empty", "--into", &base, &path], "");
        into.ends(0);
        into.prints(&["a.corp"]);
    }
}
