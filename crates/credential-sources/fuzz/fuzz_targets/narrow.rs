//! Invariant: without what is not needed any valid document is valid, has the same entries with the
//! same settings, no account that it did not have, and none that goes away when it is narrowed
//! again.
//!
//! The first line of the input holds the names of the list, the rest is the document.
#![cfg_attr(fuzzing, no_main)]

use credential_sources::narrow;
use puller_config::{Credentials, Document, MAX_ELEMENTS, OnlyRegistries, Registry};

/// Everything but the secrets.
fn settings(entry: &Registry) -> String {
    format!(
        "{:?}",
        Registry {
            credentials: Credentials::Anonymous,
            also: Vec::new(),
            client: None,
            ..entry.clone()
        }
    )
}

fuzzing::target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return;
    };
    let (names, document) = (String::from_utf8_lossy(&bytes[..end]), &bytes[end + 1..]);
    let names = names.split(' ').take(32);
    let only: OnlyRegistries = names.filter_map(|name| OnlyRegistries::item(name).ok()).collect();
    let Ok(before) = Document::parse(document) else {
        assert!(narrow(document, &only).is_err());
        return;
    };
    let narrowed = match narrow(document, &only) {
        Ok(narrowed) => narrowed,
        // Elements are limited, too, and the new text may have some more.
        Err(_) => return assert!(document.len() > MAX_ELEMENTS / 4),
    };
    let (before, after) = (before.document, &narrowed.document);
    assert_eq!(before.registries.len(), after.registries.len());
    for ((name, entry), (same_name, same)) in before.registries.iter().zip(after.registries.iter())
    {
        assert_eq!((name, settings(entry)), (same_name, settings(same)));
        assert!(same.also.len() <= entry.also.len());
        assert!(!entry.credentials.is_anonymous() || same.credentials.is_anonymous());
        assert!(entry.client.is_some() || same.client.is_none());
    }
    assert_eq!(format!("{:?}", before.extra_env), format!("{:?}", after.extra_env));
    let again = narrow(&narrowed.text, &only).expect("valid");
    assert_eq!(again.text, narrowed.text);
    assert!(again.removed.is_empty());
});
