//! Broken and hostile files: faults without a word of their content, bounded in number.

use std::path::Path;

use credential_sources::certs_d::{self, Directory, HostsToml};
use credential_sources::registry_file::{Import, MAX_FINDINGS, Written, certificates};
use credential_sources::{registries_conf, registries_yaml};
use proptest::prelude::*;
use registry_config::{Document, MAX_DOCUMENT_BYTES, Roots};

use super::{assert_silent, findings, read_file};

fn hosts(name: &str, text: &str) -> Import {
    let directory = Directory {
        name: name.into(),
        path: Path::new("containerd").join(name),
        hosts_toml: Some(Ok(HostsToml(text.as_bytes().to_vec().into()))),
        files: Vec::new(),
    };
    certs_d::read(vec![directory], &mut read_file)
}

fn yaml(text: &str) -> Import {
    registries_yaml::read(text.as_bytes(), "registries.yaml", &mut read_file)
}

fn conf(text: &str) -> Import {
    registries_conf::read(text.as_bytes(), "registries.conf")
}

fn assert_fault(import: Import, expected: &str) {
    let written = import.write(None);
    assert_silent(&written);
    assert!(written.document.is_none(), "{written:?}");
    let told: Vec<_> = written.report.faults.iter().map(ToString::to_string).collect();
    let found = told.iter().any(|fault| fault.contains(expected));
    assert!(found, "{expected} in {:?} and so on", &told[..1]);
}

#[test]
fn broken_files_are_faults() {
    for (text, expected) in [
        ("mirrors: [hunter2]", "not YAML of the form"),
        ("configs:\n  a:\n    auth:\n      password: [hunter2]", "at line 4"),
        ("configs: {a: {}, a: {}}", "not YAML of the form"),
        ("a: &a [*a]\nmirrors: *a", "not YAML of the form"),
        ("\"hunter2", "not YAML of the form"),
    ] {
        assert_fault(yaml(text), expected);
    }
    for (text, expected) in [
        ("registry = \"hunter2\"", "registry: expected array of tables"),
        ("registry = [\"hunter2\"]", "registry[0]: expected table"),
        ("=hunter2", "not TOML at line 1"),
    ] {
        assert_fault(conf(text), expected);
    }
}

