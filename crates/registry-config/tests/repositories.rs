//! What is for some repositories of a host: credentials and decryption keys.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use registry_config::{Checked, Credentials, Document, RegistryHost};

fn checked(text: &str) -> Checked {
    Document::parse(text.as_bytes()).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
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

/// What the record leaves out of an entry for repositories would look as if it were said.
#[test]
fn only_the_entry_of_a_host_shows_the_way_there() {
    let text = "[registries.\"GHCR.io./team\"]\nauth = \"YTpi\"\n[registries.\"ghcr.io\"]\n";
    let form = checked(text).document.recorded_form();
    assert_eq!(
        form,
        "{\"extra-env\":{},\"registries\":{\"ghcr.io.\":{\"insecure-skip-verify\":false,\
         \"plain-http\":false},\"ghcr.io/team\":{\"password\":\"[redacted]\"}}}"
    );
}

#[test]
fn the_keys_of_the_longest_name_come_first() {
    let text = "[decryption-keys]\nkeys = [\"YQ\"]\n\
        [decryption-keys.\"R.corp./team\"]\nkeys = [\"YQ\"]\n\
        [decryption-keys.\"r.corp\"]\nkeys = [\"YQ\", \"kbs:///a/b/c\"]\n";
    let keys = checked(text).document.decryption_keys;
    let host = RegistryHost::parse("r.corp").unwrap();
    let count = |repository: &str| {
        let lists = keys.lists(&host, repository);
        lists.map(|(_, keys)| keys.len()).collect::<Vec<_>>()
    };
    assert_eq!(count("team/app"), [1, 2, 1]);
    assert_eq!(count("teams"), [2, 1]);
}
