//! Invariant: any bytes are options with one cipher and one key, or an error of few words; private
//! ones are not repeated in it.
//!
//! The first line, if there are several, is the public options; the rest is the private ones.
#![cfg_attr(fuzzing, no_main)]

use std::sync::LazyLock;

use keys::decryptor::SLACK_BYTES;
use keys::{InvalidOptions, LayerKey, PublicOptions};
use oci_image::digest::Digest;

static DIFF_ID: LazyLock<Digest> =
    LazyLock::new(|| Digest::parse(&format!("sha256:{}", "0".repeat(64))).expect("a digest"));

const PUBLIC: &[u8] = br#"{"cipher":"AES_256_CTR_HMAC_SHA256",
    "hmac":"/FYSeZgM86S8NnF228pp1RN/KEfTd6clJwKRdjCsFbQ="}"#;

static KNOWN: LazyLock<PublicOptions> =
    LazyLock::new(|| PublicOptions::parse(PUBLIC).expect("options"));

fuzzing::target!(|text: &[u8]| {
    let mut lines = text.splitn(2, |byte| *byte == b'\n');
    let (public, private) = (lines.next().unwrap_or_default(), lines.next());
    if let Err(error) = PublicOptions::parse(public) {
        let text = error.to_string();
        assert!(text.len() < 3500, "{text}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
    let private = private.unwrap_or(text);
    match LayerKey::parse(private, &KNOWN) {
        Ok(key) => {
            assert_eq!(format!("{key:?}"), "LayerKey");
            let mut decryptor = key.decryptor().expect("a cipher");
            let mut plain = vec![0; private.len() + SLACK_BYTES];
            assert_eq!(decryptor.update(private, &mut plain), Ok(private.len()));
            let _ = decryptor.finish();
            assert_eq!(key.tag(&DIFF_ID).to_string().len(), 71);
        }
        // The only error with foreign text in it is about public options.
        Err(InvalidOptions::Cipher(_)) => panic!("private options name no cipher"),
        Err(error) => assert!(error.to_string().len() < 600, "{error}"),
    }
});
