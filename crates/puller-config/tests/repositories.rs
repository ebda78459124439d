//! `[registries."HOST/REPOSITORIES"]`: credentials for some repositories of a host.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use puller_config::{Checked, Credentials, Document, MAX_ALSO, RegistryHost};

fn checked(text: &str) -> Checked {
    Document::parse(text.as_bytes()).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

fn problems(text: &str) -> String {
    Document::parse(text.as_bytes()).unwrap_err().to_string()
}

const LOGIN: &str = "username = \"robot\"\npassword = \"hunter2\"\n";

#[test]
fn an_entry_for_repositories_holds_credentials_only() {
    let refused = "belongs in the entry of the host: an entry for some of its repositories holds \
        credentials only";
    for key in [
        "ca-certs = \"none\"",
        "ca-certs-uri = \"kbs:///a/b/c\"",
        "web-roots = true",
        "insecure-skip-verify = true",
        "plain-http = true",
        "mirror = \"https://mirror.corp\"",
        "mirror-fallback = true",
    ] {
        let text = format!("[registries.\"ghcr.io/team-a\"]\n{LOGIN}{key}\n");
        let (name, _) = key.split_once(' ').unwrap();
        assert_eq!(
            problems(&text),
            format!("line 4: registries.\"ghcr.io/team-a\".{name}: {refused}")
        );
    }
    for keys in [
        LOGIN,
        "auth = \"cm9ib3Q6aHVudGVyMg==\"",
        "identitytoken = \"hunter2\"",
        "registrytoken = \"hunter2\"",
        "password = \"sealed.YQ.YQ.YQ\"",
        "credentials-uri = \"kbs:///a/b/c\"\ncredentials-optional = true",
        "",
    ] {
        let text = format!("[registries.\"ghcr.io/team-a\"]\n{keys}\n");
        let checked = checked(&text);
        assert!(checked.warnings.is_empty(), "{keys}");
        assert!(!checked.document.redacted().contains("hunter2"), "{keys}");
    }
    let unknown = "[registries.\"ghcr.io/team-a\"]\nusername = \"a\"\nrepository = \"b\"\n";
    assert!(
        problems(unknown).contains("line 3: registries.\"ghcr.io/team-a\".repository: unknown")
    );
}

#[test]
fn the_longest_name_says_who_the_puller_is() {
    let names = ["ghcr.io", "ghcr.io/team-a", "GHCR.io./team-a/secret"];
    let text: String = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            format!("[registries.\"{name}\"]\nusername = \"u{at}\"\npassword = \"x\"\n")
        })
        .collect();
    let registries = checked(&text).document.registries;
    let host = RegistryHost::parse("ghcr.io").unwrap();
    for (repository, expected) in [
        ("team-a", Some("u1")),
        ("team-a/app", Some("u1")),
        ("team-a/secret/app", Some("u2")),
        // The kubelet compares texts and gives this one the password of the other.
        ("team-ab/app", None),
        ("app", None),
    ] {
        let mut found = registries.repository_entries(&host, repository);
        let who = found.next().map(|(_, entry)| match &entry.credentials {
            Credentials::Basic { username, .. } => username.clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(who.as_deref(), expected, "{repository}");
    }
}

#[test]
fn the_same_repositories_twice_are_an_error() {
    let text = "[registries.\"ghcr.io/a\"]\n[registries.\"GHCR.io./a\"]\n";
    assert_eq!(
        problems(text),
        "line 2: registries.\"GHCR.io./a\": names the same hosts as registries.\"ghcr.io/a\" on \
         line 1; write one entry"
    );
    let text =
        "[registries.\"ghcr.io/a\"]\n[registries.\"ghcr.io:443/a\"]\n[registries.\"ghcr.io\"]";
    assert_eq!(checked(text).document.registries.len(), 3);
}

#[test]
fn what_the_hosts_entry_does_to_the_credentials_is_said() {
    for (name, key, expected) in [
        ("r.corp", "plain-http", "sends the credentials unencrypted"),
        ("r.corp", "insecure-skip-verify", "sends the credentials to whoever answers"),
        (".corp", "plain-http", "sends the credentials unencrypted"),
        ("r.corp:5000", "plain-http", ""),
        ("other.corp", "plain-http", ""),
    ] {
        let text =
            format!("[registries.\"{name}\"]\n{key} = true\n[registries.\"r.corp/team\"]\n{LOGIN}");
        let warnings = checked(&text).warnings;
        let shown: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        if expected.is_empty() {
            assert_eq!(shown, [""; 0], "{text}");
        } else {
            let place = "line 3: registries.\"r.corp/team\": ";
            assert!(shown[0].starts_with(&format!("{place}{expected}")), "{shown:?}");
        }
    }
}

#[test]
fn further_accounts_stand_beside_a_first_one() {
    let also = |keys: &str| format!("[[registries.r.also]]\n{keys}\n");
    let token = also("registrytoken = \"hunter2\"");
    let first = "[registries.r]\nregistrytoken = \"hunter2\"\n";
    let uri = "[registries.r]\ncredentials-uri = \"kbs:///a/b/c\"\n";
    let at = |line: usize, key: &str| format!("line {line}: registries.r.also{key}: ");
    for (text, expected) in [
        (format!("[registries.r]\n{token}"), at(2, "") + "has no credentials beside it"),
        (
            format!("{uri}{token}"),
            at(3, "") + "stands beside \"credentials-uri\" or a sealed secret",
        ),
        (
            format!("{first}{}", also("credentials-uri = \"kbs:///a/b/c\"")),
            at(3, ", item 1") + "a further account has no \"credentials-uri\"",
        ),
        (
            format!("{first}{}", also("password = \"sealed.YQ.YQ.YQ\"")),
            at(3, ", item 1") + "a further account has no \"credentials-uri\"",
        ),
        (
            format!("{first}{}", also("")),
            at(3, ", item 1") + "has no credentials; a pull never becomes anonymous",
        ),
        (
            format!("{first}{token}{}", also("ca-certs = \"none\"")),
            at(6, ", item 2.ca-certs") + "unknown key",
        ),
        (
            format!("{first}{}", also("username = \"a\"")),
            at(4, ", item 1.username") + "has no \"password\" beside it",
        ),
        (
            format!("{first}{}", token.repeat(MAX_ALSO + 1)),
            at(3, "") + "an entry has at most 8 further accounts",
        ),
        (format!("{first}also = 7\n"), at(3, "") + "expected array, found integer"),
        (format!("{first}also = [7]\n"), at(3, ", item 1") + "expected table, found integer"),
    ] {
        let found = problems(&text);
        assert!(found.lines().any(|line| line.starts_with(&expected)), "{expected}\n{found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
    let text = format!("{first}{}", token.repeat(MAX_ALSO));
    let document = checked(&text).document;
    let (_, entry) = document.registries.iter().next().unwrap();
    assert_eq!(entry.also.len(), MAX_ALSO);
    let shown = document.redacted();
    assert_eq!(shown.matches("[redacted]").count(), MAX_ALSO + 1, "{shown}");
    assert!(!shown.contains("hunter2"));
    // An inline table says the same, and an entry for repositories may have some.
    let text =
        "[registries.\"r/team\"]\nauth = \"OmE=\"\nalso = [{username = \"a\", password = \"b\"}]\n";
    assert!(checked(text).document.redacted().contains("username = \"a\""));
}

#[test]
fn a_client_certificate_has_its_key() {
    let root = include_str!("data/root.pem");
    let cert = format!("client-cert = \'\'\'\n{root}\'\'\'\n");
    let pem = |label: &str| format!("-----BEGIN {label}-----\nYQ==\n-----END {label}-----\n");
    let key = |text: &str| format!("client-key = \'\'\'\n{text}\'\'\'\n");
    let at = |key: &str, rule: &str| format!("registries.r.{key}: {rule}");
    for (keys, expected) in [
        (cert.clone(), at("client-cert", "\"client-cert\" and \"client-key\" stand together")),
        (key(&pem("PRIVATE KEY")), at("client-key", "\"client-cert\" and \"client-key\" stand")),
        (cert.clone() + &key("/etc/key.pem"), at("client-key", "is not one PEM private key")),
        (
            cert.clone() + &key(&pem("ENCRYPTED PRIVATE KEY")),
            at("client-key", "is not one PEM private key"),
        ),
        (
            cert.clone() + &key(&pem("PRIVATE KEY").repeat(2)),
            at("client-key", "is not one PEM private key"),
        ),
        (
            "client-cert = \"none\"\n".to_owned() + &key(&pem("PRIVATE KEY")),
            at("client-cert", "has no PEM certificate to show"),
        ),
    ] {
        let found = problems(&format!("[registries.r]\n{keys}"));
        assert!(found.contains(&expected), "{expected}\n{found}");
        assert!(!found.contains("YQ=="), "{found}");
    }
    for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
        let text = format!("[registries.r]\n{cert}{}", key(&pem(label)));
        let checked = checked(&text);
        let shown = checked.document.redacted();
        assert!(shown.contains("client-key = \"[redacted]\""), "{shown}");
        assert!(!format!("{:?}{shown}", checked.document).contains("YQ=="));
        let measured = Document::parse_measured(text.as_bytes()).unwrap();
        assert!(measured.warnings.iter().any(|warning| warning.key == "registries.r.client-key"));
    }
}

/// What the record leaves out of an entry for repositories would look as if it were said.
#[test]
fn only_the_entry_of_a_host_shows_the_way_there() {
    let text = format!("[registries.\"GHCR.io./team\"]\n{LOGIN}[registries.\"ghcr.io\"]\n");
    let form = checked(&text).document.recorded_form();
    assert_eq!(
        form,
        "{\"extra-env\":{},\"registries\":{\"ghcr.io.\":{\"insecure-skip-verify\":false,\
         \"plain-http\":false},\"ghcr.io/team\":{\"password\":\"[redacted]\"}}}"
    );
}
