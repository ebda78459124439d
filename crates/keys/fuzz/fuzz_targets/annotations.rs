//! Invariant: any annotations are refused, or describe an encryption within its limits that no key
//! opens which is not there; with one reason for each way, in few words without a control
//! character.
//!
//! The input is lines of a name and a value. A name that begins with a dot is of the encryption; a
//! value that begins with `{` is encoded first.
#![cfg_attr(fuzzing, no_main)]

use std::collections::BTreeMap;

use keys::{Effort, Encryption, MAX_ENTRIES};

fuzzing::target!(|text: &str| {
    let mut annotations = BTreeMap::new();
    for line in text.lines() {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        let name = match name.strip_prefix('.') {
            Some(name) => format!("org.opencontainers.image.enc.{name}"),
            None => name.to_owned(),
        };
        let value = value.split(" , ").map(|entry| {
            if entry.starts_with('{') { base64(entry.as_bytes()) } else { entry.to_owned() }
        });
        annotations.insert(name, value.collect::<Vec<_>>().join(","));
    }
    let shown = match Encryption::parse(&annotations) {
        Ok(encryption) => {
            let packets = encryption.packets().count();
            assert!(packets <= MAX_ENTRIES);
            let kids = encryption.packets().map(|packet| packet.kid().to_owned());
            let keys = kids.map(|kid| (kid, vec![7; 32].into())).collect();
            let error = encryption.unwrap(&[], &keys, &Effort::new(100)).unwrap_err();
            assert!((1..=3 * MAX_ENTRIES).contains(&error.refused.len()));
            assert!(packets + usize::from(encryption.uses_keys()) <= error.refused.len());
            error.to_string()
        }
        Err(error) => error.to_string(),
    };
    assert!(shown.len() < 8000, "{shown}");
    assert!(!shown.chars().any(char::is_control), "{shown:?}");
});

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}
