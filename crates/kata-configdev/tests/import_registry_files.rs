//! The built command `kata-configdev import` with containerd's, K3s's and podman's files: a
//! document on standard output, the rest on standard error, exit codes, and no secret in any
//! message.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use command::{Folder, Run, importer};
use puller_config::{Document, Match, RegistryHost};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use crate::command;

/// What the secrets of all inputs contain, plain and in base64.
const SECRETS: [&str; 2] = ["hunter2", "aHVudGVyMi"];

/// A node's file system.
struct Node(Folder);

impl Node {
    fn new() -> Self {
        Self(Folder::new())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn file(&self, name: &str, content: &str) -> &Self {
        self.0.file(name, content);
        self
    }

    /// Runs an import with this node as root.
    fn import(&self, arguments: &[&str]) -> Run {
        let root = self.0.text("");
        run(&[&["import", arguments[0], "--root", &root], &arguments[1..]].concat())
    }
}

/// Runs the program. No message may hold a secret.
fn run(arguments: &[&str]) -> Run {
    importer(&SECRETS).run(arguments)
}

fn certificate(name: &str) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.self_signed(&key).unwrap().pem()
}

fn roots(document: &str, name: &str) -> usize {
    let document = Document::parse(document.as_bytes()).unwrap().document;
    let found = document.registries.iter().find(|(key, _)| key.written() == name);
    let roots = found.unwrap().1.ca_certs.as_ref();
    roots.map_or(0, |roots| roots.certificates().len())
}

const CERTS_D: &str = "/etc/containerd/certs.d";

#[test]
fn certs_d_becomes_a_document() {
    let node = Node::new();
    node.file(
        "etc/containerd/certs.d/reg.corp_5000_/hosts.toml",
        "ca = \"/etc/pki/ca.pem\"\n[header]\nAuthorization = \"Basic cm9ib3Q6aHVudGVyMg==\"\n",
    );
    node.file("etc/containerd/certs.d/reg.corp:5000/ca.crt", &certificate("unused"));
    node.file("etc/containerd/certs.d/docker.corp:5001/ca.crt", &certificate("docker"));
    node.file("etc/containerd/certs.d/docker.corp:5001/client.key", "hunter2");
    node.file("etc/containerd/certs.d/..data/hosts.toml", "not TOML");
    node.file("etc/containerd/certs.d/a-file", "not a directory");
    node.file("etc/pki/real.pem", &certificate("root"));
    // As distributions do it: absolute within the node, wherever that is mounted.
    symlink("/etc/pki/real.pem", node.path("etc/pki/ca.pem")).unwrap();
    node.file(
        "etc/ssl/certs/ca-certificates.crt",
        &format!("{}{}", certificate("web"), certificate("web2")),
    );

    let plain = node.import(&["certs.d", CERTS_D]);
    plain.ends(0);
    plain.prints(&["password = \"hunter2\""]);
    assert_eq!(roots(&plain.stdout, "reg.corp:5000"), 1);
    for told in [
        "warning: /etc/containerd/certs.d/docker.corp:5001: client.key: left out",
        "warning: /etc/containerd/certs.d/reg.corp:5000: left out: reg.corp:5000 is already",
        "--keep-system-roots adds the system's",
    ] {
        plain.says(&[told]);
    }

    let kept = node.import(&["certs.d", "--keep-system-roots", CERTS_D]);
    kept.ends(0);
    assert_eq!(roots(&kept.stdout, "reg.corp:5000"), 3);
    assert!(!kept.stderr.contains("the only ones now"), "{}", kept.stderr);

    let strict = node.import(&["certs.d", "--strict", CERTS_D]);
    strict.fails(65, &["error: /etc/containerd"]);
}