/// One bad entry once ended the import of all.
#[test]
fn bad_entries_are_forbidden_or_lose_what_is_bad() {
    let forbidden = UNUSABLE;
    let long = format!("# {}", "hunter2 ".repeat(10_000));
    let first = |url: &str, rest: &str| format!("mirror = \"https://{url}\"\n{rest}");
    for (text, told, entry) in [
        ("\n\nserver = 1", "server: left out: expected string, found integer", forbidden),
        ("skip_verify = \"hunter2\"", "skip_verify: left out: expected boolean", forbidden),
        ("ca = [\"a\", 1]", "ca: left out: expected string or array of strings", forbidden),
        ("ca = \"missing.crt\"", "reg.corp/missing.crt: left out: ", forbidden),
        ("ca = \"../../k3s.yaml\"", "left out: the file has no certificate", forbidden),
        ("host = \"hunter2\"", "host: left out: expected table, found string", forbidden),
        ("[host.\"https://m.corp\"]\nskip_verify = 1", "skip_verify: left out: ", forbidden),
        ("server = \"hunter2", "hosts.toml: left out: not TOML at line 1", forbidden),
        (&long, "hosts.toml: left out: the file has more than 65536 bytes", forbidden),
        // Without its credentials a host was once asked anonymously.
        ("[header]\nAuthorization = \"hunter2\"", "neither \"Basic\" with a", forbidden),
        ("[header]\nAuthorization = \"Bearer hunter2 hunter2\"", "a bearer token", forbidden),
        ("[header]\nAuthorization = \"Basic cm9ib3Q6aHVudGVyMgo=\"", "line end", forbidden),
        ("client = 1", "client: left out: expected array, found integer", forbidden),
        ("client = [[1]]", "client, item 1: left out: neither a file nor a pair", forbidden),
        ("client = \"missing.cert\"", "client: left out: containerd/reg.corp/missing", forbidden),
        // Nothing is pulled from it, so nothing is lost.
        (
            "[host.\"https://m.corp\"]\ncapabilities = [\"push\"]\nca = \"missing.crt\"",
            "m.corp\": has no part: nothing is pulled from it",
            "",
        ),
        // The public CAs count for a host for which the file names none, and for no other.
        (
            "[host.\"https://m.corp\"]\nca = \"missing.crt\"\n[host.\"https://n.corp\"]",
            "missing.crt: left out: ",
            &first("n.corp", "mirror-fallback = true\n"),
        ),
        (
            "ca = \"missing.crt\"\n[host.\"https://m.corp\"]",
            "missing.crt: left out: ",
            &first("m.corp", ""),
        ),
        (
            "ca = [\"missing.crt\", \"../mirror.corp/ca.crt\"]",
            "missing.crt: left out: ",
            "ca-certs = \"\"\"\n-----BEGIN",
        ),
        (
            &format!("[host.\"https://m.corp/{}\"]", "a".repeat(5000)),
            "left out: ",
            "ca-certs = \"forbidden: the imported file has a mirror asked first",
        ),
    ] {
        assert_left_out(hosts("reg.corp", text), told, entry);
    }
    for (config, told, entry) in [
        ("{auth: {auth: hunter2}}", "auth.auth: left out: not base64", forbidden),
        ("{auth: {password: hunter2}}", "auth: password is left out: there is no", forbidden),
        ("{tls: {ca_file: hunter2.crt}}", "ca_file: left out: not an absolute path", forbidden),
        ("{tls: {ca_file: /missing}}", "ca_file: left out: /missing: entity", forbidden),
    ] {
        let good = "good.corp: {auth: {username: robot, password: hunter2}}";
        let import = yaml(&format!("configs: {{reg.corp: {config}, {good}}}"));
        assert!(import.entries.iter().any(|entry| !entry.registry.credentials.is_anonymous()));
        assert_left_out(import, told, entry);
    }
    for (keys, told, entry) in [
        ("insecure = \"hunter2\"", "registry[0].insecure: expected boolean", "ca-certs = "),
        ("location = [\"hunter2\"]", "registry[0].location: expected string", "ca-certs = "),
        ("mirror = [\"hunter2\"]", "registry[0].mirror[0]: expected table", "ca-certs = "),
        (
            "mirror = [{location = 1}, {location = \"m.corp\"}]",
            "registry[0].mirror[0].location: expected string",
            &first("m.corp", ""),
        ),
    ] {
        let good = "[[registry]]\nlocation = \"good.corp\"\ninsecure = true\n";
        let import = conf(&format!("[[registry]]\nprefix = \"reg.corp\"\n{keys}\n{good}"));
        assert!(import.entries.iter().any(|entry| entry.registry.insecure_skip_verify));
        assert_left_out(import, told, entry);
    }
}

/// A block was once left out with its table, and a mirror with the table around it.
#[test]
fn no_table_of_registries_conf_loses_what_forbids() {
    let mirrored = |prefix: &str, rest: &str, mirror: &str| {
        format!(
            "[[registry]]\nprefix = \"{prefix}\"\n{rest}\n[[registry.mirror]]\nlocation = {mirror}\n"
        )
    };
    let table = |prefix: &str, rest: &str| format!("[[registry]]\nprefix = \"{prefix}\"\n{rest}\n");
    let lost = "ca-certs = \"forbidden: the imported file has a mirror asked first that this document \
        cannot say\"\n";
    let beside = |mirror: &str| {
        let mirror = format!("  {mirror},\n").replace("  ,\n", "");
        format!("mirrors = [\n{mirror}  {{prefix = \"secret\", fallback = false}},\n]\n")
    };
    let first = beside("\"https://n.corp\"") + "mirror-fallback = true\n";
    for (tables, expected) in [
        // A mirror's own table is mistyped.
        (
            [mirrored("reg.corp", "", "\"m.corp\""), table("m.corp", "insecure = \"true\"")],
            lost.to_owned(),
        ),
        ([mirrored("reg.corp/secret", "", "1"), String::new()], beside("")),
        ([table("reg.corp/secret", "blocked = 1"), table("reg.corp", "")], beside("")),
        (
            [
                mirrored("reg.corp/secret", "blocked = true", "\"m.corp/secret\""),
                mirrored("reg.corp", "", "\"n.corp\""),
            ],
            first.clone(),
        ),
        (
            [table("reg.corp/secret", "blocked = 1"), mirrored("reg.corp", "", "\"n.corp\"")],
            first.clone(),
        ),
        (
            [
                mirrored("reg.corp/secret", "blocked = true", "\"https://x\""),
                mirrored("reg.corp/a", "", "\"n.corp/a\""),
            ],
            beside("{url = \"https://n.corp\", prefix = \"a\"}") + "mirror-fallback = true\n",
        ),
        // The entry of the host is that of its domain.
        (
            [
                table("reg.corp/secret", "blocked = true"),
                mirrored("*.corp", "insecure = true", "\"n.corp\""),
            ],
            format!("insecure-skip-verify = true\n{first}"),
        ),
    ] {
        let written = conf(&tables.concat()).write(None);
        let document = written.document.as_ref().unwrap().expose();
        let entry = format!("[registries.\"reg.corp\"]\n{expected}");
        assert!(document.contains(&entry), "{tables:?}: {document}");
    }
    for (text, key) in [
        (mirrored("reg.corp", "", "\"m.corp\"").replace("\"reg.corp\"", "[\"hunter2\"]"), "prefix"),
        ("[[registry]]\nprefix = 1\nlocation = \"reg.corp\"".to_owned(), "prefix"),
        ("[[registry]]\nlocation = 1\nblocked = true".to_owned(), "location"),
    ] {
        assert_fault(conf(&text), &format!("registry[0].{key}: expected string"));
    }
}

