//! Invariant: offers put into any valid document change nobody's credentials, trust or mirror, and
//! the result is valid.
//!
//! The first line of the input holds the names that are offered for, the rest is the document.
#![cfg_attr(fuzzing, no_main)]

use credential_sources::Offer;
use credential_sources::merge::merge;
use registry_config::{
    Credentials, Document, MAX_DOCUMENT_BYTES, Match, Registries, Registry, RegistryHost,
    RegistryName, Secret,
};

/// Everything but the credentials.
fn settings(entry: &Registry) -> String {
    let (credentials, also) = (Credentials::Anonymous, Vec::new());
    format!("{:?}", Registry { credentials, also, ..entry.clone() })
}

fuzzing::target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return;
    };
    let (names, document) = (String::from_utf8_lossy(&bytes[..end]), &bytes[end + 1..]);
    let offers: Vec<_> = names
        .split(' ')
        .take(16)
        .zip(0..)
        .map(|(name, number)| Offer {
            name: name.to_owned(),
            offered: Credentials::Basic {
                username: "offered".to_owned(),
                password: Secret::from(format!("secret {}", number / 2)),
            },
            source: "offer".to_owned(),
        })
        .collect();
    let Ok(before) = Document::parse(document) else {
        assert!(merge(document, &offers).is_err());
        return;
    };
    let takes_offers = before.document.node_error.is_none();
    let merged = match merge(document, &offers) {
        Ok(merged) => merged,
        // Elements are limited, too.
        Err(_) => return assert!(!takes_offers || document.len() > MAX_DOCUMENT_BYTES / 64),
    };
    assert!(takes_offers);
    let after = &merged.document.registries;
    let won = merged.origins.iter().filter(|origin| !origin.accounts.is_empty()).count();
    let offered = |entry: &Registry| match &entry.credentials {
        Credentials::Basic { username, .. } => username == "offered",
        _ => false,
    };
    let already = before.document.registries.iter().filter(|(_, entry)| offered(entry)).count();
    let now = after.iter().filter(|(_, entry)| offered(entry)).count();
    assert_eq!(already + won, now);
    // Further accounts come from offers too, and no entry has one twice.
    for (_, entry) in after.iter().filter(|(_, entry)| already == 0 && offered(entry)) {
        let accounts = [&entry.credentials].into_iter().chain(&entry.also);
        let passwords: Vec<_> = accounts
            .map(|account| match account {
                Credentials::Basic { username, password } if username == "offered" => {
                    password.expose()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let distinct: std::collections::BTreeSet<_> = passwords.iter().collect();
        assert_eq!(distinct.len(), passwords.len());
    }
    for (name, entry) in before.document.registries.iter() {
        let (_, same) = after.iter().find(|(known, _)| *known == name).expect("kept");
        assert!(
            entry.credentials.is_anonymous()
                || format!("{:?}", entry.credentials) == format!("{:?}", same.credentials)
        );
        assert_eq!(settings(entry), settings(same));
    }
    // A host that is offered for is reached as before.
    for offer in &offers {
        let (Ok(name), Ok(host)) =
            (RegistryName::parse(&offer.name), RegistryHost::parse(&offer.name))
        else {
            continue;
        };
        // One for some repositories has nothing of the way there.
        if !name.is_literal() || name.repositories().is_some() {
            continue;
        }
        let of = |registries: &Registries| match registries.entry_for(&host) {
            Match::Entry { entry, .. } => settings(entry),
            Match::Defaults => settings(&Registry::default()),
        };
        assert_eq!(of(&before.document.registries), of(after));
    }
});
