//! Two documents, and which of them counts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::path::Path;

use puller_config::RegistryHost;
use tempfile::TempDir;

use super::*;

/// Both documents, in a directory of their own.
struct Guest {
    folder: TempDir,
    documents: Documents,
}

impl Guest {
    fn new(measured: &str, configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (own, hosts) = (path("measured.toml"), path("imagepuller.toml"));
        std::fs::write(&own, measured).unwrap();
        std::fs::write(&hosts, configuration).unwrap();
        let documents = Documents {
            configuration: hosts,
            measured: Some(own),
        };
        Self { folder, documents }
    }

    fn settings(&self) -> Settings {
        Settings::load(&self.documents).unwrap()
    }
}

pub(super) fn settings(measured: &str, configuration: &str) -> Settings {
    Guest::new(measured, configuration).settings()
}

pub(super) fn host(text: &str) -> RegistryHost {
    RegistryHost::parse(text).unwrap()
}

pub(super) fn entry(name: &str, keys: &str) -> String {
    format!("[registries.\"{name}\"]\n{keys}")
}

pub(super) fn login(user: &str) -> String {
    format!("username = \"{user}\"\npassword = \"hunter2\"\n")
}

#[test]
fn a_refusal_beside_the_document_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("imagepuller.toml");
    let documents = Documents::of(&path);
    let is_present = || {
        let settings = Settings::load(&documents).unwrap();
        settings.configuration.is_present
    };
    assert!(!is_present());
    std::fs::write(&path, "").unwrap();
    assert!(is_present());

    let refusal = folder.path().join("imagepuller.error");
    std::fs::write(&refusal, "two disks\x1b[2J\n").unwrap();
    let error = Settings::load(&documents).unwrap_err();
    assert!(matches!(error, Error::ConfigurationRefused { .. }));
    let message = error.to_string();
    assert!(message.contains("two disks [2J"), "{message}");
    // The owner's document does not help a host that has refused its own.
    let measured = Guest::new(&entry(".", &login("owner")), "");
    let both = Documents {
        measured: measured.documents.measured.clone(),
        ..documents.clone()
    };
    let error = Settings::load(&both).unwrap_err();
    assert!(matches!(error, Error::ConfigurationRefused { .. }));

    std::fs::remove_file(&refusal).unwrap();
    std::fs::write(&path, "nonsense").unwrap();
    assert!(Settings::load(&documents).is_err());
}

#[test]
fn a_measured_document_that_cannot_be_used_stops_everything() {
    let guest = Guest::new("nonsense", "");
    let error = Settings::load(&guest.documents).unwrap_err();
    assert!(matches!(error, Error::ConfigurationInvalid { .. }));
    assert!(error.to_string().contains("measured.toml"), "{error}");
    let measured = guest.documents.measured.as_deref().unwrap();
    std::fs::remove_file(measured).unwrap();
    std::fs::create_dir(measured).unwrap();
    let error = Settings::load(&guest.documents).unwrap_err();
    assert!(matches!(error, Error::ConfigurationUnreadable { .. }));
    std::fs::remove_dir(measured).unwrap();
    let settings = guest.settings();
    assert!(!settings.measured.is_present && settings.resources().is_none());
    assert!(guest.folder.path().exists());
}

#[test]
fn what_the_owner_says_of_a_host_is_all_that_is_said() {
    for (measured, configuration, expected) in [
        ("", "", "no entry of"),
        ("", "a.corp", "entry \"a.corp.\""),
        ("a.corp", "", "measured entry \"a.corp.\""),
        ("a.corp", "a.corp:443", "measured entry \"a.corp.\""),
        (".corp", "a.corp", "measured entry \".corp.\""),
        (".", "a.corp", "measured entry \".\""),
        ("b.corp", "a.corp", "entry \"a.corp.\""),
        ("b.corp", ".", "entry \".\""),
    ] {
        let document = |name: &str| match name {
            "" => String::new(),
            name => entry(name, &login("x")),
        };
        let settings = settings(&document(measured), &document(configuration));
        let shown = settings.registry(&host("a.corp")).to_string();
        assert!(
            shown.starts_with(expected),
            "{measured} {configuration}: {shown}"
        );
    }
}

/// A host that the puller is sent to: the host's entry for it counts only where the owner says
/// nothing.
#[test]
fn entries_of_other_hosts_count_by_who_is_in_charge() {
    let both = |measured: &[&str], configuration: &[&str]| {
        let document = |names: &[&str]| -> String {
            names.iter().map(|name| entry(name, &login("x"))).collect()
        };
        settings(&document(measured), &document(configuration))
    };
    for (measured, configuration, expected) in [
        (
            &[][..],
            &["a.corp", "token.corp"][..],
            "entry \"token.corp.\"",
        ),
        (
            &["token.corp"],
            &["a.corp"],
            "measured entry \"token.corp.\"",
        ),
        (
            &["token.corp"],
            &["a.corp", "token.corp"],
            "measured entry \"token.corp.\"",
        ),
        (&["a.corp"], &["token.corp"], "none"),
        (
            &["a.corp", "token.corp"],
            &[],
            "measured entry \"token.corp.\"",
        ),
        (&["."], &["token.corp"], "none"),
        (&[".corp"], &["a.example", "token.corp"], "none"),
        (&[], &["a.corp", ".corp"], "none"),
    ] {
        let settings = both(measured, configuration);
        let under = settings.registry(&host("a.corp"));
        let named = settings.named(&host("token.corp"), &under);
        let shown = named.map_or("none".to_owned(), |named| named.to_string());
        assert_eq!(shown, expected, "{measured:?} {configuration:?}");
    }
}

#[test]
fn the_owners_proxies_replace_the_hosts_as_a_whole() {
    let proxy = |variable: &str, host: &str| format!("[extra-env]\n{variable} = \"{host}\"\n");
    let of_host = proxy("HTTPS_PROXY", "http://host.corp:1");
    for (measured, expected) in [
        (String::new(), Some("host.corp")),
        ("[registries]\n".to_owned(), Some("host.corp")),
        ("[extra-env]\n".to_owned(), None),
        ("extra-env = {}\n".to_owned(), None),
        (proxy("HTTPS_PROXY", ""), None),
        (proxy("OTHER", "x"), None),
        (
            proxy("HTTPS_PROXY", "http://owner.corp:1"),
            Some("owner.corp"),
        ),
        (proxy("HTTP_PROXY", "http://owner.corp:1"), None),
        (proxy("NO_PROXY", "x.corp"), None),
    ] {
        let settings = settings(&measured, &of_host);
        let https = settings.proxies().https_proxy.as_ref();
        let name = https.map(|proxy| proxy.host().name());
        assert_eq!(name.as_deref(), expected, "{measured}");
    }
}

#[test]
fn keys_of_both_documents_are_told_apart() {
    let keys = |uri: &str| format!("[decryption-keys]\nkeys = [\"kbs:///default/key/{uri}\"]\n");
    let settings = settings(&keys("owner"), &keys("host"));
    let shown: Vec<_> = settings
        .decryption_keys()
        .map(|(origin, key)| format!("{origin}: {key:?}"))
        .collect();
    assert_eq!(shown.len(), 2);
    assert!(shown[0].starts_with("the measured document: ") && shown[0].contains("owner"));
    assert!(shown[1].starts_with("the node's document: ") && shown[1].contains("host"));
    let path = Path::new("/nonexistent/imagepuller.toml");
    let none = Settings::load(&Documents::of(path)).unwrap();
    assert_eq!(none.decryption_keys().count(), 0);
}
