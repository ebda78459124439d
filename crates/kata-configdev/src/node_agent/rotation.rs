//! What the kubelet's plugins add to documents, asked again before their answers expire.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::time::{Duration, Instant};

use node_health::metrics::ProviderNumbers;
use node_installer::Options;
use node_installer::watch::RESCAN;
use registry_config::Document;
use zeroize::Zeroizing;

use super::sandboxes::seen;
use crate::choice::DocumentText;
use crate::providers::{self, Contribution, Kept, Outcome};
use crate::settings::Settings;

/// How soon a plugin is asked again that gave no answer.
const AGAIN_AFTER: Duration = LEAST;

/// The least time between two questions, however short-lived the answers are.
const LEAST: Duration = Duration::from_secs(10);

/// After how many passes in a row without an answer of a plugin the wrapper asks by itself.
const FAILED_PASSES: u32 = 3;

/// The most lines of the log about plugins in one pass.
const MAX_WARNINGS: usize = 32;

/// The plugins of each set, over the passes.
#[derive(Debug, Default)]
pub struct Rotation {
    sets: BTreeMap<String, Asked>,
}

/// What is known of the plugins of a set.
#[derive(Debug, Default)]
struct Asked {
    /// `None` before the first.
    round: Option<Round>,
    /// Whether any of them answered since this agent started.
    answered: bool,
    /// By plugin: in how many passes in a row it was run and did not answer.
    failed_passes: BTreeMap<String, u32>,
    /// The plugins whose failure was counted in this pass.
    counted: BTreeSet<String>,
    /// Whether one of them hung in this pass: further ones would take the same time again.
    hangs: bool,
    /// By plugin.
    numbers: BTreeMap<String, ProviderNumbers>,
}

/// What is known of the last answers.
#[derive(Debug)]
struct Round {
    /// When the plugins are asked anew.
    next: Instant,
    /// Whether a sandbox has their answers; where none has, nobody has to be asked again.
    wanted: bool,
    /// What did not work the last time, a line each.
    warnings: Vec<String>,
}

/// A document with what the plugins of its set offer.
#[derive(Debug)]
pub struct Completed {
    /// Its text.
    pub text: Zeroizing<Vec<u8>>,
    /// What the text says.
    pub document: Document,
    /// Why more may be missing, as a clause.
    pub missing: Option<&'static str>,
}

impl Rotation {
    /// Whether anybody wanted to know what the plugins of the set say.
    pub(super) fn was_asked(&self, set: &str) -> bool {
        self.sets.contains_key(set)
    }

    /// Whether this agent can run the plugins of the set: one answered, and none has failed or hung
    /// for long. What hangs here may answer on the node, and the other way around.
    pub(super) fn works_here(&self, set: &str) -> bool {
        self.sets.get(set).is_some_and(|asked| {
            let mut passes = asked.failed_passes.values();
            asked.answered && passes.all(|passes| *passes < FAILED_PASSES)
        })
    }

    /// How long until a plugin has to be asked again for the sandboxes of the pass that just ended.
    pub fn due(&mut self) -> Duration {
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        for asked in self.sets.values_mut() {
            asked.counted.clear();
            asked.hangs = false;
            if let Some(round) = &mut asked.round
                && take(&mut round.wanted)
            {
                next = Some(next.map_or(round.next, |next| next.min(round.next)));
            }
        }
        next.map_or(RESCAN, |next| next.saturating_duration_since(now).max(LEAST))
    }

    /// The document of the set, as text and as it was understood, with what its plugins offer now.
    ///
    /// # Errors
    ///
    /// Why nobody asks them here, as a clause. Then what a sandbox has is better than less.
    pub fn complete(
        &mut self,
        options: &Options,
        set: &str,
        (document, parsed): (&[u8], &Document),
    ) -> Result<Completed, &'static str> {
        if !options.providers {
            return Err("this agent asks no credential providers (\"providers\")");
        }
        let settings = settings(options, set).ok_or("the wrapper's settings cannot be read")?;
        let asked = self.sets.entry(set.to_owned()).or_default();
        // An answer that another sandbox's start has kept does, unless it is time for a new one.
        let began = Instant::now();
        let kept = match &asked.round {
            _ if asked.hangs => Kept::Only,
            Some(round) if round.next > began => Kept::Used,
            // The first time shows whether they can be run here at all.
            _ => Kept::Ignored,
        };
        let text = DocumentText::from(Zeroizing::new(document.to_vec()));
        let own = (&text, parsed);
        let (merged, contribution) = providers::add(&settings, own, kept);
        let whole = asked.note(&contribution, kept == Kept::Ignored, began.elapsed());
        let (text, document) = merged.unwrap_or_else(|| (text, parsed.clone()));
        Ok(Completed {
            text: Zeroizing::new(text.to_vec()),
            document,
            missing: (!whole).then_some("a credential provider gives no answer"),
        })
    }

    /// What did not work the last time, a line each.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let rounds = self.sets.values().filter_map(|asked| asked.round.as_ref());
        let lines: BTreeSet<&String> = rounds.flat_map(|round| &round.warnings).collect();
        let more = lines.len().saturating_sub(MAX_WARNINGS);
        let more =
            (more > 0).then(|| format!("credential providers: {more} more lines like these"));
        let lines: Vec<_> = lines.into_iter().take(MAX_WARNINGS).cloned().collect();
        lines.into_iter().chain(more)
    }

    /// What each plugin did: nothing yet for those that were not asked, because a collector sees no
    /// increase of what it has not seen before.
    pub fn numbers(&self, options: &Options) -> BTreeMap<(String, String), ProviderNumbers> {
        let mut numbers = BTreeMap::new();
        for set in options.sets.keys().filter(|_| options.providers) {
            for plugin in listed(options, set).unwrap_or_default() {
                numbers.insert((set.clone(), plugin), ProviderNumbers::default());
            }
        }
        let of_set = |(set, asked): (&String, &Asked)| {
            let numbers = asked.numbers.clone().into_iter();
            let set = set.clone();
            numbers.map(move |(plugin, numbers)| ((set.clone(), plugin), numbers))
        };
        numbers.extend(self.sets.iter().flat_map(of_set));
        numbers
    }
}

