//! Invariant: no bytes make the initdata parser panic or run long, and every accepted entry is one
//! plain file name.
#![cfg_attr(fuzzing, no_main)]

use std::path::{Component, Path};

use initdata::Document;
use initdata::document::{MAX_ENTRIES, MAX_NAME_BYTES};

fuzzing::target!(|bytes: &[u8]| {
    match Document::parse(bytes) {
        Ok(document) => {
            assert!(document.data.len() <= MAX_ENTRIES);
            for name in document.data.keys() {
                let name = name.as_str();
                assert!((1..=MAX_NAME_BYTES).contains(&name.len()));
                let mut components = Path::new(name).components();
                assert!(matches!(components.next(), Some(Component::Normal(part)) if part == name));
                assert!(components.next().is_none());
                assert!(!name.chars().any(char::is_control));
            }
        }
        Err(error) => {
            let text = error.to_string();
            // What reaches the policy is one line of printable text.
            assert!(text.len() < 1024);
            assert_eq!(foreign_text::one_line(&text).to_string(), text);
        }
    }
});
