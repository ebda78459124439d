//! Invariant: a payload that is read is one that another reader of JSON reads alike.
#![cfg_attr(fuzzing, no_main)]

use image_policy::payload::Payload;
use serde_json::Value;

fuzzing::target!(|bytes: &[u8]| {
    let Some(payload) = Payload::parse(bytes) else {
        return;
    };
    let other: Value = serde_json::from_slice(bytes).unwrap();
    let critical = &other["critical"];
    let digest = payload.digest.to_string();
    assert_eq!(critical["image"]["docker-manifest-digest"], *digest);
    assert_eq!(critical["identity"]["docker-reference"], *payload.reference);
    assert_eq!(critical["type"], "cosign container image signature");
});
