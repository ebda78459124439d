//! Invariant: any header is read without a panic, and no challenge holds more than the header did.
#![cfg_attr(fuzzing, no_main)]

use registry_client::challenge;

fuzzing::target!(|bytes: &[u8]| {
    for challenge in challenge::parse(bytes) {
        assert!(!challenge.scheme.is_empty());
        let realm = challenge.parameter("realm").unwrap_or_default();
        assert!(challenge.scheme.len() + realm.len() <= bytes.len() * 3);
    }
});
