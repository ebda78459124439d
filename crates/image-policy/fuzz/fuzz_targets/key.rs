//! Invariant: any bytes are a key of a supported kind or an error of few words, what is around the
//! first block does not matter, and a key verifies nothing but what was signed.
#![cfg_attr(fuzzing, no_main)]

use image_policy::key::{MAX_KEY_BYTES, PublicKey};

fuzzing::target!(|bytes: &[u8]| {
    match PublicKey::parse(bytes) {
        Ok(key) => {
            let kinds = ["RSA", "P-256", "P-384", "P-521", "Ed25519"];
            assert!(kinds.contains(&key.to_string().as_str()));
            assert!(!key.verifies(b"message", bytes));
            assert!(!key.verifies_bundle(bytes, b"signature"));
            let more = [b"a key\n", bytes, b"\n-----BEGIN"].concat();
            if more.len() <= MAX_KEY_BYTES {
                let again = PublicKey::parse(&more).unwrap();
                assert_eq!(again.to_string(), key.to_string());
            }
        }
        Err(error) => {
            let words = error.to_string();
            assert!(words.len() < 200 && !words.contains('\n'), "{words}");
        }
    }
});