const UNUSABLE: &str =
    "ca-certs = \"forbidden: the settings that the imported file has for it cannot be used\"\n";

/// What is bad is told, and this is the beginning of what is left of `reg.corp`.
fn assert_left_out(import: Import, told: &str, entry: &str) {
    let written = import.write(None);
    assert_silent(&written);
    let all = findings(&written);
    assert!(all.contains(told) && written.report.faults.is_empty(), "{told} in {all}");
    let document = written.document.as_ref().unwrap().expose();
    let (_, found) = document.split_once("[registries.\"reg.corp\"]\n").unwrap();
    let found = found.split_inclusive("\n\n").next().unwrap_or_default();
    assert!(found.starts_with(entry) && (entry.is_empty() == found.trim().is_empty()), "{found}");
}

/// A key at the top of registries.yaml was once shown as it stood, with its control characters and
/// what looked like a password.
#[test]
fn names_of_files_cannot_forge_messages() {
    let name = "robot:hunter2@reg.corp\\u001b[2J\\n";
    let quoted = format!("\"{name}\"");
    for import in [
        yaml(&format!(
            "{quoted}: 1\nmirrors: {{{quoted}: {{{quoted}: 1, endpoint: [{quoted}]}}}}\nconfigs: \
            {{{quoted}: {{{quoted}: 1, tls: {{{quoted}: 1}}}}}}"
        )),
        conf(&format!(
            "{quoted} = 1\n[[registry]]\nlocation = {quoted}\n{quoted} = \
            1\n[[registry.mirror]]\nlocation = {quoted}\n{quoted} = 1"
        )),
        hosts(
            "robot:hunter2@reg.corp\u{1b}[2J\n",
            &format!("server = {quoted}\n{quoted} = 1\n[host.{quoted}]\n[header]\n{quoted} = 1"),
        ),
    ] {
        let written = import.write(None);
        assert_silent(&written);
        assert!(written.report.findings.len() > 2, "{written:?}");
        for finding in written.report.findings.iter().chain(&written.report.faults) {
            assert!(!finding.to_string().contains(char::is_control), "{finding}");
        }
    }
}

/// What the fuzzer once found: a key that goes on over lines, with tabs, was shown as it stood.
#[test]
fn tabs_in_a_key_stay_out_of_messages() {
    let bytes = include_bytes!("../../fuzz/seeds/registries_yaml/tabs-in-key.yaml");
    let written = registries_yaml::read(bytes, "registries.yaml", &mut read_file).write(None);
    assert_sound(&written);
    assert!(!written.report.findings.is_empty(), "{written:?}");
    for finding in written.report.findings.iter().chain(&written.report.faults) {
        assert!(!finding.to_string().contains(char::is_control), "{finding}");
    }
}

