//! What holds for every document, docker configuration and list of offers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod sealed_prefix;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use credential_sources::Offer;
use credential_sources::docker_config::key::{Meaning, meaning};
use credential_sources::docker_config::{DockerConfig, Input, Widening, offers};
use credential_sources::merge::merge;
use proptest::prelude::*;
use registry_config::{Credentials, Document, Match, Registry, RegistryHost, RegistryName, Secret};

/// Names over few labels, so that they often meet.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(".".to_owned()),
        Just("docker.io".to_owned()),
        Just("index.docker.io".to_owned()),
        Just("192.0.2.1".to_owned()),
        Just("a.b".to_owned()),
        Just("a.b:443".to_owned()),
        "[.]?[ab]([.][abAB]){0,2}[.]?",
        "[ab]([.][ab]){0,2}(:443|:5000)?",
    ]
}

/// The keys of an entry, any of which may be missing.
fn entry() -> impl Strategy<Value = String> {
    let pick = |text: &'static str| proptest::option::of(Just(text));
    (
        pick("username = \"own\"\npassword = \"hunter2\\u0021\""),
        pick("ca-certs = '''\nnobody\n'''"),
        pick("insecure-skip-verify = true # why"),
        pick("plain-http = true"),
        proptest::option::of(
            "[ab]([.][ab])?(:5000)?".prop_map(|host| format!("mirror = \"https://{host}/p\"")),
        ),
    )
        .prop_map(|(credentials, roots, skip, plain, mirror)| {
            let mirror = mirror.as_deref();
            let keys = [credentials, roots, skip, plain, mirror];
            keys.into_iter().flatten().map(|key| format!("{key}\n")).collect()
        })
}

fn document() -> impl Strategy<Value = String> {
    proptest::collection::vec((name(), entry()), 0..6).prop_map(|entries| {
        let mut seen = BTreeMap::new();
        let mut text = String::from("# a document\n");
        for (name, keys) in entries {
            if seen.insert(RegistryName::parse(&name).unwrap(), ()).is_none() {
                write!(text, "[registries.\"{name}\"]\n{keys}").unwrap();
            }
        }
        text
    })
}

fn offer(name: &str, user: &str) -> Offer {
    Offer {
        name: name.to_owned(),
        offered: Credentials::Basic {
            username: user.to_owned(),
            password: Secret::from("hunter2\"".to_owned()),
        },
        source: user.to_owned(),
    }
}

fn user(entry: &Registry) -> Option<&str> {
    match &entry.credentials {
        Credentials::Basic { username, .. } => Some(username),
        _ => None,
    }
}

/// The users that an entry tries, in their order.
fn users(entry: &Registry) -> Vec<&str> {
    let further = entry.also.iter().map(|account| match account {
        Credentials::Basic { username, .. } => username.as_str(),
        other => panic!("{other:?}"),
    });
    user(entry).into_iter().chain(further).collect()
}

/// Everything but the credentials.
fn settings(found: Match<'_>) -> String {
    let entry = match found {
        Match::Entry { entry, .. } => entry.clone(),
        Match::Defaults => Registry::default(),
    };
    format!("{:?}", Registry { credentials: Credentials::Anonymous, also: Vec::new(), ..entry })
}

