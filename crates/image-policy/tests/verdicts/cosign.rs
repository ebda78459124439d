//! cosign's verdicts: what a key signed, whatever name it has.

use std::fs;

use image_policy::{Conditions, Dialect, Policy};
use oci_image::named::NamedReference;
use serde_json::{Value, json};

use crate::registry::{Place, Registry, data, rows};
use crate::{Difference, Tally};

const DIFFERENCES: &[Difference] = &[
    Difference {
        why: "cosign 3.1 cannot verify what it signs with these keys: the hash goes by the key",
        rows: &[
            &["cosign 3.1.1 cosign3-bundle-p384 ", "[]"],
            &[
                "cosign 3.1.1 cosign3-bundle-p384 ",
                "[--experimental-oci11]",
            ],
            &["cosign 3.1.1 cosign3-bundle-p521 ", "[]"],
            &[
                "cosign 3.1.1 cosign3-bundle-p521 ",
                "[--experimental-oci11]",
            ],
            &["cosign 3.1.1 cosign3-bundle-ed25519 ", "[]"],
            &[
                "cosign 3.1.1 cosign3-bundle-ed25519 ",
                "[--experimental-oci11]",
            ],
            &["cosign 3.1.1 p384-sha384:"],
        ],
    },
    Difference {
        why: "a statement with another predicate is an attestation, and no leave to run the image",
        rows: &[&["cosign 3.1.1 predicate-other:"]],
    },
    Difference {
        why: "another _type is no statement of in-toto, whatever it has in it",
        rows: &[&["cosign 3.1.1 statement-other:"]],
    },
    Difference {
        why: "payloads are read as skopeo reads them, by containers-signature(5)",
        rows: &[
            &["cosign 3.1.1 opt-missing:"],
            &["cosign 3.1.1 opt-creator-number:"],
            &["cosign 3.1.1 type-other:"],
            &["cosign 3.1.1 type-empty:"],
            &["cosign 3.1.1 type-missing:"],
            &["cosign 3.1.1 type-case:"],
            &["cosign 3.1.1 type-uri:"],
            &["cosign 3.1.1 case-optional:"],
            &["cosign 3.1.1 case-type:"],
            &["cosign 3.1.1 extra-top:"],
            &["cosign 3.1.1 extra-critical:"],
            &["cosign 3.1.1 extra-identity:"],
            &["cosign 3.1.1 null-identity:"],
            &["cosign 3.1.1 null-reference:"],
        ],
    },
    Difference {
        why: "two readers could take different members of one name; skopeo refuses them too",
        rows: &[
            &["cosign 3.1.1 opt-duplicate:"],
            &["cosign 3.1.1 dup-critical:"],
            &["cosign 3.1.1 dup-image-bad-good:"],
            &["cosign 3.1.1 dup-reference-bad-good:"],
            &["cosign 3.1.1 dup-reference-good-bad:"],
            &["cosign 3.1.1 dup-digest-same:"],
        ],
    },
    Difference {
        why: "JSON is read strictly and to a bounded depth; no signer writes such a payload",
        rows: &[
            &["cosign 3.1.1 bad-utf8:"],
            &["cosign 3.1.1 surrogate:"],
            &["cosign 3.1.1 deep:"],
        ],
    },
    Difference {
        why: "a signature has one spelling: strict base64 of DER",
        rows: &[
            &["cosign 3.1.1 sig-newline-inside:"],
            &["cosign 3.1.1 sig-p1363:"],
        ],
    },
    Difference {
        why: "sizes of descriptors are held to by whoever fetches the payload, not by a policy",
        rows: &[&["cosign 3.1.1 size-wrong:"], &["cosign 3.1.1 size-zero:"]],
    },
];

#[test]
fn digest_only_judges_as_cosign_does() {
    let registry = Registry::recorded();
    let mut tally = Tally::default();
    for row in rows("cosign-verdicts.jsonl") {
        let flags: Vec<_> = row["flags"].as_array().into_iter().flatten().collect();
        let flags: Vec<_> = flags.iter().filter_map(|flag| flag.as_str()).collect();
        // Annotations that somebody wants are not a policy's matter.
        if flags.contains(&"-a") {
            tally.left_out += 1;
            continue;
        }
        let version = row["cosign"].as_str().unwrap();
        let description = format!(
            "cosign {version} {} | {} | {} | [{}]",
            row["case"].as_str().unwrap(),
            row["reference"].as_str().unwrap(),
            row["key"].as_str().unwrap(),
            flags.join(" "),
        );
        let theirs = match row["exit"].as_i64() {
            Some(0) => "accepted",
            _ => "rejected",
        };
        let ours = match judge(&registry, &row, &places(version, &flags)) {
            Ok(()) => "accepted".to_owned(),
            Err(reason) => format!("rejected: {reason}"),
        };
        tally.row(DIFFERENCES, &description, theirs, &ours);
    }
    tally.finish(DIFFERENCES);
}

/// Where that version looks. 2.5 finds no bundle in a registry without referrers API.
fn places(version: &str, flags: &[&str]) -> Vec<Place> {
    let mut places = vec![Place::Tag];
    if version.starts_with("3.") && !flags.contains(&"--new-bundle-format=false") {
        places.push(Place::Bundles);
    }
    if flags.contains(&"--experimental-oci11") {
        places.push(Place::SimpleReferrers);
    }
    places
}

/// cosign looks at the digest that is named, and at nothing below or above it.
fn judge(registry: &Registry, row: &Value, places: &[Place]) -> Result<(), String> {
    let requirement = json!([{
        "type": "sigstoreSigned",
        "keyPath": row["key"],
        "signedIdentity": {"type": "digestOnly"},
    }]);
    let policy = json!({"default": requirement}).to_string();
    let policy = Policy::parse(policy.as_bytes(), Dialect::Containers).unwrap();
    let reference = NamedReference::parse(row["reference"].as_str().unwrap()).unwrap();
    let digest = registry.resolve(&reference).expect("a recorded image");
    let signatures = registry.signatures(&Registry::path(&reference), &digest, places)?;
    let key = |path: &str| fs::read(data("keys").join(path)).map_err(|error| error.to_string());
    let ruling = policy.ruling(&reference);
    let verdict = ruling.judge(&[signatures.found()], &key, &Conditions::default());
    verdict.map_err(|refusal| refusal.to_string())
}