#[test]
fn a_hostile_number_of_anything_is_bounded() {
    let keys: String = (0..5000).map(|number| format!("k{number} = 1\n")).collect();
    let written = hosts("reg.corp", &keys).write(None);
    assert_eq!((written.report.findings.len(), written.report.unlisted), (MAX_FINDINGS, 4000));

    let config = "{auth: {username: a, password: b}}";
    let registries: String = (0..1100).map(|n| format!(" r{n}: {config}\n")).collect();
    assert_fault(yaml(&format!("configs:\n{registries}")), "more than 1024 registries");

    // One large secret, referred to by many endpoints, is held once.
    let password = "hunter2".repeat(2000);
    let endpoints = "https://a.corp,".repeat(10_000);
    let text = format!(
        "configs: {{a.corp: {{auth: {{username: a, password: {password}}}}}}}\nmirrors: {{b.corp: \
        {{endpoint: [{endpoints}]}}}}"
    );
    let import = yaml(&text);
    assert_eq!((import.entries.len(), import.report.faults.len()), (2, 0));

    // Many names for a large CA file.
    let ca = "\"../mirror.corp/ca.crt\",".repeat(1500);
    assert_fault(hosts("reg.corp", &format!("ca = [{ca}]")), "more than 1024 files");
}

#[test]
fn system_roots_that_do_not_fit_are_a_fault_that_says_so() {
    let system = system_of(400);
    let registries: String = (0..8)
        .map(|n| format!("  r{n}.corp: {{tls: {{ca_file: /etc/ssl/k3s-ca.pem}}}}\n"))
        .collect();
    let import = yaml(&format!("configs:\n{registries}"));
    let written = import.clone().write(Some(&system));
    assert!(written.document.is_none());
    let fault = written.report.faults[0].to_string();
    assert!(
        fault.contains(&format!("at most {MAX_DOCUMENT_BYTES}"))
            && fault.contains("each of 8 entries"),
        "{fault}"
    );
    let written = import.write(Some(&system_of(512)));
    let fault = written.report.faults[0].to_string();
    assert!(fault.contains("513 certificates, 512 of them the system's"), "{fault}");
}

/// So many certificates, distinct in their serial numbers alone.
fn system_of(count: usize) -> Roots {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let pem = String::from_utf8(read_file(Path::new("k3s-ca.pem")).unwrap().to_vec()).unwrap();
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let mut der = STANDARD.decode(body).unwrap();
    let mut text = String::new();
    for serial in 0..count {
        der[16..18].copy_from_slice(&u16::try_from(serial).unwrap().to_be_bytes());
        let body = STANDARD.encode(&der);
        text += &format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
    }
    let (roots, _) = certificates(text.as_bytes()).unwrap();
    assert_eq!(roots.certificates().len(), count);
    roots
}

/// Whatever is written is a document.
fn assert_sound(written: &Written) {
    if let Some(text) = &written.document {
        assert!(Document::parse(text.expose().as_bytes()).is_ok());
    } else {
        assert!(!written.report.faults.is_empty());
    }
}

fn host() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a.corp",
        "a.corp:5000",
        "b.corp",
        "docker.io",
        "registry-1.docker.io",
        "[::1]:5000",
        "A.Corp:443",
    ])
}

fn address() -> impl Strategy<Value = String> {
    let scheme = prop::sample::select(vec!["", "http://", "https://"]);
    let path = prop::sample::select(vec!["", "/", "/v2", "/x", "/x/v2", "/v2/x"]);
    (scheme, host(), path).prop_map(|(scheme, host, path)| format!("{scheme}{host}{path}"))
}

proptest! {
    #[test]
    fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        for import in [hosts("reg.corp", &text), yaml(&text), conf(&text), hosts(&text, "")] {
            assert_sound(&import.write(None));
        }
    }

    #[test]
    fn combinations_of_hosts_make_documents(
        directories in prop::collection::vec(
            (
                prop_oneof![host(), Just("_default")],
                prop::option::of(address()),
                prop::collection::vec((address(), any::<bool>(), any::<bool>()), 0..3),
                any::<bool>(),
            ),
            0..6,
        ),
    ) {
        let directories = directories.into_iter().map(|(name, server, hosts, skip)| {
            let mut text = format!("skip_verify = {skip}\n");
            if let Some(server) = server {
                text += &format!("server = \"{server}\"\n");
            }
            for (index, (address, is_exact, has_password)) in hosts.iter().enumerate() {
                // Two tables of one name would be no TOML.
                if hosts[..index].iter().any(|(known, ..)| known == address) {
                    continue;
                }
                text += &format!("[host.\"{address}\"]\noverride_path = {is_exact}\n");
                if *has_password {
                    text += "header = { Authorization = \"Basic cm9ib3Q6aHVudGVyMg==\" }\nca \
                    = \"../mirror.corp/ca.crt\"\n";
                }
            }
            Directory {
                name: name.into(),
                path: Path::new("containerd/x").into(),
                hosts_toml: Some(Ok(HostsToml(text.into_bytes().into()))),
                files: Vec::new(),
            }
        });
        let written = certs_d::read(directories.collect(), &mut read_file).write(None);
        prop_assert!(written.document.is_some(), "{:?}", written.report.faults);
        assert_sound(&written);
    }
}