#[test]
fn what_would_break_containerd_is_refused() {
    for (text, told) in [
        ("ca = \"/missing.pem\"", "/missing.pem: No such file"),
        ("ca = \"/pipe\"", "/pipe: it is not a regular file"),
        ("ca = \"/etc\"", "/etc: it is not a regular file"),
        ("ca = \"/secret\"", "/secret: the file has no certificate"),
        ("ca = \"../../../../../../../etc/passwd-of-the-host\"", "No such file"),
        ("server = \"hunter2", "not TOML at line 1"),
    ] {
        let node = Node::new();
        node.file("etc/containerd/certs.d/reg.corp/hosts.toml", text);
        node.file("secret", "hunter2");
        mknodat(CWD, node.path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let run = node.import(&["certs.d", CERTS_D]);
        run.fails(65, &[]);
        assert!(
            run.stderr.contains("error: ") && run.stderr.contains(told),
            "{told} in {}",
            run.stderr
        );
        let json = node.import(&["certs.d", "--json", CERTS_D]);
        let report: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!((json.code, report["document"].clone()), (65, Value::Null));
        assert_eq!(report["faults"].as_array().unwrap().len(), 1);
    }
    let node = Node::new();
    let run = node.import(&["certs.d", CERTS_D]);
    run.ends(65);
    // The path at which it was looked for, below --root.
    let place = node.path("etc/containerd/certs.d");
    let place = place.display();
    run.says(&[&format!("failed to read {place}: No such file")]);
}

#[test]
fn registries_yaml_comes_from_a_file_or_a_pipe() {
    let node = Node::new();
    let text = "configs:\n  reg.corp:\n    auth: {username: robot, password: hunter2}\n    tls: \
    {cert_file: /c, key_file: /k, insecure_skip_verify: true}\n";
    node.file("etc/rancher/k3s/registries.yaml", text);
    let run_ = node.import(&["registries-yaml", "--json", "/etc/rancher/k3s/registries.yaml"]);
    let report: Value = serde_json::from_str(&run_.stdout).unwrap();
    let document = report["document"].as_str().unwrap();
    assert!(document.contains("password = \"hunter2\""));
    assert!(!report["findings"].to_string().contains("hunter2"));
    assert_eq!(report["findings"][0]["loss"], "lost");

    let piped = importer(&SECRETS).run_with(&["import", "registries-yaml", "-"], text);
    assert_eq!((piped.code, piped.stdout.as_str()), (0, document));
    assert!(
        piped.stderr.starts_with("warning: -: configs.\"reg.corp\".tls.cert_file: "),
        "{}",
        piped.stderr
    );

    node.file("broken.yaml", "configs:\n  reg.corp: {auth: [hunter2]}\n");
    for arguments in
        [&["registries-yaml", "broken.yaml"][..], &["registries-yaml", "--json", "broken.yaml"]]
    {
        assert_eq!(node.import(arguments).code, 65);
    }
    node.file("long.yaml", &"# hunter2\n".repeat(30_000));
    let long = node.import(&["registries-yaml", "/long.yaml"]);
    long.ends(65);
    long.says(&["more than 262144 bytes"]);
}

/// A password under `configs."*"` once came out as the password of every registry, with exit code 0
/// even for --strict.
#[test]
fn a_password_for_all_registries_is_refused_by_strict() {
    let node = Node::new();
    let text = "configs:\n  \"*\":\n    auth: {username: robot, password: hunter2}\n    tls: \
    {insecure_skip_verify: true}\n";
    node.file("registries.yaml", text);
    let strict = node.import(&["registries-yaml", "--strict", "/registries.yaml"]);
    strict.fails(65, &["configs.\"*\".auth: left out: "]);
    let plain = node.import(&["registries-yaml", "/registries.yaml"]);
    plain.ends(0);
    assert!(!plain.stdout.contains("hunter2"));
    plain.prints(&["insecure-skip-verify = true"]);
}

#[test]
fn registries_conf_forbids_what_is_blocked() {
    let node = Node::new();
    node.file(
        "registries.conf",
        "[[registry]]\nlocation = \"bad.example\"\nblocked = \
    true\n\n[[registry]]\nlocation = \"lab.corp:5000\"\ninsecure = true\n",
    );
    let path = node.path("registries.conf");
    let run = run(&["import", "registries-conf", path.to_str().unwrap()]);
    run.ends(0);
    let document = Document::parse(run.stdout.as_bytes()).unwrap().document;
    let entries: Vec<_> = document.registries.iter().collect();
    assert!(entries[0].1.ca_certs.as_ref().unwrap().trusts_nobody());
    assert!(entries[1].1.insecure_skip_verify && !entries[1].1.plain_http);
}

#[test]
fn cdh_becomes_the_measured_document() {
    let folder = Folder::new();
    let proxies = "[image.image_pull_proxy]\nhttps_proxy = \"http://u:example@p\"\n";
    folder.file("cdh.toml", proxies);
    folder.file("none.toml", "[kbc]\nname = \"cc_kbc\"\n");
    folder.file("line", "quiet agent.https_proxy=http://kernel\n");
    let rules = "[[image.registry_config.registry]]\nprefix = \"a\"\ninsecure = true\n";
    folder.file("noted.toml", rules);
    let bad = "[image]\nnydus = \"hunter2\"\nwork_dir = \"hunter2\"\n";
    folder.file("bad.toml", bad);
    let import = |arguments: &[&str], name: &str| {
        run(&[&["import", "cdh"], arguments, &[&folder.text(name)]].concat())
    };
    let line = folder.text("line");
    for (arguments, name, expected) in [
        (&[][..], "cdh.toml", "[extra-env]\nHTTPS_PROXY = \"http://u:example@p\"\n"),
        (&["--allow-empty"], "none.toml", ""),
        (&["--parameters", &line], "none.toml", "[extra-env]\nHTTPS_PROXY = \"http://kernel\"\n"),
        (&["--parameters", &line], "noted.toml", "[registries.\"a\"]\n"),
    ] {
        let run = import(arguments, name);
        run.ends(0);
        assert_eq!(run.stdout, expected, "{name}");
    }
    import(&["--strict"], "noted.toml").fails(65, &["registry[0]: line 1: \"insecure\" has no"]);
    let errors = ["image.nydus: line 2: not a key", "image.work_dir: line 3: the guest's image"];
    import(&[], "bad.toml").fails(65, &errors);
    let json = import(&["--json"], "bad.toml");
    json.ends(65);
    let report = serde_json::from_str::<Value>(&json.stdout).unwrap();
    assert_eq!(report["document"], Value::Null);
    assert_eq!(report["faults"].as_array().unwrap().len(), 2);
    import(&[], "absent").fails(65, &["absent"]);
}

/// skopeo is the judge: what it refuses as blocked must be forbidden in the document, and nothing
/// else.
#[test]
fn blocked_means_what_it_means_to_skopeo() {
    const CONF: &str = "\
[[registry]]
location = \"127.0.0.1\"
blocked = true
[[registry]]
prefix = \"localhost:1\"
location = \"127.0.0.3:1\"
[[registry]]
prefix = \"*.bad.example\"
blocked = true
[[registry]]
location = \"bad.example:1\"
blocked = true
[[registry]]
location = \"127.0.0.6:1\"
blocked = true
[[registry.mirror]]
location = \"127.0.0.4:1\"
[[registry]]
prefix = \"moved.example\"
location = \"127.0.0.6:1/moved\"
[[registry]]
prefix = \"below.example\"
location = \"127.0.0.5/some/more\"
[[registry]]
location = \"127.0.0.5/some\"
blocked = true
[[registry.mirror]]
location = \"127.0.0.4:1\"
[[registry]]
location = \"in.example\"
blocked = true
[[registry.mirror]]
location = \"127.0.0.6:1/cache\"
[[registry.mirror]]
location = \"deep.bad.example\"
[[registry]]
location = \"beside.example\"
blocked = true
[[registry.mirror]]
location = \"127.0.0.6:12\"
[[registry]]
location = \"127.0.0.6:1/open\"
[[registry]]
location = \"longer.example\"
blocked = true
[[registry.mirror]]
location = \"127.0.0.6:1/open\"
";
    let node = Node::new();
    node.file("registries.conf", CONF);
    let path = node.path("registries.conf");
    let path = path.to_str().unwrap();
    let imported = run(&["import", "registries-conf", path]);
    let document = Document::parse(imported.stdout.as_bytes()).unwrap().document;
    for (host, expected) in [
        ("127.0.0.1", true),
        ("127.0.0.1:1", true),
        ("localhost:1", false),
        ("a.bad.example", true),
        ("a.b.bad.example:1", true),
        ("bad.example:1", true),
        ("127.0.0.2:1", false),
        // Its mirror is asked all the same.
        ("127.0.0.6:1", false),
        // No place in a blocked table is asked, whether that has mirrors or not.
        ("moved.example", true),
        ("below.example", true),
        ("in.example", true),
        // The longest table decides, and only whole names count.
        ("beside.example", false),
        ("longer.example", false),
    ] {
        let image = format!("docker://{host}/app@sha256:{}", "a".repeat(64));
        let output = Command::new("skopeo")
            .args(["--registries-conf", path, "--command-timeout", "10s", "inspect", &image])
            .output();
        let Ok(output) = output else {
            test_command::skip("there is no skopeo");
            return;
        };
        let told = String::from_utf8_lossy(&output.stderr);
        let is_blocked =
            told.contains("is blocked in") && !told.contains("pinging container registry");
        let host_ = RegistryHost::parse(host).unwrap();
        let is_forbidden = match document.registries.entry_for(&host_) {
            Match::Entry { entry, .. } => {
                entry.ca_certs.as_ref().is_some_and(|roots| roots.trusts_nobody())
            }
            Match::Defaults => false,
        };
        assert_eq!((is_blocked, is_forbidden), (expected, expected), "{host}");
    }
}

#[test]
fn wrong_arguments_are_told_apart() {
    for arguments in [
        &["import"][..],
        &["import", "certs.d"],
        &["import", "certs.d", "--system-roots", "x", "y"],
        &["import", "hunter"],
    ] {
        run(arguments).ends(64);
    }
    for name in ["certs.d", "registries-yaml", "registries-conf"] {
        let help = run(&["import", name, "--help"]);
        help.ends(0);
        help.prints(&[&format!("kata-configdev import {name} ")]);
    }
}

#[test]
fn files_that_have_nothing_for_a_document_are_an_error() {
    let node = Node::new();
    node.file("etc/containerd/certs.d/a-file", "not a directory");
    node.file("etc/registries.yaml", "{}\n");
    node.file("etc/registries.conf", "unqualified-search-registries = []\n");
    for arguments in [
        ["certs.d", CERTS_D],
        ["registries-yaml", "/etc/registries.yaml"],
        ["registries-conf", "/etc/registries.conf"],
    ] {
        let empty = node.import(&arguments);
        assert_eq!((empty.code, empty.stdout.as_str()), (65, ""), "{arguments:?}");
        empty.says(&["nothing is in it that a document can have"]);
        let allowed = node.import(&[arguments[0], "--allow-empty", arguments[1]]);
        allowed.ends(0);
    }
    let folder = Folder::new();
    let cdh = folder.file("cdh.toml", "");
    run(&["import", "cdh", &cdh]).fails(65, &["nothing is in it that a document can have"]);
    run(&["import", "cdh", "--allow-empty", &cdh]).ends(0);
}

/// What K3s has and what a directory of certificates has were two documents.
#[test]
fn two_sources_become_one_document() {
    let node = Node::new();
    let pem = certificate("ca");
    node.file(
        "registries.yaml",
        "mirrors:\n  a.corp:\n    endpoint: [\"https://mirror.corp\"]\n\
         configs:\n  a.corp:\n    auth: {username: robot, password: hunter2}\n",
    );
    node.file("certs.d/a.corp/ca.crt", &pem);
    node.file("certs.d/b.corp/ca.crt", &pem);
    let first = node.import(&["registries-yaml", "/registries.yaml"]);
    first.succeeds();
    let document = node.path("first.toml");
    std::fs::write(&document, &first.stdout).unwrap();
    let document = document.to_str().unwrap();
    let both = node.import(&["certs.d", "--into", document, "/certs.d"]);
    both.ends(0);
    assert!(both.stdout.starts_with(&first.stdout), "{both:?}");
    assert_eq!(roots(&both.stdout, "b.corp"), 1);
    both.says(&["a.corp: left out: the document's own entry \"a.corp\" holds for it"]);
    // Nothing that is left out is missed by who asks for it.
    let strict = node.import(&["certs.d", "--strict", "--into", document, "/certs.d"]);
    strict.fails(65, &["left out"]);
    let twice = node.import(&["registries-yaml", "--into", "-", "-"]);
    twice.fails(64, &["standard input twice"]);
    std::fs::write(document, "pasword = \"hunter2\"\n").unwrap();
    let invalid = node.import(&["certs.d", "--into", document, "/certs.d"]);
    invalid.fails(65, &["first.toml: pasword: line 1: "]);
}
