//! `kata-configdev import decryption-secret`, the built command, with keys that OpenSSL makes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use command::{Folder, Run, importer, run};
use puller_config::{DecryptionKey, Document, RegistryName};

use crate::command;

const PASSWORD: &str = "hunter2-password";

struct Import(Run);

impl std::ops::Deref for Import {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.0
    }
}

impl Import {
    /// The keys with their passwords.
    fn keys(&self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let document = Document::parse(self.stdout.as_bytes()).unwrap().document;
        let keys = document.decryption_keys.all.iter();
        keys.map(|key| match key {
            DecryptionKey::Given { key, password } => {
                (key.to_vec(), password.as_ref().map(|password| password.to_vec()))
            }
            DecryptionKey::Reference(reference) => (reference.to_string().into(), None),
        })
        .collect()
    }
}

/// Runs the import; its standard error shows no secret, and its standard output none unless it
/// succeeds.
fn import(arguments: &[&str], stdin: &str, secrets: &[&[u8]]) -> Import {
    let arguments = [&["import", "decryption-secret"], arguments].concat();
    let import = Import(importer(&[PASSWORD]).run_with(&arguments, stdin));
    let mut parts: Vec<String> = vec![PASSWORD.into(), STANDARD.encode(PASSWORD)];
    for secret in secrets {
        // A line from the middle of a PEM key, and the middle of any key's base64. The bytes of a
        // DER key have no lines: what stands between two of them may be a single letter.
        if let Ok(text) = std::str::from_utf8(secret) {
            parts.extend(text.lines().nth(2).map(str::to_owned));
        }
        let encoded = STANDARD.encode(secret);
        parts.push(encoded[40..80].to_owned());
    }
    for part in parts {
        assert!(!import.stderr.contains(&part), "{}", import.stderr);
        if import.code != 0 {
            assert!(!import.stdout.contains(&part), "{}", import.stdout);
        }
    }
    import
}

/// Runs OpenSSL, which takes a password from the environment.
fn openssl(arguments: &[&str], stdin: &[u8]) -> Vec<u8> {
    let mut child = Command::new("openssl")
        .args(arguments)
        .env("KEY_PASSWORD", PASSWORD)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

struct Keys {
    rsa_pkcs8: Vec<u8>,
    rsa_pkcs1: Vec<u8>,
    p384_sec1: Vec<u8>,
    p521_der: Vec<u8>,
    encrypted: Vec<u8>,
    ed25519: Vec<u8>,
    public: Vec<u8>,
}

impl Keys {
    fn make() -> Option<Self> {
        if Command::new("openssl").arg("version").output().is_err() {
            test_command::skip("openssl is not installed");
            return None;
        }
        let rsa_pkcs8 = openssl(&["genrsa", "2048"], b"");
        let p384_sec1 = openssl(&["ecparam", "-name", "secp384r1", "-genkey", "-noout"], b"");
        let p521 = openssl(&["ecparam", "-name", "secp521r1", "-genkey", "-noout"], b"");
        Some(Self {
            rsa_pkcs1: openssl(&["rsa", "-traditional"], &rsa_pkcs8),
            p521_der: openssl(&["pkcs8", "-topk8", "-nocrypt", "-outform", "DER"], &p521),
            encrypted: openssl(
                &["pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout", "env:KEY_PASSWORD"],
                &rsa_pkcs8,
            ),
            ed25519: openssl(&["genpkey", "-algorithm", "ed25519"], b""),
            public: openssl(&["pkey", "-pubout"], &rsa_pkcs8),
            rsa_pkcs8,
            p384_sec1,
        })
    }

    fn secrets(&self) -> [&[u8]; 5] {
        [&self.rsa_pkcs8, &self.rsa_pkcs1, &self.p384_sec1, &self.p521_der, &self.encrypted]
    }
}

fn manifest(values: &[(&str, &[u8])]) -> String {
    let data: String = values
        .iter()
        .map(|(name, value)| format!("  {name}: {}\n", STANDARD.encode(value)))
        .collect();
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: image-keys\n  namespace: \
        apps\ndata:\n{data}"
    )
}

