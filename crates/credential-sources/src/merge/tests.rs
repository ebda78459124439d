#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod accounts;

use registry_config::{Credentials, MAX_CREDENTIAL_BYTES, Match, RegistryHost, Secret};

use super::*;

fn offer(name: &str, user: &str, source: &str) -> Offer {
    Offer {
        name: name.to_owned(),
        offered: Credentials::Basic {
            username: user.to_owned(),
            password: Secret::from(format!("hunter2\"{user}\\")),
        },
        source: source.to_owned(),
    }
}

fn merged(document: &str, offers: &[Offer]) -> Merged {
    merge(document.as_bytes(), offers).unwrap_or_else(|error| panic!("{error}"))
}

fn text(merged: &Merged) -> &str {
    std::str::from_utf8(&merged.text).unwrap()
}

/// The user name that is sent to a host, and the name of its entry.
fn user_at(merged: &Merged, host: &str) -> (String, String) {
    let host = RegistryHost::parse(host).unwrap();
    let Match::Entry { key, entry, .. } = merged.document.registries.entry_for(&host) else {
        return (String::new(), String::new());
    };
    let user = match &entry.credentials {
        Credentials::Basic { username, password } => {
            assert_eq!(password.expose(), format!("hunter2\"{username}\\"));
            username.clone()
        }
        _ => String::new(),
    };
    (user, key.to_string())
}

/// Documents in every shape that TOML has for them.
const SHAPES: [&str; 6] = [
    "",
    "# nothing\n",
    "[registries.\"reg.corp\"] # mine\nplain-http = true\n\n[extra-env]\nNO_PROXY = \"x\"",
    "registries = { \"reg.corp\" = { plain-http = true } } # inline\r\n",
    "registries.\"reg.corp\".plain-http = true\n",
    "[registries]\n\"reg.corp\" = { plain-http = true }\n\".corp\".mirror \
    = \"https://m.example\"\n",
];

/// A document that has room for some bytes.
fn filled(room: usize) -> String {
    let mut document = String::new();
    for number in 0.. {
        let entry = format!("[registries.f{number:03}]\nregistrytoken = \"\"\n\n");
        let left = (MAX_DOCUMENT_BYTES - room).saturating_sub(document.len() + entry.len());
        let token = "x".repeat(left.min(MAX_CREDENTIAL_BYTES));
        if token.is_empty() {
            break;
        }
        document.push_str(&entry.replace("\"\"", &format!("\"{token}\"")));
    }
    document
}

#[test]
fn an_offer_gets_into_every_shape_of_document() {
    for document in SHAPES {
        let merged = merged(document, &[offer("reg.corp", "a", "A"), offer("ghcr.io", "b", "B")]);
        assert_eq!(user_at(&merged, "reg.corp").0, "a", "{document}");
        assert_eq!(user_at(&merged, "ghcr.io").0, "b", "{document}");
        let registries = &merged.document.registries;
        let host = RegistryHost::parse("reg.corp").unwrap();
        let (_, entry) = registries.literal_entry_for(&host).unwrap();
        assert_eq!(entry.plain_http, document.contains("plain-http"));
        assert_eq!(merged.origins.len(), 2);
    }
}

#[test]
fn nothing_offered_changes_nothing() {
    let document = "registries.\"reg.corp\" . plain-http=true#x\r\n";
    assert_eq!(text(&merged(document, &[])), document);
    let empty = Offer { offered: Credentials::Anonymous, ..offer("ghcr.io", "", "A") };
    let merged = merged(document, &[empty]);
    assert_eq!(text(&merged), document);
    assert!(merged.origins[0].accounts.is_empty());
    assert!(!merged.origins[0].losers[0].lost);
}

