//! Realistic registry files become the documents that are expected, and what is hostile becomes
//! nothing else than findings.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod containerd_config;
mod hostile;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use credential_sources::certs_d::{Directory, HOSTS_TOML, HostsToml};
use credential_sources::registry_file::{Import, Written, certificates};
use credential_sources::{certs_d, registries_conf, registries_yaml};
use registry_config::{Credentials, Document, Match, Registry, RegistryHost};
use zeroize::Zeroizing;

/// What all secrets in the test files begin with, plain and in base64.
const SECRETS: [&str; 3] = ["hunter2", "aHVudGVyMi", "cm9ib3Q6aHVudGVyMi"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/registry_files").join(name)
}

/// Reads files with paths as in the test data, which stands for the whole file system.
pub fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let below = path.strip_prefix("/etc/ssl").unwrap_or(path);
    let read = std::fs::read(data("").join(below));
    read.map(Zeroizing::new).map_err(|error| error.kind().to_string())
}

fn directory(path: &Path) -> Directory {
    let mut files: Vec<String> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let hosts_toml = files.iter().position(|name| name == HOSTS_TOML);
    let hosts_toml = hosts_toml.map(|index| path.join(files.remove(index)));
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    Directory {
        path: Path::new("containerd").join(&name),
        hosts_toml: hosts_toml.map(|path| Ok(HostsToml(std::fs::read(path).unwrap().into()))),
        name,
        files,
    }
}

fn containerd() -> Import {
    let directories = std::fs::read_dir(data("containerd")).unwrap();
    let directories = directories.map(|entry| directory(&entry.unwrap().path()));
    certs_d::read(directories.collect(), &mut read_file)
}