#[test]
fn keys_of_openssl_become_a_document() {
    let Some(keys) = Keys::make() else { return };
    let folder = Folder::new();
    let secrets = keys.secrets();
    let all: Vec<_> = [
        (keys.rsa_pkcs8.clone(), None),
        (keys.rsa_pkcs1.clone(), None),
        (keys.p384_sec1.clone(), None),
        (keys.p521_der.clone(), None),
        (keys.encrypted.clone(), Some(PASSWORD.as_bytes().to_vec())),
    ]
    .into();
    let values: [(&str, &[u8]); 6] = [
        ("a", &keys.rsa_pkcs8),
        ("b", &keys.rsa_pkcs1),
        ("c", &keys.p384_sec1),
        ("d", &keys.p521_der),
        ("e", &keys.encrypted),
        ("e.password", PASSWORD.as_bytes()),
    ];
    let list: Vec<String> = all
        .iter()
        .map(|(key, password)| match password {
            Some(password) => format!("{}:{}", STANDARD.encode(key), STANDARD.encode(password)),
            None => STANDARD.encode(key),
        })
        .collect();
    let list = list.join(",");

    fs::create_dir(folder.path("mounted")).unwrap();
    fs::create_dir(folder.path("mounted/..data")).unwrap();
    for (name, value) in values {
        fs::write(folder.path(&format!("mounted/..data/{name}")), value).unwrap();
        let link = format!("..data/{name}");
        std::os::unix::fs::symlink(link, folder.path(&format!("mounted/{name}"))).unwrap();
    }
    let manifest_of = |values: &[(&str, &[u8])]| manifest(values);
    for (argument, stdin) in [
        (folder.text("mounted"), String::new()),
        ("-".into(), manifest_of(&values)),
        ("-".into(), manifest_of(&[("keys", list.as_bytes())])),
        ("-".into(), format!("{list}\n")),
        (folder.file("list", &list), String::new()),
    ] {
        let import = import(&["--strict", &argument], &stdin, &secrets);
        import.ends(0);
        assert_eq!(import.keys(), all, "{argument}");
        let told: Vec<_> = import.stderr.lines().collect();
        assert_eq!(told.len(), 5, "{told:?}");
        for (line, kind) in told.iter().zip(["RSA", "RSA", "P-384", "P-521", "RSA"]) {
            let what = format!(": a private key, {kind}");
            assert!(line.starts_with("note: ") && line.contains(&what), "{line}");
        }
    }

    // One file each, and the document that they are added to.
    let own = "# mine\n[registries.\"registry.corp\"]\nca-certs = \"none\"\n";
    let own = folder.file("own.toml", own);
    let rsa = folder.file("rsa.pem", &keys.rsa_pkcs8);
    let der = folder.file("p521.der", &keys.p521_der);
    let added = import(&["--into", &own, &rsa, &der], "", &secrets);
    added.ends(0);
    assert!(added.stdout.starts_with("# mine\n[registries.\"registry.corp\"]\n"));
    assert_eq!(added.keys(), [all[0].clone(), all[3].clone()]);
    let document = folder.file("complete.toml", &added.stdout);
    let check = run(&["check", &document]);
    check.ends(0);
    assert!(!check.stdout.contains("opens no image"), "{}", check.stdout);
    let image = folder.text("image");
    run(&["pack", "--config", &document, "--output", &image]).ends(0);
    let shown = run(&["inspect", &image]).stdout;
    assert!(shown.contains("keys = [\"[redacted]\", \"[redacted]\"]"), "{shown}");
}

/// The list as Kubernetes' proposal wrote it, for the images of one team.
#[test]
fn a_password_in_the_clear_opens_a_key_for_some_images() {
    let Some(keys) = Keys::make() else { return };
    let folder = Folder::new();
    let list = format!("{}:{PASSWORD}", STANDARD.encode(&keys.encrypted));
    let secret = manifest(&[("keys", list.as_bytes())]).replace(
        "  namespace: apps",
        "  namespace: apps\n  annotations: {images: \"registry.corp/team-b\"}",
    );
    for (only, name) in [
        (&[][..], "registry.corp/team-b"),
        (&["--for", "registry.corp/team-a"], "registry.corp/team-a"),
    ] {
        let import = import(&[&["-"], only].concat(), &secret, &keys.secrets());
        import.ends(0);
        let document = Document::parse(import.stdout.as_bytes()).unwrap().document;
        assert!(document.decryption_keys.all.is_empty());
        let of = &document.decryption_keys.of[&RegistryName::parse(name).unwrap()];
        let DecryptionKey::Given { key, password } = &of[0] else { panic!("a reference") };
        assert_eq!((&**key, of.len()), (&keys.encrypted, 1));
        assert_eq!(password.as_ref().unwrap().as_slice(), PASSWORD.as_bytes());
        let line =
            format!("keys: a private key, RSA; its password is written as it is, for {name}\n");
        assert!(import.stderr.ends_with(&line), "{}", import.stderr);
        let document = folder.file("document.toml", &import.stdout);
        let check = run(&["check", &document]);
        check.ends(0);
        assert!(!check.stdout.contains("opens no image"), "{}", check.stdout);
    }
    let wrong = format!("{}:another one", STANDARD.encode(&keys.encrypted));
    let import = import(&["-"], &manifest(&[("keys", wrong.as_bytes())]), &keys.secrets());
    import.ends(65);
    import.says(&["keys: left out: its password opens it neither as base64 nor as it stands"]);
    let refused = run(&["import", "decryption-secret", "--for", ".corp", "-"]);
    refused.ends(64);
    refused.says(&["--for", "names no single host"]);
}

