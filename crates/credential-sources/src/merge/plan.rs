//! Who wins for each registry, before anything is written.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use registry_config::{Credentials, MAX_ALSO, MAX_REGISTRIES, Registries, RegistryName, is_below};

use super::holder::{Holder, entry_name, with_https_port};
use super::{Decision, Further, Loser, NO_ROOM, Winner, no_entries};
use crate::{Offer, printable};

/// Keys that will be added. No `Debug`, since they hold secrets.
pub(super) struct Addition {
    /// The registry's name.
    pub(super) name: RegistryName,
    /// The entry of the document that the keys join, where it has this very name, or whose other
    /// settings a new one takes over.
    pub(super) base: Option<RegistryName>,
    /// The accounts that are added, at least one and at most an entry's, the first one tried first.
    pub(super) accounts: Vec<Rc<Credentials>>,
    /// The number of the decision that is about it.
    pub(super) decision: usize,
}

/// What becomes of the offers.
pub(super) struct Plan<'d> {
    registries: &'d Registries,
    /// The hosts of which something is about one port only, be it in the document or an offer.
    by_port: BTreeSet<RegistryName>,
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
    pub(super) fn new(registries: &'d Registries, offers: &[Offer]) -> Self {
        let known = registries.iter().map(|(name, _)| name.clone());
        let offered = offers.iter().filter_map(|offer| RegistryName::parse(&offer.name).ok());
        Self {
            registries,
            by_port: known
                .chain(offered)
                .filter(RegistryName::has_port)
                .filter_map(|name| without_port(&name))
                .collect(),
            free_entries: MAX_REGISTRIES.saturating_sub(registries.len()),
            additions: Vec::new(),
            decisions: Vec::new(),
            holders: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    pub(super) fn into_parts(mut self) -> (Vec<Addition>, Vec<Decision>) {
        self.add_wider();
        (self.additions, self.decisions)
    }

    /// Puts what was offered for wider names behind the accounts of entries for repositories.
    fn add_wider(&mut self) {
        let own: Vec<_> = self
            .additions
            .iter()
            .map(|addition| (addition.name.clone(), addition.accounts.clone(), addition.decision))
            .collect();
        for addition in &mut self.additions {
            let mut wider: Vec<_> =
                own.iter().filter(|(name, ..)| is_wider(name, &addition.name)).collect();
            // The most segments first.
            wider.sort_by_key(|(name, ..)| std::cmp::Reverse(name.repositories().map(str::len)));
            for (name, accounts, decision) in wider {
                let sources = sources(&self.decisions[*decision]);
                for (keys, source) in accounts.iter().zip(sources) {
                    if addition.accounts.len() <= MAX_ALSO && !addition.accounts.contains(keys) {
                        addition.accounts.push(Rc::clone(keys));
                        self.decisions[addition.decision]
                            .also
                            .push(Further { source, offered_for: Some(name.to_string()) });
                    }
                }
            }
        }
    }

    /// The name of the entry that an offer for `name` is put into.
    ///
    /// An entry for some repositories on every port would hide the one that the host has for a
    /// port, and send what is offered for the port of HTTPS to that one.
    fn entry_name(&self, name: RegistryName) -> RegistryName {
        let is_below = name.repositories().is_some();
        match without_port(&name) {
            Some(host) if is_below && self.by_port.contains(&host) => with_https_port(&name),
            _ => entry_name(self.registries, name),
        }
    }

    pub(super) fn consider(&mut self, offer: &Offer) {
        let name = match RegistryName::parse(&offer.name) {
            Ok(name) => self.entry_name(name),
            Err(reason) => {
                let mut decision =
                    Decision::new(printable(&offer.name), Winner::Nobody, reason.to_string());
                decision.lose(offer, &reason.to_string(), true);
                self.decisions.push(decision);
                return;
            }
        };
        let holder =
            self.holders.entry(name.clone()).or_insert_with(|| Holder::of(self.registries, &name));
        let index = *self.known.entry(with_https_port(&name)).or_insert_with(|| {
            self.decisions.push(holder.decision(&name));
            self.decisions.len() - 1
        });
        let decision = &mut self.decisions[index];
        if let Some(why) = holder.refusal() {
            let lost = matches!(decision.winner, Winner::Nobody);
            return decision.lose(offer, &why, lost);
        }
        if offer.offered.is_anonymous() {
            return decision.lose(offer, "it is empty", false);
        }
        if let Err(rule) = offer.offered.check() {
            return decision.lose(offer, &rule.to_string(), true);
        }
        let account = Rc::new(offer.offered.clone());
        let mut additions = self.additions.iter_mut();
        if let Some(first) = additions.find(|addition| addition.decision == index) {
            return match first.take(account, &name) {
                Ok(()) => {
                    decision.also.push(Further { source: offer.source.clone(), offered_for: None })
                }
                Err(NotTaken { why, lost }) => decision.lose(offer, &why, lost),
            };
        }
        let base = holder.base();
        if base != Some(&name) {
            let Some(left) = self.free_entries.checked_sub(1) else {
                return decision.lose(offer, &no_entries(), true);
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
            accounts: vec![account],
            decision: index,
        });
    }
}

/// Why an offer does not become a further account.
struct NotTaken {
    why: String,
    lost: bool,
}

impl Addition {
    /// Takes a further account, which was offered for `name`.
    fn take(&mut self, account: Rc<Credentials>, name: &RegistryName) -> Result<(), NotTaken> {
        let refuse = |why: String, lost| Err(NotTaken { why, lost });
        if *name != self.name {
            let why = format!("an offer for \"{}\" comes first, for other ports", self.name);
            return refuse(why, false);
        }
        if self.accounts.contains(&account) {
            return refuse("an earlier offer says the same".to_owned(), false);
        }
        if self.accounts.len() > MAX_ALSO {
            let why = format!("an entry has at most {MAX_ALSO} further accounts");
            return refuse(why, true);
        }
        self.accounts.push(account);
        Ok(())
    }
}

/// The name of a single host, without port and repositories.
fn without_port(name: &RegistryName) -> Option<RegistryName> {
    RegistryName::parse(&name.host()?.name()).ok()
}

/// Whether the entry `wide` would hold for all that `name` holds for if that had none of its own.
fn is_wider(wide: &RegistryName, name: &RegistryName) -> bool {
    let Some(repositories) = name.repositories() else {
        return false;
    };
    let is_same_host =
        with_https_port(&wide.of_host()) == with_https_port(&name.of_host()) && wide.is_literal();
    let is_above = match wide.repositories() {
        Some(above) => above != repositories && is_below(repositories, above),
        None => true,
    };
    // An entry for one port is no statement about the others.
    let has_its_ports = !wide.has_port() || name.has_port();
    is_same_host && is_above && has_its_ports
}

/// Where the accounts of a decision's entry come from, in their order.
fn sources(decision: &Decision) -> Vec<String> {
    let first = match &decision.winner {
        Winner::Offer(source) => Some(source.clone()),
        _ => None,
    };
    let further = decision.also.iter();
    // What was put behind them comes last.
    let own = further.filter(|further| further.offered_for.is_none());
    let own = own.map(|further| further.source.clone());
    first.into_iter().chain(own).collect()
}

impl Decision {
    pub(super) fn new(name: String, winner: Winner, why: String) -> Self {
        Self { name, winner, why, change: None, also: Vec::new(), losers: Vec::new() }
    }

    fn lose(&mut self, offer: &Offer, why: &str, lost: bool) {
        if matches!(self.winner, Winner::Nobody) {
            why.clone_into(&mut self.why);
        }
        self.losers.push(Loser { source: offer.source.clone(), why: why.to_owned(), lost });
    }

    /// Takes back what there is no room for: all but the first `count` accounts.
    pub(super) fn keep(&mut self, count: usize) {
        let why = NO_ROOM;
        let mut gone = Vec::new();
        if count == 0
            && let Winner::Offer(source) = std::mem::replace(&mut self.winner, Winner::Nobody)
        {
            why.clone_into(&mut self.why);
            self.change = None;
            gone.push(source);
        }
        let further = self.also.split_off(count.saturating_sub(1).min(self.also.len()));
        // What was offered for wider names has its place there.
        let further = further.into_iter().filter(|one| one.offered_for.is_none());
        gone.extend(further.map(|one| one.source));
        self.losers.extend(gone.into_iter().map(|source| Loser {
            source,
            why: why.to_owned(),
            lost: true,
        }));
    }
}
