//! Invariant: any bytes are a packet within its limits or an error of few words without a control
//! character, and no key opens what is not wrapped with it.
#![cfg_attr(fuzzing, no_main)]

use keys::packet::{MAX_KID_BYTES, Packet, Unopened};

fuzzing::target!(|text: &[u8]| match Packet::parse(text) {
    Ok(packet) => {
        assert!((1..=MAX_KID_BYTES).contains(&packet.kid().len()));
        assert!(packet.kid().bytes().all(|byte| byte.is_ascii_graphic()));
        assert_eq!(packet.open(&[7; 31]), Err(Unopened::KeyBytes));
        assert_eq!(packet.open(&[7; 32]), Err(Unopened::Key));
    }
    Err(error) => {
        let text = error.to_string();
        assert!(text.len() < 3500, "{text}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
});
