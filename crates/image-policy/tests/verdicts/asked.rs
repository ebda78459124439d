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
    let found: Vec<_> = signatures.iter().map(Signatures::found).collect();
    let key = |path: &str| {
        let rest = path.strip_prefix(DIR).or(path.strip_prefix("kbs://"));
        let file = rest.and_then(|rest| rest.strip_prefix('/')).ok_or("is not there")?;
        fs::read(data(file)).map_err(|_| "is not there".to_owned())
    };
    let verdict = ruling.judge(&found, &key, conditions);
    let verdict = verdict.map(|enough| {
        // What is kept beside an image lets it run again.
        let kept: Vec<_> = signatures
            .iter()
            .map(|Signatures(digest, _)| {
                let of_content = enough.iter().filter(|(of, _)| of == digest);
                Signatures(digest.clone(), of_content.map(|(_, one)| one.clone()).collect())
            })
            .collect();
        let kept: Vec<_> = kept.iter().map(Signatures::found).collect();
        assert_eq!(ruling.judge(&kept, &key, conditions), Ok(enough));
    });
    verdict.map_err(|refusal| {
        let sentence = refusal.to_string();
        assert!(sentence.len() < 1500, "{sentence}");
        assert!(!sentence.contains("---"), "{sentence}");
        sentence
    })
}
