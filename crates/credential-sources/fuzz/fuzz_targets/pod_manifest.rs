//! Invariant: any bytes are at most so many images, each named by a text, or an error.
#![cfg_attr(fuzzing, no_main)]

use credential_sources::pod_manifest::{MAX_IMAGES, parse};
use credential_sources::secret_manifest::MAX_OBJECTS;

fuzzing::target!(|bytes: &[u8]| {
    match parse(bytes) {
        Ok(found) => {
            assert!(found.images.len() <= MAX_IMAGES);
            assert!(found.other_kinds.len() <= MAX_OBJECTS);
            assert!(found.images.iter().all(|found| !found.image.is_empty()));
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control)),
    }
});
