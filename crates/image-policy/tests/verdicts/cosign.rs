//! cosign's verdicts: what a key signed, whatever name it has.

use std::fs;

use image_policy::{Conditions, Dialect, Policy};
use oci_image::named::NamedReference;
use serde_json::{Value, json};

use crate::evidence::Evidence;
use crate::registry::{Place, Registry, data, further_rows, rows};
use crate::{Difference, Judged, Tally};

struct Row<'r> {
    registry: &'r Registry,
    row: &'r Value,
    is_recorded: bool,
    theirs: &'static str,
    ours: String,
}

static DIFFERENCES: &[Difference<Row<'static>>] = &[
    Difference {
        why: "a policy asks for no annotations (-a) beside the name and the digest",
        holds: |row| row.flags().contains(&"-a") && row.ours == "accepted",
        rows: &["2.5.0 cosign2-annotations, -a env=test"],
    },
    Difference {
        why: "cosign 3.1 cannot verify what it signs with these keys: the hash goes by the key",
        holds: |row| {
            let key = row.row["key"].as_str().unwrap_or_default();
            let without_bundles = row.judge_at(&[Place::Tag]);
            ["p384", "p521", "ed25519"]
                .iter()
                .any(|kind| key.starts_with(kind))
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
        holds: |row| row.ours == "accepted" && row.evidence().has_wrong_size(),
        rows: &["3.1.1 size-wrong", "3.1.1 size-zero"],
    },
    Difference {
        why: "where a key is trusted, certificates and log entries beside a signature do not count",
        holds: |row| row.ours == "accepted" && row.evidence().has_more_annotations(),
        rows: &[],
    },
    Difference {
        why: "a statement with another predicate is an attestation, and no leave to run the image",
        holds: |row| row.theirs == "accepted" && row.evidence().has_other_predicate(),
        rows: &["3.1.1 predicate-other"],
    },
    Difference {
        why: "another _type is no statement of in-toto, whatever it has in it",
        holds: |row| row.theirs == "accepted" && row.evidence().has_other_statement(),
        rows: &["3.1.1 statement-other"],
    },
    Difference {
        why: "a signature has one spelling: strict base64 of DER",
        holds: |row| {
            let evidence = row.evidence();
            row.theirs == "accepted" && (evidence.has_loose_base64() || evidence.has_p1363())
        },
        rows: &["3.1.1 sig-newline-inside", "3.1.1 sig-p1363"],
    },
    Difference {
        why: "JSON is read strictly and to a bounded depth; no signer writes such a payload",
        holds: |row| row.theirs == "accepted" && row.evidence().has_odd_json(),
        rows: &["3.1.1 bad-utf8", "3.1.1 deep", "3.1.1 surrogate"],
    },
    Difference {
        why: "payloads are read as skopeo reads them, by containers-signature(5): each member is \
              there once, and no other",
        holds: |row| row.theirs == "accepted" && row.evidence().has_loose_payload(),
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
        holds: |row| row.theirs == "accepted" && row.evidence().has_other_types(),
        rows: &[],
    },
    Difference {
        why: "RSA with fewer than 2048 bits can be broken",
        holds: |row| row.theirs == "accepted" && row.ours.contains("is RSA with fewer than"),
        rows: &[],
    },
];

#[test]
fn digest_only_judges_as_cosign_does() {
    let registry: &'static Registry = Box::leak(Box::new(Registry::recorded()));
    let recorded = rows("cosign-verdicts.jsonl").into_iter();
    let further = further_rows("cosign-verdicts.jsonl").into_iter();
    let recorded = recorded.map(|row| (row, true));
    let all = recorded.chain(further.map(|row| (row, false)));
    let all: &'static Vec<_> = Box::leak(Box::new(all.collect()));
    let mut tally = Tally::new(DIFFERENCES);
    for (row, is_recorded) in all {
        tally.row(&Row::read(registry, row, *is_recorded));
    }
    tally.finish(all.len());
}

impl<'r> Row<'r> {
    fn read(registry: &'r Registry, row: &'r Value, is_recorded: bool) -> Self {
        let theirs = match row["exit"].as_i64() {
            Some(0) => "accepted",
            _ => "rejected",
        };
        let mut this = Self {
            registry,
            row,
            is_recorded,
            theirs,
            ours: String::new(),
        };
        this.ours = this.judge_at(&this.places());
        this
    }

    fn version(&self) -> &str {
        self.row["cosign"].as_str().unwrap()
    }

    fn flags(&self) -> Vec<&str> {
        let flags = self.row["flags"].as_array().into_iter().flatten();
        flags.filter_map(Value::as_str).collect()
    }

    fn reference(&self) -> NamedReference {
        NamedReference::parse(self.row["reference"].as_str().unwrap()).unwrap()
    }

    fn evidence(&self) -> Evidence {
        Evidence::of(self.registry, &self.reference())
    }

    /// Where that version looks. 2.5 finds no bundle in a registry without referrers API.
    fn places(&self) -> Vec<Place> {
        let flags = self.flags();
        let mut places = vec![Place::Tag];
        if self.version().starts_with("3.") && !flags.contains(&"--new-bundle-format=false") {
            places.push(Place::Bundles);
        }
        if flags.contains(&"--experimental-oci11") {
            places.push(Place::SimpleReferrers);
        }
        places
    }

    fn judge_at(&self, places: &[Place]) -> String {
        match judge(self.registry, self.row, self.reference(), places) {
            Ok(()) => "accepted".to_owned(),
            Err(reason) => format!("rejected: {reason}"),
        }
    }
}

impl Judged for Row<'_> {
    fn name(&self) -> String {
        let case = self.row["case"].as_str().unwrap();
        let case = case.split(':').next().unwrap();
        format!("{} {case}", self.version())
    }

    fn description(&self) -> String {
        format!(
            "{} | {} | [{}]",
            self.row["reference"].as_str().unwrap(),
            self.row["key"].as_str().unwrap(),
            self.flags().join(" "),
        )
    }

    fn theirs(&self) -> &str {
        self.theirs
    }

    fn ours(&self) -> &str {
        &self.ours
    }

    fn is_recorded(&self) -> bool {
        self.is_recorded
    }
}

/// cosign looks at the digest that is named, and at nothing below or above it.
fn judge(
    registry: &Registry,
    row: &Value,
    reference: NamedReference,
    places: &[Place],
) -> Result<(), String> {
    let requirement = json!([{
        "type": "sigstoreSigned",
        "keyPath": row["key"],
        "signedIdentity": {"type": "digestOnly"},
    }]);
    let policy = json!({"default": requirement}).to_string();
    let policy = Policy::parse(policy.as_bytes(), Dialect::Containers).unwrap();
    let digest = registry.resolve(&reference).ok_or("no such image")?;
    let signatures = registry.signatures(&Registry::path(&reference), &digest, places)?;
    let key = |path: &str| fs::read(data("keys").join(path)).map_err(|error| error.to_string());
    let ruling = policy.ruling(&reference);
    let verdict = ruling.judge(&[signatures.found()], &key, &Conditions::default());
    verdict.map_err(|refusal| refusal.to_string())
}
