//! skopeo's verdicts.

use image_policy::{Dialect, Policy};
use oci_image::named::NamedReference;
use serde_json::Value;

use crate::asked::{DIR, ask, ask_resolved};
use crate::evidence::Evidence;
use crate::registry::{Place, Registry, further_rows, rows};
use crate::written::Written;
use crate::{Difference, Judged, Tally};

/// One row, as one version of skopeo judged it.
struct Row<'r> {
    registry: &'r Registry,
    row: &'r Value,
    is_newer: bool,
    is_recorded: bool,
    theirs: String,
    ours: String,
}

static DIFFERENCES: &[Difference<Row<'static>>] = &[
    Difference {
        why: "a reference may have a tag and a digest here",
        holds: |row| {
            let reference = row.reference();
            let has_both = |one: NamedReference| one.tag().is_some() && one.digest().is_some();
            row.theirs == "other" && reference.is_some_and(has_both)
        },
        rows: &[],
    },
    Difference {
        why: "what is broken in registries.d is not looked at, for nothing here goes by it",
        holds: |row| row.theirs == "other" && row.registries_d() != "attach",
        rows: &["1129", "1130", "1131", "1132"],
    },
    Difference {
        why: "OpenPGP is not verified here, so that signedBy refuses every image",
        holds: |row| row.theirs == "accepted" && row.ours.contains(" a requirement signedBy, "),
        rows: &[
            "220",
            "533",
            "536",
            "784",
            "787",
            "792",
            "793",
            "794",
            "797",
            "798",
            "800",
            "801",
            "802",
            "808",
            "809",
            "816 (1.22)",
            "819 (1.22)",
            "822",
            "823",
            "824",
            "825",
            "826",
            "827",
            "841",
            "842",
            "843",
            "844",
            "845",
            "846",
            "847",
            "848",
            "849",
            "852",
            "853",
            "854",
            "858",
            "863",
            "864",
            "868",
            "869",
            "870",
            "871",
            "872",
            "873",
            "874",
            "879",
            "880",
            "883 (1.22)",
            "884",
            "887",
            "889",
            "1043",
            "1047",
            "1067",
            "1068",
            "1075",
            "1083",
            "1119",
            "1127",
        ],
    },
    Difference {
        why: "signatures are always looked for: there is no registries.d that switches it off",
        holds: |row| {
            let nothing = row.judge_as(View {
                is_attached: false,
                ..ALL
            });
            row.registries_d() != "attach" && row.theirs == verdict_of(&nothing)
        },
        rows: &[
            "1077", "1078", "1089", "1098", "1101", "1110", "1113", "1114", "1118",
        ],
    },
    Difference {
        why: "an index binds its manifests by digest: its signature is enough",
        holds: |row| {
            let without = row.judge_as(View {
                is_index_signed: false,
                ..ALL
            });
            row.ours == "accepted" && row.theirs == verdict_of(&without)
        },
        rows: &["933", "936", "938", "943", "993", "994", "995", "996"],
    },
    Difference {
        why: "base64 has one spelling here: no line breaks, no bits left over",
        holds: |row| {
            let of_key = row.ours.contains("is not base64") && row.written().has_loose_key();
            row.theirs == "accepted" && (of_key || row.evidence().has_loose_base64())
        },
        rows: &["174", "738", "742"],
    },
    Difference {
        why: "ECDSA signatures have one form here, DER",
        holds: |row| row.theirs == "accepted" && row.evidence().has_p1363(),
        rows: &["747"],
    },
    Difference {
        why: "RSA with fewer than 2048 bits can be broken",
        holds: |row| row.theirs == "accepted" && row.ours.contains("is RSA with fewer than"),
        rows: &["761"],
    },
    Difference {
        why: "JSON is read strictly: it is UTF-8, escapes are characters, and its depth is bounded",
        holds: |row| row.theirs == "accepted" && row.evidence().has_odd_json(),
        rows: &["585", "586"],
    },
    Difference {
        why: "a host has one name, however it is spelled: its scope and its identity",
        holds: |row| {
            row.written()
                .has_odd_host(row.row["reference"].as_str().unwrap())
        },
        rows: &["1160"],
    },
    Difference {
        why: "the host writes the tag: it leads past no scope of a tag and of a digest",
        holds: |row| {
            let is_it = |name| row.written().has_stripped_tag(row.registry, &name);
            row.reference().is_some_and(is_it)
        },
        rows: &[],
    },
];

#[test]
fn policies_judge_as_skopeo_does() {
    let registry: &'static Registry = Box::leak(Box::new(Registry::recorded()));
    let recorded = rows("verdicts.jsonl").into_iter().map(|row| (row, true));
    let further = further_rows("verdicts.jsonl")
        .into_iter()
        .map(|row| (row, false));
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
}

const ALL: View = View {
    is_attached: true,
    is_index_signed: true,
};

impl<'r> Row<'r> {
    fn read(registry: &'r Registry, row: &'r Value, is_newer: bool, is_recorded: bool) -> Self {
        let newer = &row["skopeo-1.22"]["verdict"];
        let theirs = newer.as_str().filter(|_| is_newer);
        let theirs = theirs.or(row["verdict"].as_str()).unwrap().to_owned();
        let is_newer = is_newer && newer.is_string();
        let mut this = Self {
            registry,
            row,
            is_newer,
            is_recorded,
            theirs,
            ours: String::new(),
        };
        this.ours = this.judge_as(ALL);
        this
    }

    fn text(&self) -> String {
        let text = match self.row["policy_text"].as_str() {
            Some(text) => text.to_owned(),
            None => self.row["policy"].to_string(),
        };
        text.replace("{DIR}", DIR)
    }

    fn written(&self) -> Written {
        Written::read(&self.text())
    }

    fn reference(&self) -> Option<NamedReference> {
        NamedReference::parse(self.row["reference"].as_str()?).ok()
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
        let policy = match Policy::parse(self.text().as_bytes(), Dialect::Containers) {
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
            self.row["reference"].as_str().unwrap(),
            self.registries_d(),
            flags.join(" "),
            self.text(),
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
        let places: &[Place] = if view.is_attached && is_seen {
            &[Place::Tag]
        } else {
            &[]
        };
        registry.signatures(&path, digest, places)
    };
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
