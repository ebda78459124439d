//! Invariant: any bytes list a bounded number of signatures and referrers or give an error of few
//! words, and another reader of JSON finds each of them there.
#![cfg_attr(fuzzing, no_main)]

use image_policy::Signature;
use image_policy::places::{MAX_SIGNATURES, referrers, signatures};
use serde_json::Value;

/// The values of a list of the document.
fn listed(document: &Value, name: &str) -> Vec<Value> {
    document[name].as_array().cloned().unwrap_or_default()
}

fn check(error: &str) {
    assert!(error.len() < 1000, "{error}");
    assert!(!error.chars().any(char::is_control), "{error:?}");
}

fuzzing::target!(|bytes: &[u8]| {
    let other = || serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    match signatures(bytes) {
        Ok(found) => {
            assert!(found.kept.len() <= MAX_SIGNATURES);
            assert!(found.left_out == 0 || found.kept.len() == MAX_SIGNATURES);
            let layers = listed(&other(), "layers");
            for layer in found.kept {
                let digest = layer.digest.to_string();
                let signature = layer.with(Vec::new());
                assert!(layers.iter().any(|layer| {
                    let annotation = &layer["annotations"]["dev.cosignproject.cosign/signature"];
                    let is_same = match &signature {
                        Signature::Simple { signature, .. } => annotation == signature.as_str(),
                        _ => true,
                    };
                    layer["digest"] == *digest && is_same
                }));
            }
        }
        Err(error) => check(&error.to_string()),
    }
    match referrers(bytes) {
        Ok(found) => {
            assert!(found.kept.len() <= MAX_SIGNATURES);
            assert!(found.left_out == 0 || found.kept.len() == MAX_SIGNATURES);
            let entries = listed(&other(), "manifests");
            for digest in found.kept {
                let digest = digest.to_string();
                assert!(entries.iter().any(|entry| entry["digest"] == *digest));
            }
        }
        Err(error) => check(&error.to_string()),
    }
});