/// As if nobody had asked for keys, as the proposal has it, but with a warning.
#[test]
fn a_secret_without_keys_adds_nothing() {
    let folder = Folder::new();
    let own = folder.file("own.toml", "# mine\n[decryption-keys]\nkeys = \"\"\n");
    for (secret, said) in [
        (manifest(&[]), "secret apps/image-keys: it has no key in it, and adds none"),
        (manifest(&[("keys", b"")]), "secret apps/image-keys: keys: left out: it is empty"),
    ] {
        let into = import(&["--into", &own, "-"], &secret, &[]);
        into.ends(0);
        assert_eq!(into.stdout, std::fs::read_to_string(&own).unwrap());
        assert!(
            into.stderr.starts_with("warning: ") && into.stderr.contains(said),
            "{}",
            into.stderr
        );
        import(&["--strict", "--into", &own, "-"], &secret, &[]).ends(65);
        import(&["-"], &secret, &[]).ends(65);
    }
    let check = run(&["check", &own]);
    check.ends(0);
    check.prints(&["warning: ", "decryption-keys.keys", "has no key, so that it opens no image"]);
}

#[test]
fn what_is_no_key_is_told_one_by_one() {
    let Some(keys) = Keys::make() else { return };
    let folder = Folder::new();
    let secrets = keys.secrets();
    let path = folder.file(
        "secret.yaml",
        manifest(&[
            ("a-good", &keys.p384_sec1),
            ("b-encrypted", &keys.encrypted),
            ("c-wrong", &keys.encrypted),
            ("c-wrong.password", b"another"),
            ("d-public", &keys.public),
            ("e-ed25519", &keys.ed25519),
            ("f-text", PASSWORD.as_bytes()),
        ]),
    );
    let source = format!("{path}: secret apps/image-keys");
    let loose = import(&[&path], "", &secrets);
    loose.ends(0);
    assert_eq!(loose.keys(), [(keys.p384_sec1.clone(), None)]);
    let lines: Vec<_> = loose.stderr.lines().collect();
    for (line, expected) in lines.iter().zip([
        "note: SOURCE: a-good: a private key, P-384",
        "warning: SOURCE: b-encrypted: left out: it is encrypted, and there is no password for it",
        "warning: SOURCE: c-wrong: left out: its password does not open it",
        "warning: SOURCE: d-public: left out: it is ",
        "warning: SOURCE: e-ed25519: left out: it is a private key of a kind that is not supported",
        "warning: SOURCE: f-text: left out: it is neither PEM nor DER nor JWK",
    ]) {
        assert!(line.starts_with(&expected.replace("SOURCE", &source)), "{line}");
    }
    assert_eq!(lines.len(), 6);

    let strict = import(&["--strict", &path], "", &secrets);
    assert_eq!((strict.code, strict.stdout.as_str()), (65, ""));
    assert_eq!(strict.stderr.matches("error: ").count(), 5);

    let json = import(&["--strict", "--json", &path], "", &secrets);
    assert_eq!((json.code, json.stderr.as_str()), (65, ""));
    let report: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(report["document"].is_null());
    assert_eq!(report["keys"], serde_json::json!([format!("{source}: a-good")]));
    assert_eq!(report["findings"][1]["key"], "b-encrypted");
    assert_eq!(report["findings"][1]["loss"], "lost");
    let json = import(&["--json", &path], "", &[]);
    let report: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let document = report["document"].as_str().unwrap();
    assert_eq!(document, loose.stdout);
}

#[test]
fn nothing_to_import_is_an_error() {
    let folder = Folder::new();
    fs::create_dir(folder.path("empty")).unwrap();
    for (argument, stdin, expected) in [
        (folder.text("empty"), "", "nothing is in it that a document can have"),
        ("-".into(), "", "standard input: it is empty"),
        ("-".into(), "kind: [", "no list of keys in base64, and it is not a manifest"),
        ("-".into(), "hunter2-password\u{1b}[2J", "it is not a manifest"),
    ] {
        let import = import(&[&argument], stdin, &[]);
        assert_eq!((import.code, import.stdout.as_str()), (65, ""), "{}", import.stderr);
        import.says(&[expected]);
    }
    let missing = import(&[&folder.text("missing")], "", &[]);
    missing.ends(65);
    let broken = folder.file("broken.toml", "password = \"hunter2-password\"");
    let import = import(&["--into", &broken, "-"], "kbs:///a/b/c", &[]);
    assert_eq!((import.code, import.stdout.as_str()), (65, ""));
    assert!(
        import.stderr.contains("error: ")
            && import.stderr.contains("password: line 1: unknown key"),
        "{}",
        import.stderr
    );
}

#[test]
fn keys_that_open_nothing_are_warned_about_by_check() {
    let folder = Folder::new();
    let path = folder.file(
        "document.toml",
        "[decryption-keys]\nkeys = [\"kbs:///a/b/c\", \"aHVudGVyMi1wYXNzd29yZA==\"]\n",
    );
    let check = run(&["check", &path]);
    check.ends(0);
    let line = format!(
        "{path}: warning: decryption-keys.keys, item 2: opens no image: it is neither PEM nor DER \
        nor JWK"
    );
    check.prints(&[&line]);
    assert!(!check.stdout.contains("item 1"), "{}", check.stdout);
}
