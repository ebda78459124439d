//! What the plugins of a node did for one sandbox, for those who have to tell somebody.

use std::fmt;
use std::time::Duration;

use credential_sources::merge::{Decision, Merged, Winner};
use credential_sources::{Finding, Loss};
use registry_config::{Effect, RegistryName};

use super::Uncovered;
use crate::settings::AskedRegistry;

/// What became of the plugins' offers.
#[derive(Clone, Debug, Default)]
pub struct Contribution {
    /// Whether the node agent asks the plugins, and what is kept is all that was taken.
    pub by_agent: bool,
    /// The registries that plugins are for, by the settings.
    pub registries: Vec<AskedRegistry>,
    /// Every plugin that is for one of them, once for each.
    pub asked: Vec<AskedPlugin>,
    /// The patterns for which no registry is named.
    pub uncovered: Vec<Uncovered>,
    /// Whether somebody was to be asked and nobody can be: their configuration or programs cannot
    /// be used.
    pub cannot_ask: bool,
    /// Who won, for each registry that something was offered for.
    pub decisions: Vec<Decision>,
    /// What did not work, and what no document can express.
    pub findings: Vec<Finding>,
    /// Added credentials that the document's own settings give away.
    pub exposed: Vec<Finding>,
}

/// One plugin and one registry that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedPlugin {
    /// How messages call the plugin.
    pub source: String,
    /// The registry, or the part of it that the settings name.
    pub registry: AskedRegistry,
    /// The first segments of the repositories that it is for; `None` for all of the registry.
    pub repositories: Option<String>,
    /// Where its answer is from.
    pub outcome: Outcome,
}

/// Where an answer is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The plugin was run.
    Fresh {
        /// How long its answer is kept for other sandboxes, or why it is not.
        kept_for: Result<Duration, NotKept>,
    },
    /// It was run for an earlier sandbox.
    Kept {
        /// How long its answer still holds.
        left: Duration,
    },
    /// It was run and gave none; a line says why.
    Failed,
    /// It was run and took too long; a line says so.
    Hung,
    /// It is not run here: the node agent asks it for the sandbox, as a line says.
    LeftToAgent,
    /// It gave none a moment ago, and is not run; a line says why.
    FailedBefore {
        /// How long that still holds.
        left: Duration,
    },
    /// It was not run: the document has credentials for the registry, which win over every offer.
    Unneeded,
}

/// Why an answer is not kept for other sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// Its plugin allows no time for it.
    NoTime,
    /// Its plugin calls it one for a single image.
    ForAnImage,
    /// There is no place for it in memory: the run root is on a disk, or cannot be written.
    NoPlace,
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTime => "its plugin allows no time",
            Self::ForAnImage => "its plugin calls it one for a single image",
            Self::NoPlace => "run-root is not in memory or full",
        })
    }
}

/// One thing to tell about what plugins did to a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What kind of thing that is.
    pub kind: LineKind,
    /// The plugin, or all of them.
    pub source: String,
    /// The registry's name, or that of some of its repositories; empty where all are meant.
    pub registry: String,
    /// A fragment without a full stop. Never a value.
    pub text: String,
}

/// What a [`Line`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A plugin added nothing, or less than it could.
    Skipped,
    /// An offer is missing from the document.
    LeftOut,
    /// An offer was not taken, because another one has its place.
    Beaten,
    /// What an added entry changes besides the credentials.
    Change,
    /// Added credentials that the document's own settings give away.
    Exposed,
}

impl LineKind {
    /// Its name in what people read.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::LeftOut => "left out",
            Self::Beaten => "beaten",
            Self::Change => "change",
            Self::Exposed => "exposed",
        }
    }
}

impl From<Line> for Finding {
    fn from(line: Line) -> Self {
        let loss = match line.kind {
            LineKind::Skipped | LineKind::LeftOut => Loss::Lost,
            LineKind::Beaten | LineKind::Change | LineKind::Exposed => Loss::Note,
        };
        Self::new(&line.source, &line.registry, loss, line.text)
    }
}

impl Contribution {
    /// Whether the node agent is to find out what is missing.
    #[must_use]
    pub fn is_left_to_agent(&self) -> bool {
        // Who failed a moment ago is asked again in time, of which a pass is the beginning.
        let is_missing = |outcome: &Outcome| {
            matches!(outcome, Outcome::LeftToAgent | Outcome::FailedBefore { .. })
        };
        self.by_agent && self.asked.iter().any(|one| is_missing(&one.outcome))
    }

    /// Everything that is missing from the document and why, and what was added to it with
    /// consequences. The log of a sandbox has these lines, and `explain` and `providers` the same.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let of_finding = |kind| {
            move |finding: &Finding| Line {
                kind,
                source: finding.source.clone(),
                registry: finding.key.clone(),
                text: finding.text.clone(),
            }
        };
        let uncovered = self.uncovered.iter().map(|one| Line {
            kind: LineKind::Skipped,
            source: one.source.clone(),
            registry: String::new(),
            text: one.to_string(),
        });
        let findings = self.findings.iter().map(of_finding(LineKind::Skipped));
        let mut lines: Vec<_> = uncovered.chain(findings).collect();
        for decision in &self.decisions {
            lines.extend(decision.losers.iter().map(|loser| Line {
                kind: match loser.lost {
                    true => LineKind::LeftOut,
                    false => LineKind::Beaten,
                },
                source: loser.source.clone(),
                registry: decision.name.clone(),
                text: loser.why.clone(),
            }));
            if let (Winner::Offer(source), Some(change)) = (&decision.winner, decision.change) {
                lines.push(Line {
                    kind: LineKind::Change,
                    source: source.clone(),
                    registry: decision.name.clone(),
                    text: change.into(),
                });
            }
        }
        lines.extend(self.exposed.iter().map(of_finding(LineKind::Exposed)));
        lines
    }

    /// [`lines`](Self::lines), as the warnings of a sandbox.
    #[must_use]
    pub fn warnings(&self) -> Vec<Finding> {
        self.lines().into_iter().map(Finding::from).collect()
    }
}

/// The credentials that were added to entries whose settings show them to others than the registry.
pub(super) fn exposed(merged: &Merged) -> Vec<Finding> {
    let mut exposed = Vec::new();
    for Decision { name, winner, .. } in &merged.decisions {
        let (Winner::Offer(source), Ok(parsed)) = (winner, RegistryName::parse(name)) else {
            continue;
        };
        let mut entries = merged.document.registries.iter();
        let Some((_, entry)) = entries.find(|(name, _)| **name == parsed) else {
            continue;
        };
        for (applies, key, effect) in [
            (entry.plain_http, "plain-http", Effect::CredentialsInTheClear),
            (entry.insecure_skip_verify, "insecure-skip-verify", Effect::CredentialsToAnyone),
        ] {
            if applies {
                exposed.push(note(source, name, format!("\"{key}\" {effect}")));
            }
        }
    }
    exposed
}

fn note(source: &str, name: &str, text: String) -> Finding {
    Finding::new(source, name, Loss::Note, text)
}