/// To whom a pull from `host` sends which user: the mirror first, then the registry.
fn sent(document: &Document, host: &RegistryHost) -> Vec<(String, String)> {
    let Match::Entry { entry, .. } = document.registries.entry_for(host) else {
        return Vec::new();
    };
    let to = |host: &RegistryHost, users: Vec<&str>| -> Vec<_> {
        let sent = users.into_iter().map(|user| (host.to_string(), user.to_owned()));
        sent.collect()
    };
    let own = to(host, users(entry));
    let Some(mirror) = entry.mirrors.first() else {
        return own;
    };
    match document.registries.literal_entry_for(mirror.host()) {
        Some((_, entry)) => [to(mirror.host(), users(entry)), own].concat(),
        // What is lent is one account.
        None => to(mirror.host(), user(entry).into_iter().collect()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is offered: the document's credentials go where they went, no host is trusted
    /// otherwise, and an offered password goes to hosts of the name that it was offered
    /// for.
    #[test]
    fn an_offer_adds_credentials_and_nothing_else(
        document in document(),
        names in proptest::collection::vec(name(), 0..5),
        hosts in proptest::collection::vec(
            "[ab]([.][ab]){0,2}(:443|:5000)?|docker[.]io|192[.]0[.]2[.]1",
            8,
        ),
    ) {
        let before = Document::parse(document.as_bytes()).unwrap().document;
        let numbered = names.iter().enumerate();
        let offers = numbered.map(|(n, name)| offer(name, &format!("offer{n}")));
        let offers: Vec<_> = offers.collect();
        let merged = merge(document.as_bytes(), &offers).unwrap();
        let after = &merged.document;
        let elsewhere: Vec<_> = names.iter().map(|name| format!("{name}:5000")).collect();
        let hosts = hosts.iter().chain(&names).chain(&elsewhere);
        for host in hosts.filter_map(|host| RegistryHost::parse(host).ok()) {
            prop_assert_eq!(
                settings(before.registries.entry_for(&host)),
                settings(after.registries.entry_for(&host))
            );
            let was = sent(&before, &host);
            let is = sent(after, &host);
            for own in &was {
                prop_assert!(is.contains(own), "{:?} became {:?}", was, is);
            }
            for (to, user) in is.iter().filter(|sent| !was.contains(sent)) {
                let number: usize = user.strip_prefix("offer").unwrap().parse().unwrap();
                let only = format!("[registries.\"{}\"]\nplain-http = true", names[number]);
                let only = Document::parse(only.as_bytes()).unwrap().document;
                let to = &RegistryHost::parse(to).unwrap();
                let receives = matches!(only.registries.entry_for(to), Match::Entry { .. });
                prop_assert!(receives, "{} got what was for {}", to, names[number]);
                // A password that was not refused on the port it was offered for, but put on the
                // others.
                let Ok(offered) = RegistryHost::parse(&names[number]) else { continue };
                let Match::Entry { entry, .. } = after.registries.entry_for(&offered) else {
                    continue
                };
                prop_assert!(users(entry).contains(&user.as_str()));
            }
        }
        let taken: usize = merged.origins.iter().map(|one| one.accounts.len()).sum();
        let lost: usize = merged.origins.iter().map(|one| one.losers.len()).sum();
        prop_assert_eq!(taken + lost, offers.len());
        let again = merge(&merged.text, &offers).unwrap();
        prop_assert_eq!(again.text, merged.text);
    }

    /// Without widening, a password gets to the host that its key names: on the port of the key, or
    /// where that has none, on the one of HTTPS and at most on others too.
    #[test]
    fn a_password_stays_at_the_host_of_its_key(
        keys in proptest::collection::vec(
            "(https://|http://)?([*][.])?[ab]([.][ab]){0,2}(:443|:5000)?(/|/v1/|/v2/|/v2|/team)?",
            1..6,
        ),
        host in "[ab]([.][ab]){0,2}(:443|:5000)?",
    ) {
        let entries: Vec<_> = keys.iter().enumerate()
            .map(|(n, key)| {
                format!("{key:?}:{{\"username\":\"user{n}\",\"password\":\"hunter2\"}}")
            })
            .collect();
        let json = format!("{{\"auths\":{{{}}}}}", entries.join(","));
        let config = DockerConfig::parse(json.as_bytes()).unwrap();
        let input = Input { source: "a".to_owned(), config };
        let (offers, findings) = offers(&[input], Widening::Refused);
        let shown = format!("{offers:?}{findings:?}");
        prop_assert!(!shown.contains("hunter2"));
        let merged = merge(b"", &offers).unwrap();
        let host = RegistryHost::parse(&host).unwrap();
        let Match::Entry { entry, .. } = merged.document.registries.entry_for(&host) else {
            return Ok(());
        };
        for user in users(entry) {
            let number: usize = user.strip_prefix("user").unwrap().parse().unwrap();
            let key = keys[number].trim_start_matches("https://").trim_start_matches("http://");
            let (of_key, path) = key.split_once('/').unwrap_or((key, ""));
            let of_key = RegistryHost::parse(of_key).unwrap();
            prop_assert_eq!(of_key.name(), host.name());
            if of_key.port().is_some() {
                prop_assert_eq!(&of_key, &host);
            }
            let Match::Entry { entry, .. } = merged.document.registries.entry_for(&of_key) else {
                panic!("{of_key}");
            };
            prop_assert!(users(entry).contains(&user));
            prop_assert!(matches!(path, "" | "v1/" | "v2/"));
        }
    }

    #[test]
    fn any_key_has_a_meaning(key in "\\PC{0,20}|[a.:/*\\[\\]@?]{0,12}") {
        if let Meaning::Registry(name) | Meaning::Wider { name, .. } = meaning(&key) {
            prop_assert!(RegistryName::parse(&name.to_string()).as_ref() == Ok(&name));
        }
    }
}
