//! skopeo's verdicts.

use image_policy::Policy;
use oci_image::named::NamedReference;
use serde_json::Value;

use super::asked::{DIR, ask, ask_resolved};
use super::evidence::Evidence;
use super::registry::{Place, Registry, Seen, further_rows, rows};
use super::written::Written;
use super::{Judged, Tally};

mod differences;

use differences::DIFFERENCES;

/// One row, as one version of skopeo judged it.
struct Row<'r> {
    registry: &'r Registry,
    row: &'r Value,
    /// The policy and the name; others than those of the row where it is judged again.
    text: String,
    name: String,
    is_newer: bool,
    is_recorded: bool,
    theirs: String,
    ours: String,
}

#[test]
fn policies_judge_as_skopeo_does() {
    let registry: &'static Registry = Box::leak(Box::new(Registry::recorded()));
    let recorded = rows("verdicts.jsonl").into_iter().map(|row| (row, true));
    let further = further_rows("verdicts.jsonl").into_iter().map(|row| (row, false));
    let all: &'static Vec<_> = Box::leak(Box::new(recorded.chain(further).collect()));
    let mut tally = Tally::new(DIFFERENCES);
    let mut count = 0;
    for (row, is_recorded) in all {
        for is_newer in [false, true] {
            count += 1;
            tally.row(&Row::read(registry, row, is_newer, *is_recorded));
        }
    }
    tally.finish(count);
}

/// What is seen of what there is.
#[derive(Clone, Copy)]
struct View {
    /// Signatures beside the image.
    is_attached: bool,
    /// Signatures of the index, and not of the chosen instance alone.
    is_index_signed: bool,
    /// What of them.
    seen: Seen,
}

const ALL: View = View { is_attached: true, is_index_signed: true, seen: Seen::All };

impl<'r> Row<'r> {
    fn read(registry: &'r Registry, row: &'r Value, is_newer: bool, is_recorded: bool) -> Self {
        let newer = &row["skopeo-1.22"]["verdict"];
        let theirs = newer.as_str().filter(|_| is_newer);
        let theirs = theirs.or(row["verdict"].as_str()).unwrap().to_owned();
        let is_newer = is_newer && newer.is_string();
        let text = match row["policy_text"].as_str() {
            Some(text) => text.to_owned(),
            None => row["policy"].to_string(),
        };
        let mut this = Self {
            registry,
            row,
            text: text.replace("{DIR}", DIR),
            name: row["reference"].as_str().unwrap().to_owned(),
            is_newer,
            is_recorded,
            theirs,
            ours: String::new(),
        };
        this.ours = this.judge_as(ALL);
        this
    }

    /// The same with another policy and another name, from which one difference was taken away.
    fn instead(&self, text: String, name: &str) -> Self {
        let mut this = Self {
            text,
            name: name.to_owned(),
            theirs: self.theirs.clone(),
            ours: String::new(),
            ..*self
        };
        this.ours = this.judge_as(ALL);
        this
    }

    fn written(&self) -> Written {
        Written::read(&self.text)
    }

    fn reference(&self) -> Option<NamedReference> {
        NamedReference::parse(&self.name).ok()
    }

    fn registries_d(&self) -> &str {
        self.row["registries.d"].as_str().unwrap()
    }

    fn evidence(&self) -> Evidence {
        let reference = self.reference().expect("a reference");
        Evidence::of(self.registry, &reference)
    }

    /// Ours; `other` where there is no such image.
    fn judge_as(&self, view: View) -> String {
        let policy = match Policy::parse(self.text.as_bytes()) {
            Ok(policy) => policy,
            Err(error) => return format!("policy-refused: {error}"),
        };
        let Some(reference) = self.reference() else {
            return "other: no reference".to_owned();
        };
        if self.registry.resolve(&reference).is_none() {
            return "other: no such image".to_owned();
        }
        match judge(self.registry, &policy, reference, self.row, view) {
            Ok(()) => "accepted".to_owned(),
            Err(reason) => format!("rejected: {reason}"),
        }
    }
}

impl Row<'static> {
    /// Whether the verdict is the recorded one, or differs for a listed reason that is left.
    fn is_explained(&self) -> bool {
        verdict_of(&self.theirs) == verdict_of(&self.ours)
            || DIFFERENCES.iter().any(|one| (one.holds)(self))
    }
}

impl Judged for Row<'_> {
    fn name(&self) -> String {
        let newer = if self.is_newer { " (1.22)" } else { "" };
        format!("{}{newer}", self.row["id"])
    }

    fn description(&self) -> String {
        let flags: Vec<_> = self.row["flags"].as_array().into_iter().flatten().collect();
        let flags: Vec<_> = flags.iter().filter_map(|flag| flag.as_str()).collect();
        format!(
            "{} | {} | {} {} {} | {}",
            self.row["group"].as_str().unwrap(),
            self.row["case"].as_str().unwrap(),
            self.name,
            self.registries_d(),
            flags.join(" "),
            self.text,
        )
    }

    fn theirs(&self) -> &str {
        &self.theirs
    }

    fn ours(&self) -> &str {
        &self.ours
    }

    fn is_recorded(&self) -> bool {
        self.is_recorded
    }
}

fn verdict_of(words: &str) -> &str {
    words.split(':').next().unwrap()
}

/// The verdict about the instance that is chosen, or about all of them.
fn judge(
    registry: &Registry,
    policy: &Policy,
    reference: NamedReference,
    row: &Value,
    view: View,
) -> Result<(), String> {
    let flags: Vec<_> = row["flags"].as_array().into_iter().flatten().collect();
    let architecture = match flags.as_slice() {
        [flag, architecture] if *flag == "--override-arch" => architecture.as_str().unwrap(),
        _ => "amd64",
    };
    let is_all = flags.iter().any(|flag| *flag == "--all");
    let named = registry.resolve(&reference).expect("a recorded image");
    let path = Registry::path(&reference);
    let ask = match reference.digest() {
        Some(_) => ask,
        None => ask_resolved,
    };
    // A tag is what it was resolved to.
    let reference = reference.with_default_tag().with_digest(named.clone());
    let instances = registry.instances(&named);
    let fetch = |digest| {
        let is_seen = view.is_index_signed || digest != &named || instances.is_empty();
        let places: &[Place] = if view.is_attached && is_seen { &[Place::Tag] } else { &[] };
        registry.signatures_seen(&path, digest, places, view.seen)
    };
    if instances.is_empty() {
        return ask(policy, &reference, &[fetch(&named)?]);
    }
    let chosen = instances.iter().filter(|(of, _)| is_all || of == architecture);
    for (_, instance) in chosen {
        ask(policy, &reference, &[fetch(&named)?, fetch(instance)?])?;
    }
    Ok(())
}
