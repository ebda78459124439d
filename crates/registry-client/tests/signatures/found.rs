//! All that is fetched from the recorded repositories is all that they have.

use std::collections::BTreeSet;

use image_policy::Signature;
use oci_image::digest::Digest;

use crate::signatures::recorded;
use crate::signatures::registry::{EVERYWHERE, Registry};

/// A signature as something to compare; a layer without one is none.
pub(crate) fn comparable(signature: Signature) -> Option<(Vec<u8>, String)> {
    match signature {
        Signature::Simple { signature, .. } if signature.is_empty() => None,
        Signature::Simple { payload, signature } => Some((payload, signature)),
        Signature::Bundle(bundle) => Some((bundle, "a bundle".to_owned())),
        _ => unreachable!("no other form is known"),
    }
}

/// The digests that a repository has or has signatures of.
fn digests(recorded: &recorded::Registry, repository: &str) -> BTreeSet<Digest> {
    let tags = &recorded.repositories[repository];
    let digest = |(tag, digest): (&String, &String)| {
        let signed = tag.strip_prefix("sha256-");
        match signed.map(|hex| hex.trim_end_matches(".sig")) {
            Some(hex) => Digest::parse(&format!("sha256:{hex}")).unwrap(),
            None => Digest::parse(digest).unwrap(),
        }
    };
    tags.iter().map(digest).collect()
}

#[test]
fn every_recorded_signature_is_found() {
    let direct = recorded::Registry::recorded();
    let registry = Registry::recorded();
    let (mut found, mut refused, mut images) = (0, 0, 0);
    for repository in direct.repositories.keys() {
        for digest in digests(&direct, repository) {
            images += 1;
            let want = direct.signatures(repository, &digest, &EVERYWHERE);
            for has_api in [false, true] {
                let there = registry.fetch(repository, &digest, &EVERYWHERE, has_api);
                let Ok(want) = &want else {
                    let error = there.unwrap_err();
                    assert!(error.contains("is no OCI manifest"), "{repository}: {error}");
                    refused += 1;
                    continue;
                };
                let set = |signatures: Vec<Signature>| -> BTreeSet<_> {
                    signatures.into_iter().filter_map(comparable).collect()
                };
                let (want, there) = (set(want.1.clone()), set(there.unwrap()));
                assert_eq!(there, want, "{repository}@{digest}");
                found += there.len();
            }
        }
    }
    println!("{images} digests, {found} signatures found, {refused} manifests refused");
    assert!(images > 280 && found > 500 && refused > 0);
}
