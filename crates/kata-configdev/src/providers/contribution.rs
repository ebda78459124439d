//! What the plugins of a node did for one sandbox, for those who have to tell somebody.

use std::time::Duration;

use credential_sources::merge::{Decision, Merged, Winner};
use credential_sources::{Finding, Loss};
use puller_config::{Effect, RegistryHost, RegistryName};

/// What became of the plugins' offers.
#[derive(Clone, Debug, Default)]
pub struct Contribution {
    /// Every plugin that was asked, once for each registry.
    pub asked: Vec<AskedPlugin>,
    /// Who won, for each registry that something was offered for.
    pub decisions: Vec<Decision>,
    /// What did not work, and what no document can express.
    pub findings: Vec<Finding>,
    /// Added credentials that the document's own settings give away.
    pub exposed: Vec<Finding>,
}

/// One plugin that was asked about one registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedPlugin {
    /// How messages call the plugin.
    pub source: String,
    /// The registry.
    pub host: RegistryHost,
    /// Where its answer is from.
    pub outcome: Outcome,
}

/// Where an answer is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The plugin was run.
    Fresh {
        /// How long its answer is kept for other sandboxes, where it is.
        kept_for: Option<Duration>,
    },
    /// It was run for an earlier sandbox.
    Kept {
        /// How long its answer still holds.
        left: Duration,
    },
    /// It was run and gave none; a finding says why.
    Failed,
}

impl Contribution {
    /// What is missing from the document and why, and what was added to it with consequences, in
    /// one list.
    #[must_use]
    pub fn warnings(&self) -> Vec<Finding> {
        let mut warnings = self.findings.clone();
        for decision in &self.decisions {
            let lost = decision.losers.iter().filter(|loser| loser.lost);
            warnings.extend(lost.map(|loser| {
                Finding::new(&loser.source, &decision.name, Loss::Lost, loser.why.clone())
            }));
            if let (Winner::Offer(source), Some(change)) = (&decision.winner, decision.change) {
                warnings.push(note(source, &decision.name, change.into()));
            }
        }
        warnings.extend_from_slice(&self.exposed);
        warnings
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
            (
                entry.plain_http,
                "plain-http",
                Effect::CredentialsInTheClear,
            ),
            (
                entry.insecure_skip_verify,
                "insecure-skip-verify",
                Effect::CredentialsToAnyone,
            ),
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
