//! containerd's `config.toml`: versions, directories, credentials beside them, and the runtimes of
//! all files.

use std::collections::BTreeMap;
use std::path::Path;

use credential_sources::Loss;
use credential_sources::certs_d::{Directory, HostsToml};
use credential_sources::containerd_config::{self, MAX_CONTAINERD_CONFIGS, Runtime};
use credential_sources::node_files::{NodeFiles, Unread};
use credential_sources::registry_file::Written;
use zeroize::Zeroizing;

use super::{assert_silent, findings, read_file};

const MAIN: &str = "/etc/containerd/config.toml";

/// A node's files by path; the first one is the configuration.
struct Node<'n>(&'n [(&'n str, &'n str)]);

impl NodeFiles for Node<'_> {
    fn read(&mut self, path: &Path, _: usize) -> Result<Zeroizing<Vec<u8>>, Unread> {
        let file = self.0.iter().find(|(known, _)| Path::new(known) == path);
        let (_, text) = file.ok_or(Unread::Absent)?;
        Ok(text.as_bytes().to_vec().into())
    }

    fn list(&mut self, directory: &Path) -> Vec<String> {
        let below = self.0.iter().filter_map(|(path, _)| {
            let rest = Path::new(path).strip_prefix(directory).ok()?;
            Some(rest.iter().next()?.to_str()?.to_owned())
        });
        below.collect()
    }
}

/// What a file becomes, with a `hosts.toml` for each registry in each directory of `config_path`.
fn imported(text: &str, roots: &[&[(&str, &str)]]) -> Written {
    let config = containerd_config::read(text.as_bytes(), MAIN, Some(Loss::Lost));
    let paths = config.config_paths();
    let directories = roots.iter().zip(&paths).map(|(root, path)| {
        let directory = |(name, text): &(&str, &str)| Directory {
            name: (*name).to_owned(),
            path: path.join(name),
            hosts_toml: Some(Ok(HostsToml(text.as_bytes().to_vec().into()))),
            files: Vec::new(),
        };
        root.iter().map(directory).collect()
    });
    let directories = directories.collect();
    let written = config.import(directories, &mut read_file).write(None);
    assert_silent(&written);
    written
}

/// The document, or what is wrong.
fn document(written: &Written) -> &str {
    let text = written.document.as_ref();
    text.map_or("", |text| text.expose())
}

/// Each version's table, with its name, and one that its containerd does not read.
#[test]
fn each_version_has_its_table() {
    const OLD: &str = "plugins.\"io.containerd.grpc.v1.cri\"";
    const NEW: &str = "plugins.\"io.containerd.cri.v1.images\"";
    for (version, table, expected) in [
        ("", "plugins.cri", ""),
        ("version = 1\n", "plugins.cri", ""),
        ("", OLD, "only with \"version = 2\" in the file"),
        ("version = 2\n", OLD, ""),
        ("version = 3\n", NEW, ""),
        ("version = 4\n", NEW, ""),
        ("version = 2\n", "plugins.cri", "no such table in version 2"),
        ("version = 3\n", OLD, "no such table in version 3"),
    ] {
        let text = format!(
            "{version}[{table}.registry.configs.\"reg.corp\".auth]\nusername = \"robot\"\n\
             password = \"hunter2\"\n"
        );
        let written = imported(&text, &[]);
        let told = findings(&written);
        let is_read = !expected.contains("no such table");
        assert_eq!(document(&written).contains("reg.corp"), is_read, "{text}");
        assert_eq!(!expected.is_empty(), !told.is_empty(), "{told}");
        assert!(told.contains(expected), "{told}");
    }
    for version in ["-1", "5", "\"2\""] {
        let written = imported(&format!("version = {version}\n"), &[]);
        assert!(written.document.is_none(), "{version}");
    }
}

#[test]
fn mirrors_and_configs_become_entries() {
    let text = r#"
version = 2
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."docker.io"]
endpoint = ["https://m.corp", "https://n.corp:5000", "https://o.corp/other"]
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."*"]
endpoint = ["https://all.corp"]
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."bare.corp"]
[plugins."io.containerd.grpc.v1.cri".registry.configs."m.corp"]
auth = {username = "robot", password = "hunter2", identitytoken = "hunter2"}
tls = {ca_file = "/etc/ssl/k3s-ca.pem"}
[plugins."io.containerd.grpc.v1.cri".registry.configs."own.corp"]
auth = {auth = "cm9ib3Q6aHVudGVyMg=="}
tls = {insecure_skip_verify = true}
[plugins."io.containerd.grpc.v1.cri".registry.configs."*"]
auth = {identitytoken = "hunter2"}
[plugins."io.containerd.grpc.v1.cri".registry.auths."https://gcr.io/v2"]
identitytoken = "hunter2"
[plugins."io.containerd.grpc.v1.cri".registry.headers]
X-Team = ["hunter2"]
[plugins."io.containerd.grpc.v1.cri".registry]
unknown = "hunter2"
"#;
    super::assert_golden("containerd-config", &imported(text, &[]));
}

