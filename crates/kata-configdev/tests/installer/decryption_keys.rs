//! Keys of encrypted images in the document, as the program installs them.

use std::fs;
use std::path::PathBuf;

use registry_config::{DecryptionKey, Document};
use test_command::wait_until;

use crate::installer::machine::{DOCUMENT, Machine, PASSWORD, SETTINGS, document, mode};
use crate::installer::process::{Watching, program, run};

/// Made by OpenSSL, one key in two forms and another one.
const PLAIN: &str = include_str!("../../../credential-sources/tests/data/decryption_keys/p256.pem");
const ENCRYPTED: &str =
    include_str!("../../../credential-sources/tests/data/decryption_keys/p256-encrypted.pem");
const JWK: &str = include_str!("../../../credential-sources/tests/data/decryption_keys/p256.jwk");

/// Runs the program; its log holds nothing that went in.
fn installed(machine: &Machine) -> (Option<i32>, String) {
    let (code, log) = run(program(machine, "install"));
    require_no_secret(&log);
    (code, log)
}

fn require_no_secret(log: &str) {
    // Lines of the keys, the same in base64 once more, and a password.
    for secret in ["MIGH", "MIHs", "TUlHS", "BEGIN", "LS0tLS1", "\"d\": \"", PASSWORD, "dGVzdA"] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}

/// A machine whose set takes keys from these places.
fn machine(places: &[&str]) -> Machine {
    let mut machine = Machine::new();
    let places: Vec<PathBuf> = places.iter().map(|place| machine.path(place)).collect();
    machine.more = format!("decryption-keys = {places:?}\n");
    machine
}

/// The keys that are installed, a password behind a bar.
fn keys(machine: &Machine) -> Vec<String> {
    let text = fs::read(machine.host(DOCUMENT)).unwrap();
    let text_of = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let shown = |key: &DecryptionKey| match key {
        DecryptionKey::Given { key, password } => {
            let password = password.as_ref().map(|password| format!("|{}", text_of(password)));
            text_of(key) + &password.unwrap_or_default()
        }
        DecryptionKey::Reference(reference) => reference.to_string(),
    };
    let document = Document::parse(&text).unwrap().document;
    document.decryption_keys.all.iter().map(shown).collect()
}

#[test]
fn keys_of_secrets_are_all_there_is_or_join_the_document() {
    let mut machine = machine(&["one", "two", "file"]);
    // Nothing is mounted yet.
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("file have not arrived on this node (absent, empty"), "{log}");
    assert!(machine.has_stand_in());

    machine.mount_other("one", &[("a.pem", ENCRYPTED), ("a.pem.password", "test\n")]);
    machine.mount_other("two", &[("keys", "kbs:///default/key/1")]);
    fs::write(machine.path("file"), JWK).unwrap();
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
    let expected = [format!("{ENCRYPTED}|test"), "kbs:///default/key/1".to_owned(), JWK.to_owned()];
    assert_eq!(keys(&machine), expected);
    assert_eq!(mode(&machine.host(DOCUMENT)), 0o600);
    assert!(machine.read(SETTINGS).contains("document = "));
    assert!(log.contains("one: a.pem: a private key, P-256"), "{log}");

    let before = machine.state();
    assert_eq!(installed(&machine).0, Some(0));
    assert_eq!(machine.state(), before);

    let own = format!("{}[decryption-keys]\nkeys = [\"kbs:///default/key/1\"]\n", document("a"));
    machine.mount_document(&own);
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
    let text = machine.read(DOCUMENT);
    assert!(text.starts_with(&document("a")) && text.ends_with("  \"kbs:///default/key/1\",\n]\n"));
    assert_eq!(keys(&machine), [&expected[0], &expected[2], &expected[1]].map(String::as_str));
    assert!(log.contains("two: keys: the document has it already"), "{log}");

    for place in ["one", "two"] {
        machine.mount_other(place, &[]);
    }
    fs::remove_file(machine.path("file")).unwrap();
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(machine.read(DOCUMENT), own);
    assert!(log.contains("file have not arrived on this node (absent, empty"), "{log}");
}

#[test]
fn what_is_no_key_is_told_and_left_out() {
    let mut machine = machine(&["keys"]);
    machine.mount_other(
        "keys",
        &[("a", PASSWORD), ("b", PLAIN), ("c", ENCRYPTED), ("d.password", PASSWORD)],
    );
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(keys(&machine), [PLAIN]);
    for line in [
        "keys: a: left out: it is neither PEM nor DER nor JWK",
        "keys: c: left out: it is encrypted, and there is no password for it",
        "keys: d.password: left out: it is the password of a value \"d\"",
    ] {
        assert!(log.contains(line), "{log}");
    }
    assert_eq!(log.matches("WARN").count(), 3, "{log}");
}

#[test]
fn what_cannot_be_read_or_added_keeps_the_old_document() {
    let mut machine = machine(&["keys"]);
    machine.mount_document(&document("a"));
    machine.mount_other("keys", &[("a", PLAIN)]);
    assert_eq!(installed(&machine).0, Some(0));
    let before = machine.state();

    machine.mount_other("keys", &[("a", PASSWORD), ("c", ENCRYPTED)]);
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(65), "{log}");
    assert!(
        log.contains(": nothing in it can be used: ") && log.contains("keys: a: left out: it is "),
        "{log}"
    );
    assert_eq!(machine.state(), before);

    fs::remove_dir_all(machine.path("keys")).unwrap();
    let fifo = machine.path("keys");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(65), "{log}");
    assert!(log.contains("keys: it is not a regular file"), "{log}");
    assert_eq!(machine.state(), before);
    fs::remove_file(fifo).unwrap();

    // A manifest names its secret behind its own place.
    let manifest = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"k"},
        "stringData":{"a":"none"}}"#;
    fs::write(machine.path("keys"), manifest).unwrap();
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(65), "{log}");
    assert!(log.contains(": nothing in it can be used: "), "{log}");
    assert_eq!(machine.state(), before);
    fs::remove_file(machine.path("keys")).unwrap();

    machine.mount_other("keys", &[("a", PLAIN)]);
    // With the line between two entries that is written, it is too long.
    let entry = format!("registrytoken = '{}'\n", "x".repeat(16_096));
    let long = (0..65).map(|number| format!("[registries.r{number}]\n{entry}"));
    machine.mount_document(&long.collect::<String>());
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(65), "{log}");
    assert!(
        log.contains(
            "add the decryption keys of the set default to its document; the previous \
        document stays"
        ),
        "{log}"
    );
    assert_eq!(machine.state(), before);
}

#[test]
fn keys_that_come_later_are_picked_up() {
    let mut machine = machine(&["keys"]);
    let watching = Watching::start(&machine);
    let ready = || watching.is_ready();
    assert!(machine.has_stand_in());
    for key in [PLAIN, JWK] {
        machine.mount_other("keys", &[("key", key)]);
        wait_until("the key", || !machine.has_stand_in() && keys(&machine) == [key]);
    }
    machine.mount_other("keys", &[]);
    wait_until("the removal", || machine.has_stand_in() && ready());
    require_no_secret(&watching.stop());
}
