//! Invariant: any signed bytes are a payload or an error of few words, and a payload that nobody
//! encrypted is not opened.
#![cfg_attr(fuzzing, no_main)]

use kbs_client::fuzz::Payload;

fuzzing::target!(|bytes: &[u8]| {
    match Payload::parse(bytes) {
        Ok(Payload::Vault(uri)) => assert!(uri.to_string().starts_with("kbs")),
        Ok(Payload::Envelope(envelope)) => {
            assert!(envelope.open(&[0x5a; 32]).is_err());
            assert!(envelope.open(&[0x5a; 31]).is_err());
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 1500, "{text}");
            assert!(!text.chars().any(char::is_control), "{text:?}");
        }
    }
});
