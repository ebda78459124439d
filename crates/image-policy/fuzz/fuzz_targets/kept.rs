//! Invariant: kept signatures that are read are written back as the same bytes.
#![cfg_attr(fuzzing, no_main)]

use image_policy::kept;

fuzzing::target!(|bytes: &[u8]| {
    let Some(signatures) = kept::read(bytes) else {
        return;
    };
    assert!(signatures.len() <= kept::MAX_KEPT);
    let written = kept::write(&signatures);
    // A length may have zeros before it.
    assert!(written.len() <= bytes.len());
    assert_eq!(kept::write(&kept::read(&written).unwrap()), written);
});
