//! skopeo's verdicts.

use std::fs;

use image_policy::{Conditions, Dialect, Policy};
use oci_image::named::NamedReference;
use serde_json::Value;

use crate::registry::{Place, Registry, Signatures, data, rows};
use crate::{Difference, Tally};

/// The folder that stands for `{DIR}`; no path of this machine.
pub(crate) const DIR: &str = "/recorded";

const DIFFERENCES: &[Difference] = &[
    Difference {
        why: "base64 has one spelling here: no line breaks, no bits left over",
        rows: &[
            &["174 grammar | keyData base64 with newlines"],
            &["738 made | sig-newline-inside:"],
            &["742 made | sig-slack-bits:"],
        ],
    },
    Difference {
        why: "ECDSA signatures have one form here, DER",
        rows: &[&["747 made | sig-p1363:"]],
    },
    Difference {
        why: "RSA with fewer than 2048 bits can be broken",
        rows: &[&["761 made | key-rsa1024:"]],
    },
    Difference {
        why: "JSON is read strictly: it is UTF-8, and escapes are characters",
        rows: &[&["585 made | bad-utf8:"], &["586 made | surrogate:"]],
    },
    Difference {
        why: "an index binds its manifests by digest: its signature is enough",
        rows: &[
            &["933 index | "],
            &["936 index | "],
            &["938 index | "],
            &["943 index | "],
            &["993 index | "],
            &["994 index | "],
            &["995 index | "],
            &["996 index | "],
        ],
    },
    Difference {
        why: "a host has one name, in capitals too: its scope and its identity",
        rows: &[&["1160 names | "]],
    },
    Difference {
        why: "OpenPGP is not verified here, so that signedBy refuses every image",
        rows: &[
            &["220 grammar | signedBy good"],
            &["533 several | "],
            &["536 several | "],
            &["858 identity | "],
            &["863 identity | "],
            &["1043 index | "],
            &["1047 index | "],
            &["1067 index | "],
            &["1068 index | "],
            &["1075 registries.d | "],
        ],
    },
];

#[test]
fn policies_judge_as_skopeo_does() {
    let registry = Registry::recorded();
    let mut tally = Tally::default();
    for row in rows("verdicts.jsonl") {
        let Some(ours) = verdict(&registry, &row) else {
            tally.left_out += 1;
            continue;
        };
        let flags: Vec<_> = row["flags"].as_array().into_iter().flatten().collect();
        let flags: Vec<_> = flags.iter().filter_map(|flag| flag.as_str()).collect();
        let description = format!(
            "{} {} | {} | {} {} | {}",
            row["id"],
            row["group"].as_str().unwrap(),
            row["case"].as_str().unwrap(),
            row["reference"].as_str().unwrap(),
            flags.join(" "),
            row["policy"],
        );
        tally.row(
            DIFFERENCES,
            &description,
            row["verdict"].as_str().unwrap(),
            &ours,
        );
    }
    tally.finish(DIFFERENCES);
}

/// Ours; none for a row that is about something else than policies.
fn verdict(registry: &Registry, row: &Value) -> Option<String> {
    // Where signatures are looked for is not a policy's matter.
    if row["registries.d"] != "attach" || row["verdict"] == "other" {
        return None;
    }
    let text = match row["policy_text"].as_str() {
        Some(text) => text.to_owned(),
        None => row["policy"].to_string(),
    };
    let text = text.replace("{DIR}", DIR);
    let policy = match Policy::parse(text.as_bytes(), Dialect::Containers) {
        Ok(policy) => policy,
        Err(error) => return Some(format!("policy-refused: {error}")),
    };
    let reference = NamedReference::parse(row["reference"].as_str().unwrap()).unwrap();
    Some(match judge(registry, &policy, reference, row) {
        Ok(()) => "accepted".to_owned(),
        Err(reason) => format!("rejected: {reason}"),
    })
}

/// The verdict about the instance that is chosen, or about all of them.
fn judge(
    registry: &Registry,
    policy: &Policy,
    reference: NamedReference,
    row: &Value,
) -> Result<(), String> {
    let flags: Vec<_> = row["flags"].as_array().into_iter().flatten().collect();
    let architecture = match flags.as_slice() {
        [flag, architecture] if *flag == "--override-arch" => architecture.as_str().unwrap(),
        _ => "amd64",
    };
    let is_all = flags.iter().any(|flag| *flag == "--all");
    let named = registry.resolve(&reference).expect("a recorded image");
    let path = Registry::path(&reference);
    // A tag is what it was resolved to.
    let reference = reference.with_digest(named.clone());
    let fetch = |digest| registry.signatures(&path, digest, &[Place::Tag]);
    let instances = registry.instances(&named);
    if instances.is_empty() {
        return ask(policy, &reference, &[fetch(&named)?]);
    }
    let chosen = instances
        .iter()
        .filter(|(of, _)| is_all || of == architecture);
    for (_, instance) in chosen {
        ask(policy, &reference, &[fetch(&named)?, fetch(instance)?])?;
    }
    Ok(())
}

pub(crate) fn ask(
    policy: &Policy,
    reference: &NamedReference,
    signatures: &[Signatures],
) -> Result<(), String> {
    ask_with(policy, reference, signatures, &Conditions::default())
}

pub(crate) fn ask_with(
    policy: &Policy,
    reference: &NamedReference,
    signatures: &[Signatures],
    conditions: &Conditions,
) -> Result<(), String> {
    let found: Vec<_> = signatures.iter().map(Signatures::found).collect();
    let key = |path: &str| {
        let file = path
            .strip_prefix(DIR)
            .and_then(|rest| rest.strip_prefix('/'));
        let file = file.ok_or("is not there")?;
        fs::read(data(file)).map_err(|_| "is not there".to_owned())
    };
    let ruling = policy.ruling(reference);
    let verdict = ruling.judge(&found, &key, conditions);
    verdict.map_err(|refusal| {
        let sentence = refusal.to_string();
        assert!(sentence.len() < 1500, "{sentence}");
        assert!(!sentence.contains("---"), "{sentence}");
        sentence
    })
}
