//! Invariant: any bytes are a private key or an error of few words, within the limits on work, with
//! and without a password.
#![cfg_attr(fuzzing, no_main)]

use keys::PrivateKey;

fuzzing::target!(|bytes: &[u8]| {
    for password in [None, Some(b"correct horse".as_slice())] {
        match PrivateKey::read(bytes, password) {
            Ok(key) => {
                assert!(format!("{key:?}").len() < 60);
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.len() < 400, "{text}");
                assert!(!text.chars().any(char::is_control), "{text:?}");
            }
        }
    }
});