#[test]
fn the_documents_credentials_win() {
    let own = |name: &str| {
        format!("[registries.\"{name}\"]\nusername = \"own\"\npassword = 'hunter2\"own\\'\n")
    };
    for (name, offered) in [
        ("reg.corp", "Reg.corp."),
        ("reg.corp", "reg.corp:5000"),
        (".corp", "reg.corp"),
        (".corp", ".reg.corp"),
        (".", "reg.corp"),
        (".", "192.0.2.1:5000"),
        ("docker.io", "registry-1.docker.io"),
        ("index.docker.io", "docker.io"),
    ] {
        let document = own(name);
        let merged = merged(&document, &[offer(offered, "a", "A")]);
        assert_eq!(text(&merged), document, "{name} {offered}");
        let origin = &merged.origins[0];
        assert_eq!(origin.entry.as_deref(), Some(name));
        assert_eq!(origin.losers.len(), 1);
        assert!(!origin.losers[0].lost);
    }
    // What holds for other hosts or for another port says nothing about this name.
    for (name, offered) in [
        ("reg.corp:5000", "reg.corp"),
        (".reg.corp", "reg.corp"),
        ("docker.io", ".docker.io"),
        (".a.corp", ".corp"),
    ] {
        let merged = merged(&own(name), &[offer(offered, "a", "A")]);
        assert_eq!(merged.origins[0].accounts[0].source, "A");
        assert_eq!(merged.document.registries.len(), 2);
    }
}

#[test]
fn the_first_offer_wins_and_the_origin_names_the_others() {
    let merged = merged(
        "",
        &[
            offer("index.docker.io", "a:b", "bad"),
            offer("docker.io", "a", "A"),
            offer("docker.io:443", "b", "B"),
            offer("not a name", "c", "C"),
        ],
    );
    assert_eq!(user_at(&merged, "docker.io").0, "a");
    let origin = &merged.origins[0];
    assert_eq!(origin.registry, "docker.io.");
    assert_eq!(origin.accounts[0].source, "A");
    let losers: Vec<_> =
        origin.losers.iter().map(|loser| (loser.source.as_str(), loser.lost)).collect();
    assert_eq!(losers, [("bad", true), ("B", false)]);
    assert!(origin.losers[0].why.contains("colon"));
    assert!(origin.losers[1].why.ends_with("for other ports"));
    assert!(merged.origins[1].accounts.is_empty());
    assert!(merged.origins[1].losers[0].lost);
    assert!(!format!("{:?}{:?}", merged, merged.origins).contains("hunter2"));
}

