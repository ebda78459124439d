//! Several docker configurations made into offers.

use std::collections::BTreeMap;

use registry_config::{Credentials, RegistryName};

use super::key::{self, Meaning};
use super::{DockerConfig, Entry};
use crate::{Finding, Loss, Offer, printable};

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
    offered: Credentials,
    /// Greater is better: not widened, later input, spelled as the bare host, smaller key.
    rank: (bool, usize, bool, std::cmp::Reverse<&'i str>),
}

/// What the configurations offer, the later inputs above the earlier ones, and what became of the
/// rest.
///
/// The order is secretgen-controller's, of which the last one counts: here it is the first, and the
/// others follow it, because a puller tries them after a refusal. Of keys that differ in writing
/// but stand for one registry, the later input comes first, then the one that is the bare host. The
/// same account twice is one. `reg.corp` and `reg.corp:443` are one registry but not the same
/// ports, so only the first spelling counts, and the others are reported.
#[must_use]
pub fn offers(inputs: &[Input], widening: Widening) -> (Vec<Offer>, Vec<Finding>) {
    let mut findings = Vec::new();
    // Port 443 is the one of a key without a port.
    let mut by_name: BTreeMap<RegistryName, Vec<Candidate<'_>>> = BTreeMap::new();
    for (index, Input { source, config }) in inputs.iter().enumerate() {
        findings.extend(super::findings(config, source));
        for (key, entry) in &config.entries {
            let mut report = |loss, text| findings.push(finding(source, key, loss, text));
            let Some(offered) = usable(entry, &mut report) else {
                continue;
            };
            let Some((name, is_exact)) = registry(key, widening, &mut report) else {
                continue;
            };
            let rank = (is_exact, index, key::is_bare(key), std::cmp::Reverse(&**key));
            let registry = name.with_https_port();
            by_name.entry(registry).or_default().push(Candidate {
                source,
                key,
                name,
                offered,
                rank,
            });
        }
    }
    let mut offers = Vec::with_capacity(by_name.len());
    for mut candidates in by_name.into_values() {
        candidates.sort_by(|one, other| other.rank.cmp(&one.rank));
        let mut taken: Vec<Candidate<'_>> = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            if let Some(first) = taken.first() {
                let is_known = taken.iter().any(|one| one.offered == candidate.offered);
                findings.push(behind(&candidate, first, is_known));
                if is_known || candidate.name != first.name {
                    continue;
                }
            }
            taken.push(candidate);
        }
        offers.extend(taken.into_iter().map(|candidate| Offer {
            name: candidate.name.to_string(),
            offered: candidate.offered,
            source: candidate.source.to_owned(),
        }));
    }
    (offers, findings)
}

/// What becomes of an entry for the same registry as the `first` one.
fn behind(candidate: &Candidate<'_>, first: &Candidate<'_>, is_known: bool) -> Finding {
    let (key, source) = (printable(first.key), first.source);
    let (loss, text) = if is_known {
        let text =
            format!("the same credentials as an entry that counts more, \"{key}\" of {source}");
        (Loss::Note, text)
    } else if candidate.name == first.name {
        let text = format!("tried after \"{key}\" of {source}, where that is refused");
        (Loss::Note, text)
    } else {
        let text = format!(
            "left out: it stands for {}, as \"{key}\" of {source} does, which counts",
            candidate.name
        );
        (Loss::Lost, text)
    };
    finding(candidate.source, candidate.key, loss, text)
}

/// The credentials of an entry, if it has some that a document can have.
fn usable(entry: &Entry, report: &mut impl FnMut(Loss, String)) -> Option<Credentials> {
    let meaning = match entry.meaning() {
        Ok(meaning) => meaning,
        Err(reason) => {
            report(Loss::Lost, reason.to_string());
            return None;
        }
    };
    let offered = match meaning.credentials {
        Credentials::Anonymous => {
            report(Loss::Note, "it has no credentials".to_owned());
            return None;
        }
        // The name of a token's account is not offered with it.
        Credentials::IdentityToken { token, .. } => {
            Credentials::IdentityToken { username: None, token }
        }
        other => other,
    };
    for note in meaning.notes {
        report(Loss::Note, note.to_owned());
    }
    Some(offered)
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
            report(Loss::Widens, format!("left out, because \"{name}\" would be wider: {why}"));
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