#[test]
fn what_stops_containerd_is_a_fault() {
    for (text, expected) in [
        ("imports = 1", "imports: expected string or array of strings"),
        ("plugins = 1", "plugins: expected table"),
        ("hunter2", "not TOML at line 1"),
        (
            "[plugins.cri.registry]\nconfig_path = [\"hunter2\"]",
            "config_path: expected string, found array",
        ),
    ] {
        let written = imported(text, &[]);
        assert!(written.document.is_none(), "{text}");
        assert!(findings(&written).contains(expected), "{}", findings(&written));
    }
}

/// The runtimes of the first file and of those that it imports, and what is wrong with these.
fn runtimes(files: &[(&str, &str)]) -> (BTreeMap<String, Runtime>, String) {
    let text = files[0].1.as_bytes().to_vec().into();
    let (runtimes, report) =
        containerd_config::runtimes(text, Path::new(files[0].0), &mut Node(files));
    let faults: Vec<_> = report.faults.iter().map(ToString::to_string).collect();
    (runtimes, faults.join("\n"))
}

/// Rows: what files say of two keys, and what counts.
#[test]
fn runtimes_are_those_of_all_files() {
    let table = |path: &str, rest: &str| {
        format!(
            "{rest}\n[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.kata]\n\
             runtime_path = \"{path}\"\n"
        )
    };
    let main = "version = 3\nimports = [\"conf.d/*.toml\", \"last.toml\", \"config.toml\"]";
    let main = table("main", main) + "pod_annotations = [\"io.katacontainers.*\"]\n";
    let (first, second) = (table("a", "version = 3"), table("b", "version = 3"));
    let again = table("last", "imports = [\"/etc/../etc/containerd/config.toml\"]");
    let (found, faults) = runtimes(&[
        (MAIN, &main),
        ("/etc/containerd/conf.d/b.toml", &second),
        ("/etc/containerd/conf.d/.a.toml", &first),
        ("/etc/containerd/conf.d/c.tml", "not read"),
        ("/etc/containerd/last.toml", &again),
    ]);
    // Keys of one table are merged, and of each the last file's counts.
    assert_eq!(faults, "");
    assert_eq!(found["kata"].program.as_deref(), Some("last"));
    assert_eq!(found["kata"].source, "/etc/containerd/last.toml");
    assert!(found["kata"].passes("io.katacontainers.x"));
    // Those of an imported file come behind all of the importing one.
    let one = table("one", "version = 3\nimports = [\"nested.toml\"]");
    let (found, _) = runtimes(&[
        (MAIN, "version = 3\nimports = [\"one.toml\", \"two.toml\"]\n"),
        ("/etc/containerd/one.toml", &one),
        ("/etc/containerd/nested.toml", &table("nested", "version = 3")),
        ("/etc/containerd/two.toml", &second),
    ]);
    assert_eq!(found["kata"].program.as_deref(), Some("nested"));
}

#[test]
fn files_that_cannot_be_imported_are_faults() {
    let many: Vec<_> =
        (0..MAX_CONTAINERD_CONFIGS).map(|number| format!("\"{number}.toml\"")).collect();
    let many = format!("imports = [{}]", many.join(","));
    for (text, expected) in [
        ("imports = [\"missing.toml\"]", "/etc/containerd/missing.toml: it is not there"),
        ("imports = [\"[*\"]", "a malformed pattern"),
        ("imports = 1", "imports: expected string or array of strings"),
        (many.as_str(), "more than 64 files in all"),
        ("hunter2", "not TOML at line 1"),
    ] {
        let (_, faults) = runtimes(&[(MAIN, text)]);
        assert!(faults.contains(expected), "{faults}");
    }
    // A pattern without a file is none.
    let text = "imports = [\"conf.d/*.toml\", \"/x/*/y.toml\"]";
    assert_eq!(runtimes(&[(MAIN, text)]).1, "");
}

