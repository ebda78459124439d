//! Who wins for each registry, before anything is written.

use std::collections::BTreeMap;

use puller_config::{MAX_REGISTRIES, Registries, RegistryName};

use super::holder::{Holder, entry_name, with_https_port};
use super::{Decision, Loser, Winner};
use crate::Offer;
use crate::entry_keys::{self, Keys};
use crate::printable;

/// Keys that will be added. No `Debug`, since they hold secrets.
pub(super) struct Addition {
    /// The registry's name.
    pub(super) name: RegistryName,
    /// The entry of the document that the keys join, where it has this very name, or whose other
    /// settings a new one takes over.
    pub(super) base: Option<RegistryName>,
    /// What is added.
    pub(super) keys: Keys,
    /// The number of the decision that is about it.
    pub(super) decision: usize,
}

/// What becomes of the offers.
pub(super) struct Plan<'d> {
    registries: &'d Registries,
    /// How many entries the document can still take.
    free_entries: usize,
    additions: Vec<Addition>,
    decisions: Vec<Decision>,
    /// What the document says of each name.
    holders: BTreeMap<RegistryName, Holder<'d>>,
    /// The number of the decision about each registry: a name without a port and the one with port
    /// 443 are one.
    known: BTreeMap<RegistryName, usize>,
}

impl<'d> Plan<'d> {
    pub(super) fn new(registries: &'d Registries) -> Self {
        Self {
            registries,
            free_entries: MAX_REGISTRIES.saturating_sub(registries.len()),
            additions: Vec::new(),
            decisions: Vec::new(),
            holders: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    pub(super) fn into_parts(self) -> (Vec<Addition>, Vec<Decision>) {
        (self.additions, self.decisions)
    }

    pub(super) fn consider(&mut self, offer: &Offer) {
        let name = match RegistryName::parse(&offer.name) {
            Ok(name) => entry_name(self.registries, name),
            Err(reason) => {
                let mut decision =
                    Decision::new(printable(&offer.name), Winner::Nobody, reason.to_string());
                decision.lose(offer, &reason.to_string(), true);
                self.decisions.push(decision);
                return;
            }
        };
        let holder = self
            .holders
            .entry(name.clone())
            .or_insert_with(|| Holder::of(self.registries, &name));
        let index = *self.known.entry(with_https_port(&name)).or_insert_with(|| {
            self.decisions.push(holder.decision(&name));
            self.decisions.len() - 1
        });
        let decision = &mut self.decisions[index];
        if let Some(why) = holder.refusal() {
            let lost = matches!(decision.winner, Winner::Nobody);
            return decision.lose(offer, &why, lost);
        }
        if let Winner::Offer(first) = &decision.winner {
            let why = format!("{first} comes first");
            return decision.lose(offer, &why, false);
        }
        let keys = offer.offered.keys();
        if keys.is_empty() {
            return decision.lose(offer, "it is empty", false);
        }
        if let Err(reason) = entry_keys::check(&keys) {
            return decision.lose(offer, &reason, true);
        }
        let base = holder.base();
        if base != Some(&name) {
            let Some(left) = self.free_entries.checked_sub(1) else {
                let why = format!("a document has at most {MAX_REGISTRIES} entries");
                return decision.lose(offer, &why, true);
            };
            self.free_entries = left;
            decision.change = holder.change(&name);
        }
        decision.winner = Winner::Offer(offer.source.clone());
        decision.why = holder.reason(&name);
        decision.name = name.to_string();
        self.additions.push(Addition {
            base: base.cloned(),
            name,
            keys,
            decision: index,
        });
    }
}

impl Decision {
    pub(super) fn new(name: String, winner: Winner, why: String) -> Self {
        Self {
            name,
            winner,
            why,
            change: None,
            losers: Vec::new(),
        }
    }

    fn lose(&mut self, offer: &Offer, why: &str, lost: bool) {
        if matches!(self.winner, Winner::Nobody) {
            why.clone_into(&mut self.why);
        }
        self.losers.push(Loser {
            source: offer.source.clone(),
            why: why.to_owned(),
            lost,
        });
    }

    /// Takes a victory back for which there is no room.
    pub(super) fn give_up(&mut self) {
        let why = "it would make the document too long";
        if let Winner::Offer(source) = std::mem::replace(&mut self.winner, Winner::Nobody) {
            why.clone_into(&mut self.why);
            self.change = None;
            self.losers.push(Loser {
                source,
                why: why.to_owned(),
                lost: true,
            });
        }
    }
}