/// No message shows a secret; the document alone may.
pub fn assert_silent(written: &Written) {
    let told = format!("{written:?}{}", findings(written));
    for secret in SECRETS {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
}

fn findings(written: &Written) -> String {
    let mut text = String::new();
    for finding in &written.report.findings {
        writeln!(text, "{:?}: {finding}", finding.loss).unwrap();
    }
    for fault in &written.report.faults {
        writeln!(text, "fault: {fault}").unwrap();
    }
    text
}

/// Compares with the stored files, or stores them where CONFIGDEV_BLESS is set: then read the
/// difference.
fn assert_golden(name: &str, written: &Written) {
    assert_silent(written);
    let document = written.document.as_ref().map_or("", |text| text.expose());
    assert!(Document::parse(document.as_bytes()).is_ok());
    for (kind, actual) in [("toml", document), ("findings", &findings(written))] {
        let path = data(&format!("{name}.expected.{kind}"));
        if std::env::var_os("CONFIGDEV_BLESS").is_some() {
            std::fs::write(&path, actual).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert_eq!(actual, expected, "{}", path.display());
    }
}

#[test]
fn containerds_directories_become_a_document() {
    assert_golden("containerd", &containerd().write(None));
}

#[test]
fn k3s_registries_become_a_document() {
    let text = std::fs::read(data("k3s.yaml")).unwrap();
    let import = registries_yaml::read(&text, "registries.yaml", &mut read_file);
    assert_golden("k3s", &import.write(None));
}

#[test]
fn podmans_registries_become_a_document() {
    let text = std::fs::read(data("registries.conf")).unwrap();
    assert_golden("registries.conf", &registries_conf::read(&text, "registries.conf").write(None));
}

#[test]
fn system_roots_stand_behind_the_files_own() {
    let system = read_file(Path::new("k3s-ca.pem")).unwrap();
    let (system, _) = certificates(&system).unwrap();
    let written = containerd().write(Some(&system));
    let text = written.document.as_ref().unwrap().expose();
    let document = Document::parse(text.as_bytes()).unwrap().document;
    let mut found = 0;
    for (name, registry) in document.registries.iter() {
        if let Some(roots) = registry.ca_certs.as_ref().filter(|roots| !roots.trusts_nobody()) {
            assert_eq!(roots.certificates().len(), 2, "{name}");
            found += 1;
        }
    }
    assert_eq!(found, 2);
    assert!(!findings(&written).contains("system"), "{}", findings(&written));
    assert_silent(&written);
}

/// The entry for a host of a document made of one `hosts.toml`.
fn imported(name: &str, hosts_toml: &str, host: &str) -> String {
    let directory = Directory {
        name: name.into(),
        path: Path::new("containerd").join(name),
        hosts_toml: Some(Ok(HostsToml(hosts_toml.as_bytes().to_vec().into()))),
        files: Vec::new(),
    };
    let written = certs_d::read(vec![directory], &mut read_file).write(None);
    let text = written.document.unwrap();
    let document = Document::parse(text.expose().as_bytes()).unwrap().document;
    let host = RegistryHost::parse(host).unwrap();
    let Some((name, entry)) = document.registries.literal_entry_for(&host) else {
        return "none".into();
    };
    let Registry {
        credentials,
        also: _,
        wants_anonymous: false,
        client: None,
        credentials_uri: None,
        credentials_optional: false,
        ca_certs,
        ca_certs_uri: None,
        insecure_skip_verify,
        plain_http,
        mirrors,
        blocked: _,
        mirror_fallback,
        addresses: _,
    } = entry
    else {
        panic!("a reference, which no registry file has");
    };
    let roots = ca_certs.as_ref().map(|roots| roots.certificates().len());
    let mirror = mirrors.first().map(|mirror| mirror.url().as_str());
    format!(
        "{name} {credentials:?} {roots:?} {insecure_skip_verify} {plain_http} {mirror:?} \
        {mirror_fallback}"
    )
}

#[test]
fn nothing_of_a_registry_is_lent_to_its_mirror() {
    let password = "[header]\nAuthorization = \"Basic cm9ib3Q6aHVudGVyMg==\"\n";
    let with_mirror = format!("{password}[host.\"https://m.corp:5000\"]\n");
    let anonymous = "Anonymous None false false None false";
    assert_eq!(imported("a.corp", &with_mirror, "m.corp:5000"), format!("m.corp:5000 {anonymous}"));
    assert_eq!(
        imported("a.corp", &with_mirror, "a.corp"),
        "a.corp. Basic { username: \"robot\", .. } None false false Some(\"https://m.corp:5000/\") \
        true"
    );
    // And nothing of a mirror goes to the registry.
    let of_mirror =
        "[host.\"http://m.corp\"]\nskip_verify = true\nca = \"../mirror.corp/ca.crt\"\n";
    assert_eq!(
        imported("a.corp", of_mirror, "m.corp:80"),
        "m.corp:80 Anonymous Some(1) true true None false"
    );
    assert_eq!(
        imported("a.corp", of_mirror, "a.corp"),
        "a.corp. Anonymous None false false Some(\"http://m.corp/\") true"
    );
}

#[test]
fn who_is_asked_is_kept() {
    let [own, forbidden] = ["None", "Some(0)"].map(|roots| (roots, "None false"));
    let mirror = |expected| ("None", expected);
    for (text, expected) in [
        ("server = \"https://a.corp\"", own),
        ("server = \"https://A.corp:443/v2/\"", own),
        ("server = \"m.corp/x\"", mirror("Some(\"https://m.corp/x\") false")),
        ("server = \"https://a.corp/x\"", mirror("Some(\"https://a.corp/x\") false")),
        ("[host.\"https://m.corp/v2\"]", mirror("Some(\"https://m.corp/\") true")),
        // Nobody can be asked without asking somebody else than the file says.
        ("server = \"https://m.corp/x\"\noverride_path = true", forbidden),
        ("server = \"https://m.corp\"\ncapabilities = [\"push\"]", forbidden),
        ("server = \"unix:///run/x\"", forbidden),
        (
            "server = \"https://m.corp\"\nrewrite = { '^a/' = \"b/\" }",
            mirror("Some(\"https://m.corp/\") false"),
        ),
        ("server = \"https://m.corp\"\nrewrite = { a = \"b\" }", forbidden),
        // Without a server, the root's capabilities have no part.
        ("capabilities = [\"push\"]", own),
        // After the registry itself there is no mirror.
        ("server = \"https://m.corp\"\n[host.\"https://a.corp\"]", own),
    ] {
        let (roots, mirror) = expected;
        let expected = format!("a.corp. Anonymous {roots} false false {mirror}");
        assert_eq!(imported("a.corp", text, "a.corp"), expected, "{text}");
    }
}

/// A mirror's own entry once let images be pulled that the file blocks: the entry for the mirror
/// stood before the blocked one.
#[test]
fn an_entry_for_a_mirror_lifts_no_ban() {
    for blocked in ["m.corp:1", "m.corp", "*.corp"] {
        let text = format!(
            "[[registry]]\nprefix = \"{blocked}\"\nblocked = true\n[[registry]]\nlocation \
            = \"a.org\"\n[[registry.mirror]]\nlocation = \"m.corp:1\"\ninsecure = true\n"
        );
        let written = registries_conf::read(text.as_bytes(), "registries.conf").write(None);
        assert!(findings(&written).contains("forbidden, by"), "{}", findings(&written));
        let text = written.document.unwrap();
        let document = Document::parse(text.expose().as_bytes()).unwrap().document;
        let host = RegistryHost::parse("m.corp:1").unwrap();
        let Match::Entry { entry, .. } = document.registries.entry_for(&host) else {
            panic!("{blocked}")
        };
        assert!(entry.ca_certs.as_ref().unwrap().trusts_nobody(), "{blocked}");
        // The registry is asked without its mirror.
        let host = RegistryHost::parse("a.org").unwrap();
        let (_, entry) = document.registries.literal_entry_for(&host).unwrap();
        assert!(entry.mirrors.is_empty() && entry.ca_certs.is_none());
    }
}

/// A password under `configs."*"`, which containerd sends to nobody, once became the document's for
/// every registry.
#[test]
fn credentials_for_all_registries_are_for_none() {
    for auth in [
        "{username: robot, password: hunter2}",
        "{identity_token: hunter2}",
        "{auth: cm9ib3Q6aHVudGVyMg==}",
    ] {
        let text = format!(
            "mirrors: {{\"*\": {{endpoint: [\"https://m.corp\"]}}}}\nconfigs: {{\"*\": {{auth: \
            {auth}, tls: {{insecure_skip_verify: true, ca_file: /etc/ssl/k3s-ca.pem}}}}}}\n"
        );
        let import = registries_yaml::read(text.as_bytes(), "registries.yaml", &mut read_file);
        let written = import.write(None);
        assert_silent(&written);
        let told = findings(&written);
        assert!(told.contains("Lost: registries.yaml: configs.\"*\".auth: left out: "), "{told}");
        let text = written.document.unwrap();
        for secret in SECRETS {
            assert!(!text.expose().contains(secret), "{auth}");
        }
        let document = Document::parse(text.expose().as_bytes()).unwrap().document;
        for host in ["a.corp", "m.corp"] {
            let host = RegistryHost::parse(host).unwrap();
            if let Match::Entry { entry, .. } = document.registries.entry_for(&host) {
                assert!(matches!(entry.credentials, Credentials::Anonymous));
            }
        }
        // How every registry is reached is kept.
        let host = RegistryHost::parse("a.corp").unwrap();
        let Match::Entry { entry, .. } = document.registries.entry_for(&host) else {
            panic!("{auth}")
        };
        assert!(entry.insecure_skip_verify && entry.mirror_fallback && !entry.mirrors.is_empty());
        assert_eq!(entry.ca_certs.as_ref().unwrap().certificates().len(), 1);
    }
}
