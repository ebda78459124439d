//! Invariant: any bytes are a message or a key, or an error of few words; only what RFC 7515 signed
//! is believed.
#![cfg_attr(fuzzing, no_main)]

use std::sync::LazyLock;

use jose::{Jws, VerifyingKey};

/// The key of RFC 7515 appendix A.3.
static KEY: LazyLock<VerifyingKey> = LazyLock::new(|| {
    let jwk = br#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
    VerifyingKey::from_jwk(jwk).unwrap()
});

fuzzing::target!(|bytes: &[u8]| {
    if let Err(error) = VerifyingKey::from_jwk(bytes) {
        assert!(error.to_string().len() < 300, "{error}");
    }
    match Jws::parse_compact(bytes) {
        Ok(message) => {
            if let Ok(payload) = message.verify(&KEY) {
                assert_eq!(payload.len(), 70);
                assert_eq!(message.kid(), None);
            }
        }
        Err(error) => assert!(error.to_string().len() < 300, "{error}"),
    }
});
