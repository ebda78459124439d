//! Invariant: a text is refused without being quoted, or it is a reference that comes back from its
//! own display.
#![cfg_attr(fuzzing, no_main)]

use oci_image::platform::Platform;
use oci_image::reference::{ImageReference, InvalidReference, TaggedReference};

fuzzing::target!(|text: &str| {
    let is_pinned = match ImageReference::parse(text) {
        Ok(read) => {
            let shown = read.to_string();
            let again = ImageReference::parse(&shown).unwrap();
            assert_eq!(again.registry(), read.registry());
            assert_eq!(again.repository(), read.repository());
            assert_eq!(again.digest(), read.digest());
            assert_eq!(again.to_string(), shown);
            true
        }
        Err(_) => false,
    };
    match TaggedReference::parse(text) {
        Ok(read) => {
            assert!(!is_pinned);
            let again = TaggedReference::parse(&read.to_string()).unwrap();
            assert_eq!(again.to_string(), read.to_string());
        }
        Err(error) => assert_eq!(is_pinned, error == InvalidReference::HasDigest),
    }
    if let Ok(platform) = Platform::parse(text) {
        assert_eq!(Platform::parse(&platform.to_string()), Ok(platform));
    }
});
