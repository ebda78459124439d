//! Several docker configurations made into offers.

use std::collections::BTreeMap;

use puller_config::RegistryName;

use super::key::{self, Meaning};
use super::{DockerConfig, Entry};
use crate::merge::with_https_port;
use crate::{Finding, Loss, Offer, Offered, printable};

/// A configuration and where it comes from.
#[derive(Clone, Debug)]
pub struct Input {
    /// For people: a file, a secret.
    pub source: String,
    /// What it says.
    pub config: DockerConfig,
}

/// Whether a password may get to more hosts or repositories than its author named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Widening {
    /// Such entries are left out.
    Refused,
    /// They are taken, behind those that name the registry itself.
    Allowed,
}

/// An entry that some registry could get.
struct Candidate<'i> {
    source: &'i str,
    key: &'i str,
    name: RegistryName,
    offered: Offered,
    /// Later is better: not widened, later input, spelled as the bare host, smaller key.
    rank: (bool, usize, bool, std::cmp::Reverse<&'i str>),
}

/// What the configurations offer, the later inputs above the earlier ones, and what became of the
/// rest.
///
/// Keys are compared as they are written first, and the last input that has one counts, as
/// secretgen-controller does it. Of keys that differ in writing but stand for one registry, one
/// wins and the others are reported.
#[must_use]
pub fn offers(inputs: &[Input], widening: Widening) -> (Vec<Offer>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut last: BTreeMap<&str, (usize, &Entry)> = BTreeMap::new();
    for (index, input) in inputs.iter().enumerate() {
        findings.extend(super::findings(&input.config, &input.source));
        for (key, entry) in &input.config.entries {
            if let Some((earlier, _)) = last.insert(key, (index, entry)) {
                let text = format!("{} has the same key and counts", input.source);
                findings.push(finding(&inputs[earlier].source, key, Loss::Note, text));
            }
        }
    }
    // Port 443 is the one of a key without a port.
    let mut by_name: BTreeMap<RegistryName, Vec<Candidate<'_>>> = BTreeMap::new();
    for (key, (index, entry)) in last {
        let source = &inputs[index].source;
        let mut report = |loss, text| findings.push(finding(source, key, loss, text));
        let Some(offered) = usable(entry, &mut report) else {
            continue;
        };
        let Some((name, is_exact)) = registry(key, widening, &mut report) else {
            continue;
        };
        let rank = (is_exact, index, key::is_bare(key), std::cmp::Reverse(key));
        let registry = with_https_port(&name);
        by_name.entry(registry).or_default().push(Candidate {
            source,
            key,
            name,
            offered,
            rank,
        });
    }
    let mut offers = Vec::with_capacity(by_name.len());
    for mut candidates in by_name.into_values() {
        candidates.sort_by(|one, other| other.rank.cmp(&one.rank));
        let mut candidates = candidates.into_iter();
        let Some(winner) = candidates.next() else {
            continue;
        };
        for loser in candidates {
            let same = loser.offered == winner.offered;
            let with = if same { "the same" } else { "other" };
            let text = format!(
                "it stands for {}, as \"{}\" of {} does, which has {with} credentials and counts",
                loser.name,
                printable(winner.key),
                winner.source
            );
            let loss = if same { Loss::Note } else { Loss::Lost };
            findings.push(finding(loser.source, loser.key, loss, text));
        }
        offers.push(Offer {
            name: winner.name.to_string(),
            offered: winner.offered,
            source: winner.source.to_owned(),
        });
    }
    (offers, findings)
}

/// The credentials of an entry, if it has some that a document can have.
fn usable(entry: &Entry, report: &mut impl FnMut(Loss, String)) -> Option<Offered> {
    let meaning = match entry.meaning() {
        Ok(meaning) => meaning,
        Err(reason) => {
            report(Loss::Lost, reason.to_string());
            return None;
        }
    };
    let offered = Offered::of(meaning.credentials);
    if offered.is_none() {
        report(Loss::Note, "it has no credentials".to_owned());
        return None;
    }
    for note in meaning.notes {
        report(Loss::Note, note.to_owned());
    }
    offered
}

/// The registry that a key stands for, and whether it does so exactly.
fn registry(
    key: &str,
    widening: Widening,
    report: &mut impl FnMut(Loss, String),
) -> Option<(RegistryName, bool)> {
    match key::meaning(key) {
        Meaning::Registry(name) => {
            if key::is_plain_http(key) {
                let text = "the scheme is dropped; plain HTTP is allowed by \"plain-http\" in a \
                document only";
                report(Loss::Note, text.to_owned());
            }
            Some((name, true))
        }
        Meaning::Wider { name, why } if widening == Widening::Allowed => {
            report(Loss::Note, format!("widened to \"{name}\": {why}"));
            Some((name, false))
        }
        Meaning::Wider { name, why } => {
            report(
                Loss::Widens,
                format!("left out, because \"{name}\" would be wider: {why}"),
            );
            None
        }
        Meaning::Nothing(reason) => {
            report(Loss::Lost, format!("left out: {reason}"));
            None
        }
    }
}

fn finding(source: &str, key: &str, loss: Loss, text: String) -> Finding {
    Finding::new(source, &printable(key), loss, text)
}
