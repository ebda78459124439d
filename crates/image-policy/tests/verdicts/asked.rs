//! A policy is asked about an image, with the recorded keys.

use std::fs;

use image_policy::ruling::Ruling;
use image_policy::{Conditions, Policy};
use oci_image::named::NamedReference;

use super::registry::{Signatures, data};

/// The folder that stands for `{DIR}`; no path of this machine.
pub(crate) const DIR: &str = "/recorded";

pub(crate) fn ask(
    policy: &Policy,
    reference: &NamedReference,
    signatures: &[Signatures],
) -> Result<(), String> {
    judge(policy.ruling(reference), signatures, &Conditions::default())
}

/// The same for a name whose tag the registry was asked for, as skopeo does.
pub(crate) fn ask_resolved(
    policy: &Policy,
    reference: &NamedReference,
    signatures: &[Signatures],
) -> Result<(), String> {
    let ruling = policy.ruling_of_resolved(reference);
    judge(ruling, signatures, &Conditions::default())
}

pub(crate) fn judge(
    ruling: Ruling<'_>,
    signatures: &[Signatures],
    conditions: &Conditions,
) -> Result<(), String> {
    let contents: Vec<_> = signatures.iter().map(|of| of.0.clone()).collect();
    let found: Vec<_> = signatures.iter().flat_map(Signatures::placed).collect();
    let key_paths = ruling.key_paths(&contents);
    let key = |path: &str| {
        assert!(key_paths.contains(path), "{path} was not asked for before");
        let rest = path.strip_prefix(DIR).or(path.strip_prefix("kbs://"));
        let file = rest.and_then(|rest| rest.strip_prefix('/')).ok_or("is not there")?;
        fs::read(data(file)).map_err(|_| "is not there".to_owned())
    };
    let verdict = ruling.judge(&contents, &found, &key, conditions);
    let verdict = verdict.map(|enough| {
        // What is kept beside an image lets it run again.
        let again = ruling.judge(&contents, &enough, &key, conditions);
        assert_eq!(again, Ok(enough));
    });
    verdict.map_err(|refusal| {
        let sentence = refusal.to_string();
        assert!(sentence.len() < 1500, "{sentence}");
        assert!(!sentence.contains("---"), "{sentence}");
        sentence
    })
}