/// A directory of Docker's with these files, and perhaps a `hosts.toml`. They are those of the test
/// data, by their endings.
fn directory_with(files: &[&str], hosts_toml: Option<&str>) -> Import {
    let directory = Directory {
        name: "reg.corp".into(),
        path: Path::new("/etc/certs.d/reg.corp").into(),
        hosts_toml: hosts_toml.map(|text| Ok(HostsToml(text.as_bytes().to_vec().into()))),
        files: files.iter().map(|name| (*name).to_owned()).collect(),
    };
    certs_d::read(vec![directory], &mut |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let name = match extension {
            Some("key") if path.ends_with("other.key") => "other.key",
            Some("key") => "client.key",
            Some("cert") => "client.pem",
            _ => "k3s-ca.pem",
        };
        read_file(Path::new(name))
    })
}

/// containerd, Docker and K3s fail at each of them.
#[test]
fn client_certificates_without_their_keys_forbid_their_hosts() {
    let pair = |certificate: &str, key: &str| {
        format!("configs:\n  reg.corp:\n    tls: {{{certificate}{key}}}\n")
    };
    let certificate = "cert_file: /etc/ssl/client.pem,";
    for (certificate, key, expected) in [
        (certificate, "", "tls: left out: cert_file and key_file must stand"),
        ("", "key_file: /etc/ssl/client.key", "tls: left out: cert_file and key_file"),
        (
            certificate,
            "key_file: /etc/ssl/client.pem",
            "tls.cert_file: left out: the file has no private key",
        ),
        (certificate, "key_file: /etc/ssl/none.key", "none.key: entity not found"),
        ("cert_file: /etc/ssl/client.key,", "key_file: /etc/ssl/client.key", "no certificate"),
    ] {
        assert_left_out(yaml(&pair(certificate, key)), expected, UNUSABLE);
    }
    let mismatch = "\"client-key\" is not the key of \"client-cert\"";
    let named = "client = [[\"x.cert\", \"other.key\"]]\n";
    assert_left_out(directory_with(&[], Some(named)), mismatch, UNUSABLE);
    assert_left_out(directory_with(&["other.cert", "other.key"], None), mismatch, UNUSABLE);
    // Docker's directory with half a pair.
    assert_left_out(directory_with(&["x.cert"], None), "the file has no private key", UNUSABLE);
    let named = "client = \"x.cert\"\n";
    assert_left_out(directory_with(&[], Some(named)), "has no private key", UNUSABLE);
    let alone = directory_with(&["x.key", "y.crt"], None).write(None);
    assert!(alone.document.is_some());
    assert!(findings(&alone).contains("x.key: left out: no certificate (*.cert)"));
}

/// They would count if there were no `hosts.toml`, so whoever put them there expects something.
#[test]
fn certificates_beside_hosts_toml_are_told_unless_it_names_them() {
    let files = ["ca.crt", "client.cert", "client.key", "own.crt", "README"];
    let hosts = "ca = \"own.crt\"\n[host.\"https://m.corp\"]\n\
        client = [[\"named.cert\", \"client.key\"]]\n";
    let written = directory_with(&files, Some(hosts)).write(None);
    let told = findings(&written);
    for (file, expected) in [
        ("ca.crt", true),
        ("client.cert", true),
        ("client.key", false),
        ("own.crt", false),
        ("README", false),
    ] {
        let text = format!("hosts.toml: {file} has no effect beside this file");
        assert_eq!(told.contains(&text), expected, "{told}");
    }
}
