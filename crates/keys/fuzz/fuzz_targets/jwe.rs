//! Invariant: any bytes are a message within its limits or an error of few words, and nothing opens
//! but what was in the seeds.
#![cfg_attr(fuzzing, no_main)]

use std::sync::LazyLock;

use keys::{Effort, Jwe, PrivateKey, Refused};

/// The key of RFC 7520 section 5.4, with which the seeds `flattened`, `general` and `compact` were
/// made, and that of RFC 7517 appendix A.2.
static KEYS: LazyLock<[PrivateKey; 2]> = LazyLock::new(|| {
    let jwk = br#"{"kty":"EC","crv":"P-384",
        "x":"YU4rRUzdmVqmRtWOs2OpDE_T5fsNIodcG8G5FWPrTPMyxpzsSOGaQLpe2FpxBmu2",
        "y":"A8-yxCHxkfBz3hKZfI1jUYMjUhsEveZ9THuwFjH2sCNdtksRJU7D5-SkgaFL1ETP",
        "d":"iTx2pk7wW-GqJkHcEkFQb2EFyYcO7RugmaW3mRrQVAOUiPommT0IdnYK2xDlZh-j"}"#;
    let other = br#"{"kty":"EC","crv":"P-256","alg":"ECDH-ES+A256KW",
        "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
        "d":"870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE"}"#;
    [&jwk[..], other].map(|jwk| PrivateKey::read(jwk, None).unwrap())
});

fn check(text: &str) {
    assert!(text.len() < 2000, "{text}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

fuzzing::target!(|bytes: &[u8]| {
    match Jwe::parse(bytes) {
        Ok(message) => match message.open(&*KEYS, &Effort::new(u32::MAX)) {
            Ok(opened) => {
                assert_eq!(opened.plain.len(), 273);
                assert_eq!((opened.algorithm, opened.key), ("ECDH-ES+A128KW", 0));
            }
            Err(error) => {
                assert!(matches!(error, Refused::NoKeyOpens(_)));
                check(&error.to_string());
            }
        },
        Err(error) => check(&error),
    }
});
