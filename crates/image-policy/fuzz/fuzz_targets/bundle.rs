//! Invariant: any bytes are a bundle of one signature or none, and it is for no content that the
//! statement does not name.
#![cfg_attr(fuzzing, no_main)]

use image_policy::bundle::Bundle;
use oci_image::digest::Digest;

const HEX: &str = "f7ff70f91006e54ed820c234f5392b780d2cbbde0ef52c7dba4fb49c79fcb71a";

fuzzing::target!(|bytes: &[u8]| {
    let Some(bundle) = Bundle::parse(bytes) else {
        return;
    };
    let message = bundle.message();
    assert!(message.starts_with(b"DSSEv1 28 application/vnd.in-toto+json "));
    let digest = Digest::parse(&format!("sha256:{HEX}")).unwrap();
    if bundle.is_for(&digest) == Some(true) {
        let names = message.windows(HEX.len()).any(|part| part == HEX.as_bytes());
        let has_escapes = message.contains(&b'\\');
        assert!(names || has_escapes);
    }
});
