//! Invariant: any bytes are a manifest within its limits or an error, and a chosen image is one that the index lists.
#![no_main]

use imagepuller::manifest::{self, MAX_LAYERS, Manifest};
use imagepuller::platform::Platform;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let guest = Platform::of_guest();
    match Manifest::parse(bytes) {
        Ok(Manifest::Image { layers, .. }) => assert!((1..=MAX_LAYERS).contains(&layers.len())),
        Ok(Manifest::Index(index)) => {
            if let Ok(chosen) = manifest::choose(&index, &guest) {
                assert!(index.iter().any(|entry| entry.digest == chosen.digest));
            }
        }
        Err(_) => {}
    }
    if let Ok(diff_ids) = manifest::diff_ids(bytes, &guest, 2) {
        assert!(diff_ids.len() == 2);
    }
});