impl Asked {
    /// Counts what the plugins did, and says whether all of them answered. Another question in the
    /// same pass (`is_due` is false) is no further failure.
    fn note(&mut self, contribution: &Contribution, is_due: bool, took: Duration) -> bool {
        let (mut answered, mut failed) = (BTreeSet::new(), BTreeSet::new());
        // Where the plugins' own configuration cannot be read, none is asked.
        let mut whole = !contribution.asked.is_empty();
        let mut next = RESCAN;
        for one in &contribution.asked {
            let name = one.source.rsplit(' ').next().unwrap_or_default();
            let numbers = self.numbers.entry(name.to_owned()).or_default();
            let missing_for = match one.outcome {
                Outcome::Fresh { kept_for } => {
                    answered.insert(name);
                    numbers.answers += 1;
                    numbers.took = took;
                    next = next.min(kept_for.map_or(RESCAN, early));
                    continue;
                }
                Outcome::Kept { left } => {
                    // The wrapper's answer does not show that the plugin answers here, too.
                    self.answered |= !self.failed_passes.contains_key(name);
                    next = next.min(early(left));
                    continue;
                }
                Outcome::Unneeded => continue,
                // It hung in this pass already, where it was asked about something else.
                Outcome::LeftToAgent => AGAIN_AFTER,
                // It was asked for a sandbox that has just started.
                Outcome::FailedBefore { left } => left.max(AGAIN_AFTER),
                Outcome::Failed | Outcome::Hung => {
                    failed.insert(name);
                    self.hangs |= one.outcome == Outcome::Hung;
                    numbers.failures += 1;
                    numbers.took = took;
                    AGAIN_AFTER
                }
            };
            whole = false;
            next = next.min(missing_for);
        }
        self.answered |= !answered.is_empty();
        for name in failed.difference(&answered).filter(|_| is_due) {
            if self.counted.insert((*name).to_owned()) {
                *self.failed_passes.entry((*name).to_owned()).or_default() += 1;
            }
        }
        self.failed_passes.retain(|name, _| !answered.contains(name.as_str()));
        let warnings = contribution.warnings();
        self.round = Some(Round {
            next: Instant::now() + next.max(LEAST),
            wanted: true,
            warnings: warnings.iter().map(ToString::to_string).collect(),
        });
        whole
    }
}

/// A while before an answer ends that holds so long: a sandbox has the new one in time, and a
/// plugin that fails can be asked again.
fn early(holds: Duration) -> Duration {
    holds - holds / 5
}

/// The names of the plugins that the settings of a set ask.
fn listed(options: &Options, set: &str) -> Option<Vec<String>> {
    let settings = settings(options, set)?;
    let config = settings.credential_providers.config?;
    let listed = providers::read_listing(&config).ok()?;
    let names = listed.list().iter().map(|provider| provider.name.clone());
    Some(names.collect())
}

/// The settings of a set, with the paths as they are seen from here, but for those of documents.
pub(super) fn settings(options: &Options, set: &str) -> Option<Settings> {
    let file = &options.sets.get(set)?.settings_file;
    let mut settings = Settings::load(&seen(options, file.as_str().as_ref())).ok()?;
    let providers = &mut settings.credential_providers;
    if let Some(found) = providers.sources(&options.host) {
        (providers.config, providers.bin_dir) = (Some(found.config), Some(found.bin_dir));
    }
    settings.run_root = seen(options, &settings.run_root);
    Some(settings)
}

#[cfg(test)]
mod tests;
