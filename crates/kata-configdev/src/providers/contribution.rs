//! What the plugins of a node did for one sandbox, for those who have to tell somebody.

use std::time::Duration;

use credential_sources::merge::{Merged, Origin};
use credential_sources::{Finding, Loss};
use registry_config::{Effect, RegistryName};
use serde::Serialize;

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
    /// Where the credentials come from of each registry that something was offered for.
    pub origins: Vec<Origin>,
    /// Everything that is missing from the document and why, and what was added to it with
    /// consequences. The log of a sandbox has these lines, and `explain` and `providers` the same.
    pub lines: Vec<Line>,
    /// What did not work, and what no document can express, until it is told.
    pub(crate) findings: Vec<Finding>,
}

/// One plugin and one registry that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AskedPlugin {
    /// How messages call the plugin.
    pub source: String,
    /// The registry, or the part of it that the settings name.
    #[serde(skip)]
    pub registry: AskedRegistry,
    /// The first segments of the repositories that it is for; `None` for all of the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repositories: Option<String>,
    /// Where its answer is from.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Where an answer is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "Told")]
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

impl NotKept {
    const fn text(self) -> &'static str {
        match self {
            Self::NoTime => "its plugin allows no time",
            Self::ForAnImage => "its plugin calls it one for a single image",
            Self::NoPlace => "run-root is not in memory or full",
        }
    }
}

/// An [`Outcome`] as it is told.
#[derive(Debug, Serialize)]
pub struct Told {
    /// `fresh`, `kept`, `none`, `none-before`, `agent` or `unneeded`.
    answer: &'static str,
    /// How much longer other sandboxes get the same answer; `None` where the next one asks again.
    expires_in_secs: Option<u64>,
    /// The same for people.
    #[serde(skip)]
    pub text: String,
}

impl From<Outcome> for Told {
    fn from(outcome: Outcome) -> Self {
        let (answer, left, [before, after]) = match outcome {
            Outcome::Fresh { kept_for: Ok(left) } => {
                ("fresh", Some(left), ["fresh answer, kept for ", ""])
            }
            Outcome::Fresh { kept_for: Err(why) } => {
                ("fresh", None, ["fresh answer, not kept: ", why.text()])
            }
            Outcome::Kept { left } => {
                ("kept", Some(left), ["answer kept from before, for ", " more"])
            }
            Outcome::Failed | Outcome::Hung => ("none", None, ["no answer", ""]),
            Outcome::LeftToAgent => ("agent", None, ["the node agent asks it", ""]),
            Outcome::FailedBefore { left } => {
                ("none-before", Some(left), ["not asked for ", " more, because it failed"])
            }
            Outcome::Unneeded => {
                ("unneeded", None, ["not asked, because the document has credentials", ""])
            }
        };
        let expires_in_secs = left.as_ref().map(Duration::as_secs);
        let span = expires_in_secs.map(span).unwrap_or_default();
        Self { answer, expires_in_secs, text: format!("{before}{span}{after}") }
    }
}

/// `seconds` as `6h`, `9m59s` or `0s`.
fn span(seconds: u64) -> String {
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let text: String = parts.map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// One thing to tell about what plugins did to a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// `skipped` where a plugin added nothing, or less than it could, `left out` where an offer is
    /// missing from the document, `beaten` where another one has its place, `change` for what an
    /// added entry changes besides the credentials, `exposed` for added credentials that the
    /// document's own settings give away.
    #[serde(skip)]
    pub label: &'static str,
    /// The plugin, or all of them.
    pub source: String,
    /// The registry's name, or that of some of its repositories; empty where all are meant.
    #[serde(skip)]
    pub registry: String,
    /// A fragment without a full stop. Never a value.
    pub text: String,
}

impl From<&Line> for Finding {
    fn from(line: &Line) -> Self {
        let loss = match line.label {
            "skipped" | "left out" => Loss::Lost,
            _ => Loss::Note,
        };
        Self::new(&line.source, &line.registry, loss, &line.text)
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

    /// The lines as the warnings of a sandbox.
    #[must_use]
    pub fn warnings(&self) -> Vec<Finding> {
        self.lines.iter().map(Finding::from).collect()
    }

    /// Tells everything that there is to tell of the offers, which make `merged` of the document.
    pub(super) fn tell(&mut self, merged: Option<&Merged>) {
        let lines = &mut self.lines;
        let mut tell = |label, source: &str, registry: &str, text: String| {
            let (source, registry) = (source.to_owned(), registry.to_owned());
            lines.push(Line { label, source, registry, text });
        };
        for one in &self.uncovered {
            tell("skipped", &one.source, "", one.to_string());
        }
        for Finding { source, key, text, .. } in std::mem::take(&mut self.findings) {
            tell("skipped", &source, &key, text);
        }
        let Some(Merged { document, origins, .. }) = merged else {
            return;
        };
        for Origin { registry, accounts, change, losers, .. } in origins {
            for loser in losers {
                let label = if loser.lost { "left out" } else { "beaten" };
                tell(label, &loser.source, registry, loser.why.clone());
            }
            if let (Some(winner), Some(change)) = (accounts.first(), change) {
                tell("change", &winner.source, registry, (*change).to_owned());
            }
        }
        for Origin { registry, accounts, .. } in origins {
            let name = RegistryName::parse(registry);
            let entry = name.ok().and_then(|name| document.registries.get(&name));
            let (Some(winner), Some(entry)) = (accounts.first(), entry) else {
                continue;
            };
            for (applies, key, effect) in [
                (entry.plain_http, "plain-http", Effect::CredentialsInTheClear),
                (entry.insecure_skip_verify, "insecure-skip-verify", Effect::CredentialsToAnyone),
            ] {
                if applies {
                    tell("exposed", &winner.source, registry, format!("\"{key}\" {effect}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (600, "10m"), (3605, "1h5s"), (43_200, "12h")]
        {
            assert_eq!(span(seconds), text);
        }
    }
}
