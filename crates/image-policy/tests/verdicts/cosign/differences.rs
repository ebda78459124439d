//! Why our verdicts differ from cosign's, and for which recorded rows. Where that can be done, the
//! row is judged again without what the reason names, and must then have cosign's verdict.

use image_policy::Signature;

use super::super::Difference;
use super::super::evidence::{with_der, with_strict_base64};
use super::super::registry::{Place, Seen};
use super::Row;

pub(super) static DIFFERENCES: &[Difference<Row<'static>>] = &[
    Difference {
        why: "a policy asks for no annotations (-a) beside the name and the digest",
        holds: |row| {
            let evidence = row.evidence();
            let is_there = |(name, value): (&str, &str)| evidence.has_annotation(name, value);
            row.ours == "accepted" && !row.annotations().all(is_there)
        },
        rows: &["2.5.0 cosign2-annotations, -a env=test"],
    },
    Difference {
        why: "cosign 3.1 cannot verify what it signs with these keys: the hash goes by the key",
        holds: |row| {
            let key = row.row["key"].as_str().unwrap_or_default();
            let without_bundles = row.judge_at(&[Place::Tag], Seen::All);
            ["p384", "p521", "ed25519"].iter().any(|kind| key.starts_with(kind))
                && row.ours == "accepted"
                && without_bundles != "accepted"
        },
        rows: &[
            "3.1.1 cosign3-bundle-ed25519",
            "3.1.1 cosign3-bundle-p384",
            "3.1.1 cosign3-bundle-p521",
            "3.1.1 p384-sha384",
        ],
    },
    Difference {
        why: "sizes of descriptors are held to by whoever fetches the payload, not by a policy",
        holds: |row| {
            let held_to = row.judge_seen(Seen::Layers(|length, layer| layer["size"] == length));
            row.ours == "accepted" && held_to != "accepted"
        },
        rows: &["3.1.1 size-wrong", "3.1.1 size-zero"],
    },
    Difference {
        why: "where a key is trusted, certificates and log entries beside a signature do not count",
        holds: |row| {
            let alone = row.judge_seen(Seen::Layers(|_, layer| {
                let annotations = layer["annotations"].as_object();
                let mut names = annotations.into_iter().flat_map(|found| found.keys());
                !names.any(|name| name.contains("sigstore"))
            }));
            row.ours == "accepted" && alone != "accepted"
        },
        rows: &[],
    },
    Difference {
        why: "a statement with another predicate is an attestation, and no leave to run the image",
        holds: |row| row.is_no_statement() && row.evidence().has_other_predicate(),
        rows: &["3.1.1 predicate-other"],
    },
    Difference {
        why: "another _type is no statement of in-toto, whatever it has in it",
        holds: |row| row.is_no_statement() && row.evidence().has_other_statement(),
        rows: &["3.1.1 statement-other"],
    },
    Difference {
        why: "a signature has one spelling: strict base64 of DER",
        holds: |row| {
            let spelled = |spelled: fn(Signature) -> Signature| {
                row.judge_seen(Seen::Spelled(spelled)) == "accepted"
            };
            row.theirs == "accepted" && (spelled(with_strict_base64) || spelled(with_der))
        },
        rows: &["3.1.1 sig-newline-inside", "3.1.1 sig-p1363"],
    },
    Difference {
        why: "JSON is read strictly and to a bounded depth; no signer writes such a payload",
        holds: |row| row.is_no_statement() && row.evidence().has_odd_json(),
        rows: &["3.1.1 bad-utf8", "3.1.1 deep", "3.1.1 surrogate"],
    },
    Difference {
        why: "payloads are read as skopeo reads them, by containers-signature(5): each member is \
              there once, and no other",
        holds: |row| row.is_no_statement() && row.evidence().has_loose_payload(),
        rows: &[
            "3.1.1 case-optional",
            "3.1.1 case-type",
            "3.1.1 dup-critical",
            "3.1.1 dup-digest-same",
            "3.1.1 dup-image-bad-good",
            "3.1.1 dup-reference-bad-good",
            "3.1.1 dup-reference-good-bad",
            "3.1.1 extra-critical",
            "3.1.1 extra-identity",
            "3.1.1 extra-top",
            "3.1.1 null-identity",
            "3.1.1 null-reference",
            "3.1.1 opt-creator-number",
            "3.1.1 opt-duplicate",
            "3.1.1 opt-missing",
            "3.1.1 type-case",
            "3.1.1 type-empty",
            "3.1.1 type-missing",
            "3.1.1 type-other",
            "3.1.1 type-uri",
        ],
    },
    Difference {
        why: "signatures are layers of their own type in an OCI manifest, as skopeo has it",
        holds: |row| {
            let of_any_type = row.judge_seen(Seen::AnyType);
            row.theirs == "accepted" && of_any_type == "accepted"
        },
        rows: &[],
    },
    Difference {
        why: "RSA with fewer than 2048 bits can be broken",
        holds: |row| row.theirs == "accepted" && row.ours.contains("is RSA with fewer than"),
        rows: &[],
    },
];