const DIRECTORIES: &str = r#"
version = 2
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "/etc/containerd/certs.d:/etc/docker/certs.d"
[plugins."io.containerd.grpc.v1.cri".registry.configs."m.corp".auth]
username = "mirror"
password = "hunter2"
[plugins."io.containerd.grpc.v1.cri".registry.configs."own.corp".auth]
username = "own"
password = "hunter2"
[plugins."io.containerd.grpc.v1.cri".registry.configs."head.corp".auth]
username = "unused"
password = "hunter2"
"#;

/// Mirrors come from the directories, passwords from the file: a password goes to the host that it
/// is for, and to no other.
#[test]
fn credentials_stand_beside_directories() {
    let header = "[header]\nAuthorization = \"Bearer hunter2\"\n";
    let roots: [&[(&str, &str)]; 2] = [
        &[
            ("reg.corp", "[host.\"https://m.corp\"]\nca = \"/etc/ssl/k3s-ca.pem\"\n"),
            ("head.corp", header),
        ],
        &[("reg.corp", "skip_verify = true\n"), ("_default", "[host.\"https://all.corp\"]\n")],
    ];
    super::assert_golden("config_path", &imported(DIRECTORIES, &roots));
}

/// A host was asked anonymously where its password could not be read.
#[test]
fn credentials_that_cannot_be_read_forbid_their_host() {
    let text = DIRECTORIES.replace("username = \"own\"\n", "");
    let written = imported(&text, &[&[("own.corp", "")]]);
    assert!(document(&written).contains("[registries.\"own.corp\"]\nca-certs = \"forbidden"));
}

#[test]
fn what_has_no_effect_beside_directories_is_told() {
    let text = format!(
        "{DIRECTORIES}[plugins.\"io.containerd.grpc.v1.cri\".registry.configs.\"own.corp\".tls]\n\
         insecure_skip_verify = true\n\
         [plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors.\"a.corp\"]\n\
         endpoint = [\"https://b.corp\"]\n"
    );
    let roots: [&[(&str, &str)]; 2] = [&[("_default", "")], &[("reg.corp", "")]];
    let written = imported(&text, &roots);
    let told = findings(&written);
    for expected in [
        "mirrors.\"a.corp\": left out: containerd refuses it beside \"config_path\"",
        "configs.\"own.corp\".tls: left out: containerd refuses it beside \"config_path\"",
        "/etc/docker/certs.d/reg.corp: left out: containerd goes by /etc/containerd/certs.d/_default",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    let text = document(&written);
    assert!(!text.contains("b.corp") && !text.contains("insecure"), "{text}");
}

/// containerd 2.2 and later look into two directories where nothing is set.
#[test]
fn the_default_directories_are_told() {
    for (text, expected) in [
        ("version = 3\n", 2),
        ("version = 2\n", 0),
        ("version = 3\n[plugins.\"io.containerd.cri.v1.images\".registry.mirrors.\"a.corp\"]\n", 0),
    ] {
        let config = containerd_config::read(text.as_bytes(), "-", None);
        assert_eq!(config.config_paths().len(), expected, "{text}");
    }
    let roots: [&[(&str, &str)]; 1] = [&[("reg.corp", "skip_verify = true\n")]];
    let written = imported("version = 3\n", &roots);
    assert!(document(&written).contains("insecure-skip-verify"));
    assert!(findings(&written).contains("where containerd 2.2 and later look"));
}

/// A node whose images all went to the guest was told that none do.
#[test]
fn a_runtime_without_a_snapshotter_has_that_of_all() {
    let two = "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\nsnapshotter = \"nydus\"\n\
        [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.kata]\n";
    let three = "[plugins.\"io.containerd.cri.v1.images\"]\nsnapshotter = \"nydus\"\n\
        [plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.kata]\n";
    for (version, text) in [(2, two), (3, three)] {
        for (own, expected) in [("", "nydus"), ("snapshotter = \"overlayfs\"\n", "overlayfs")] {
            let text = format!("version = {version}\n{text}{own}");
            let (found, _) = runtimes(&[(MAIN, &text)]);
            assert_eq!(found["kata"].snapshotter.as_deref(), Some(expected), "{text}");
        }
    }
}

#[test]
fn containerd_2_reads_no_tls_table() {
    let text = "version = 3\n[plugins.\"io.containerd.cri.v1.images\".registry.configs.\"r.corp\"]\n\
        tls = {insecure_skip_verify = true}\nauth = {identitytoken = \"hunter2\"}\n";
    let written = imported(text, &[]);
    assert!(!document(&written).contains("insecure"));
    assert!(findings(&written).contains("tls: left out: containerd 2 has no such table"));
}
