//! Invariant: any bytes are a challenge, a token, an error's name of few harmless letters, or
//! refused with fixed words.
#![cfg_attr(fuzzing, no_main)]

use kbs_client::fuzz::{Challenge, error_kind, token_of};

fuzzing::target!(|bytes: &[u8]| {
    let faults = [Challenge::parse(bytes).err(), token_of(bytes).err()];
    for fault in faults.into_iter().flatten() {
        let text = fault.to_string();
        assert!(text.starts_with("answered with something that "), "{text}");
    }
    if let Some(kind) = error_kind(bytes).kind {
        assert!(!kind.is_empty() && kind.len() <= 100);
        assert!(kind.bytes().all(|byte| byte.is_ascii_graphic()));
    }
});
