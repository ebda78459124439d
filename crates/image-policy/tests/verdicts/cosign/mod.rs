//! cosign's verdicts: what a key signed, whatever name it has.

use std::fs;

use image_policy::{Conditions, Policy};
use oci_image::named::NamedReference;
use serde_json::{Value, json};

use super::evidence::Evidence;
use super::registry::{Place, Registry, Seen, data, further_rows, rows};
use super::{Judged, Tally};

mod differences;

use differences::DIFFERENCES;

struct Row<'r> {
    registry: &'r Registry,
    row: &'r Value,
    is_recorded: bool,
    theirs: &'static str,
    ours: String,
}

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
        let mut this = Self { registry, row, is_recorded, theirs, ours: String::new() };
        this.ours = this.judge_seen(Seen::All);
        this
    }

    fn version(&self) -> &str {
        self.row["cosign"].as_str().unwrap()
    }

    fn flags(&self) -> Vec<&str> {
        let flags = self.row["flags"].as_array().into_iter().flatten();
        flags.filter_map(Value::as_str).collect()
    }

    /// What `-a NAME=VALUE` asks for.
    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        let flags = self.flags();
        let asked: Vec<_> = flags.windows(2).filter(|two| two[0] == "-a").collect();
        let asked: Vec<_> = asked.iter().filter_map(|two| two[1].split_once('=')).collect();
        asked.into_iter()
    }

    /// Whether theirs takes what ours says is no statement about an image.
    fn is_no_statement(&self) -> bool {
        self.theirs == "accepted" && self.ours.contains("is no valid statement")
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

    fn judge_seen(&self, seen: Seen) -> String {
        self.judge_at(&self.places(), seen)
    }

    fn judge_at(&self, places: &[Place], seen: Seen) -> String {
        match judge(self.registry, self.row, self.reference(), places, seen) {
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
    seen: Seen,
) -> Result<(), String> {
    let requirement = json!([{
        "type": "sigstoreSigned",
        "keyPath": row["key"],
        "signedIdentity": {"type": "digestOnly"},
    }]);
    let policy = json!({"default": requirement}).to_string();
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    let digest = registry.resolve(&reference).ok_or("no such image")?;
    let signatures =
        registry.signatures_seen(&Registry::path(&reference), &digest, places, seen)?;
    let key = |path: &str| fs::read(data("keys").join(path)).map_err(|error| error.to_string());
    let ruling = policy.ruling(&reference);
    let found = signatures.placed();
    let verdict = ruling.judge(&[digest], &found, &key, &Conditions::default());
    verdict.map(drop).map_err(|refusal| refusal.to_string())
}