#[test]
fn a_new_entry_inherits_what_it_hides() {
    let document = "\
[registries.\".corp\"]
ca-certs = \"\"\"
none \\
\"\"\" # of them
insecure-skip-verify = true

[registries.\".\"]
plain-http = true

[registries.\"reg.corp:5000\"]
mirror = \"https://reg.corp:5000/\\u0061\"
mirror-fallback = true
";
    for (name, inherited) in [
        ("reg.corp", "corp"),
        (".sub.corp", "corp"),
        ("reg.corp:5001", "corp"),
        (".io", "any"),
        ("192.0.2.1", "any"),
    ] {
        let merged = merged(document, &[offer(name, "a", "A")]);
        let (_, entry) = merged
            .document
            .registries
            .iter()
            .find(|(key, _)| key.written().trim_end_matches('.') == name)
            .unwrap();
        assert_eq!(entry.ca_certs.is_some(), inherited == "corp", "{name}");
        assert_eq!(entry.insecure_skip_verify, inherited == "corp", "{name}");
        assert_eq!(entry.plain_http, inherited == "any", "{name}");
        let registries = &merged.document.registries;
        let mirrored = registries.get(&RegistryName::parse("reg.corp:5000").unwrap()).unwrap();
        assert_eq!(mirrored.mirrors[0].url().path(), "/a", "{name}");
        assert!(mirrored.mirror_fallback && mirrored.ca_certs.is_none());
    }
    // With the port, the literal without one is hidden, mirror included: it is its own here.
    let document = "[registries.\"reg.corp\"]\nmirror = \"https://reg.corp/\\u0061\"\n";
    let merged = merged(document, &[offer("reg.corp:5000", "a", "A")]);
    let (_, entry) = merged.document.registries.iter().find(|(key, _)| key.has_port()).unwrap();
    assert_eq!(entry.mirrors[0].url().path(), "/a");
}

/// A document had credentials for port 443 only, and an offer without a port put its password on
/// every other port.
#[test]
fn no_port_and_port_443_are_one_registry() {
    let own = "[registries.\"reg.corp:443\"]\nusername = \"own\"\npassword = 'hunter2\"own\\'\n";
    let taken = merged(own, &[offer("reg.corp", "a", "A")]);
    assert_eq!(text(&taken), own);
    assert_eq!(taken.origins[0].entry.as_deref(), Some("reg.corp:443"));
    assert!(!taken.origins[0].losers[0].lost);

    let open = "[registries.\"reg.corp\"]\n[registries.\"reg.corp:443\"]\nca-certs = \"none\"\n";
    let joined = merged(open, &[offer("reg.corp", "a", "A")]);
    assert_eq!(user_at(&joined, "reg.corp:443").0, "a");
    assert_eq!(user_at(&joined, "reg.corp:5000").0, "");
    assert_eq!(joined.origins[0].registry, "reg.corp:443");

    let both = ["docker.io", "index.docker.io:443"];
    for (first, second) in [(both[0], both[1]), (both[1], both[0])] {
        let offers = [offer(first, "a", "A"), offer(second, "b", "B")];
        let merged = merged("", &offers);
        assert_eq!(merged.origins.len(), 1);
        assert_eq!(merged.origins[0].losers[0].source, "B");
        assert!(!merged.origins[0].losers[0].lost);
        assert_eq!(user_at(&merged, "docker.io").0, "a");
        assert_eq!(merged.document.registries.len(), 1);
    }
    // What the first could not say for every port is not said for it by the second.
    let bad = [offer("reg.corp", "a:b", "A"), offer("reg.corp:443", "b", "B")];
    let merged = merged("", &bad);
    assert_eq!(user_at(&merged, "reg.corp"), ("b".to_owned(), "reg.corp:443".to_owned()));
    assert_eq!(user_at(&merged, "reg.corp:5000").0, "");
    assert_eq!(merged.origins[0].registry, "reg.corp:443");
}

/// Credentials of an entry with a mirror are the mirror's, unless that has an entry of its own.
#[test]
fn credentials_never_reach_a_mirror_by_accident() {
    for (document, name) in [
        ("[registries.\"docker.io\"]\nmirror = \"https://m.corp/x\"\n", "index.docker.io"),
        ("[registries.\".\"]\nmirror = \"https://m.corp:5000\"\n", "ghcr.io"),
        // A new entry would take the mirror's CAs, and its password would go to the registry.
        (
            "[registries.\"docker.io\"]\nmirror = \"https://m.corp\"\nca-certs \
            = \"none\"\nusername = \"u\"\npassword = \"p\"\n",
            "m.corp",
        ),
        (
            "[registries.\"docker.io\"]\nmirror = \"http://m.corp:5000\"\nplain-http = true\n",
            "m.corp",
        ),
        (
            "[registries.\"docker.io\"]\nmirror = \"http://m.corp:5000\"\nplain-http = \
            true\n\n[registries.\".corp\"]\n",
            "m.corp:5000",
        ),
        ("[registries.\"docker.io\"]\nmirror = \"https://m.corp\"\n", "m.corp:443"),
    ] {
        let merged = merged(document, &[offer(name, "a", "A")]);
        assert_eq!(text(&merged), document, "{name}");
        assert!(merged.origins[0].accounts.is_empty());
        assert!(merged.origins[0].losers[0].lost);
        assert!(merged.origins[0].why.contains("mirror"));
    }
    let document =
        "[registries.\"docker.io\"]\nmirror = \"https://m.corp\"\n[registries.\"m.corp\"]\n";
    let merged = merged(document, &[offer("m.corp", "m", "A"), offer("docker.io", "d", "A")]);
    assert_eq!(user_at(&merged, "m.corp").0, "m");
    assert_eq!(user_at(&merged, "docker.io").0, "d");
}

#[test]
fn a_full_document_takes_no_more() {
    let many: String = (0..1023).map(|n| format!("[registries.\"r{n}\"]\n")).collect();
    let merged =
        merged(&many, &[offer("a.io", "a", "A"), offer("b.io", "b", "B"), offer("r7", "c", "C")]);
    assert_eq!(user_at(&merged, "a.io").0, "a");
    assert_eq!(user_at(&merged, "r7").0, "c");
    assert!(merged.origins[1].accounts.is_empty());
    assert!(merged.origins[1].why.contains("1024 entries"));

    // Certificates are copied into every entry that inherits them.
    let root = include_str!("../../../registry-config/tests/data/root.pem");
    let roots = root.repeat(registry_config::MAX_CERTIFICATES);
    let long = ["", "lab"].map(|domain| {
        format!("[registries.\".{domain}corp\"]\nca-certs = \"\"\"\n{roots}\"\"\"\n")
    });
    let long = long.concat();
    let merged = self::merged(
        &long,
        &[offer("a.corp", "a", "A"), offer("b.corp", "b", "B"), offer("c.io", "c", "C")],
    );
    assert_eq!(user_at(&merged, "a.corp").0, "a");
    assert_eq!(user_at(&merged, "b.corp"), (String::new(), ".corp.".to_owned()));
    assert_eq!(user_at(&merged, "c.io").0, "c");
    assert!(merged.origins[1].accounts.is_empty());
    assert!(merged.origins[1].losers[0].lost);
}

#[test]
fn a_document_that_is_not_valid_is_refused_without_its_values() {
    let error = merge(b"[registries.a]\npasword = \"hunter2\"\n", &[]).unwrap_err();
    assert!(matches!(error, MergeError::Document(_)));
    assert!(!format!("{error}{error:?}").contains("hunter2"));
}

#[test]
fn nothing_is_added_where_the_node_has_no_document() {
    let document = b"node-error = \"no such file\"\n";
    let error = merge(document, &[offer("a.corp", "a", "A")]).unwrap_err();
    assert!(matches!(error, MergeError::NodeError), "{error}");
    assert_eq!(*merge(document, &[]).unwrap().text, document);
}

/// A token server trusted by its registry's `ca-certs` was offered credentials, and no token could
/// be had any more.
#[test]
fn a_change_of_trust_is_told() {
    let document = "[registries.\"reg.corp\"]\nca-certs \
    = \"none\"\n[registries.\".lab\"]\nca-certs = \"none\"\n[registries.\"b.corp\"]\n";
    for (name, is_told) in [
        ("auth.corp", true),
        ("auth.corp:443", true),
        (".corp", false),
        ("reg.corp", false),
        ("b.corp", false),
        ("a.lab", false),
    ] {
        let merged = merged(document, &[offer(name, "a", "A")]);
        assert_eq!(merged.origins[0].change.is_some(), is_told, "{name}");
    }
    assert!(merged("", &[offer("a.corp", "a", "A")]).origins[0].change.is_none());
}

/// The story: the host does not know what `credentials-uri` names. An offer beside it would make
/// the document invalid, or send the offered password where the confidential one was meant.
#[test]
fn references_are_credentials_and_are_inherited_like_other_settings() {
    let document = "[registries.\".corp\"]\ncredentials-uri = \"kbs:///a/b/c\"\n";
    let kept = merged(document, &[offer("reg.corp", "a", "A")]);
    assert_eq!(text(&kept), document);
    assert_eq!(kept.origins[0].entry.as_deref(), Some(".corp"));
    let merged = merged(
        "[registries.\".corp\"]\nca-certs-uri = \"kbs:///a/b/c\"\n[decryption-keys]\nkeys = \
        [\"a2V5\", # mine\n]\n",
        &[offer("reg.corp", "a", "A")],
    );
    let host = RegistryHost::parse("reg.corp").unwrap();
    let (_, entry) = merged.document.registries.literal_entry_for(&host).unwrap();
    assert!(entry.ca_certs_uri.is_some() && !entry.credentials.is_anonymous());
    assert!(text(&merged).ends_with("[decryption-keys]\nkeys = [\n  \"a2V5\",\n]\n"));
    assert_eq!(merged.origins[0].change, None);
}
