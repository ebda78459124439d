//! Offers put below what a document says.
//!
//! Who wins, for each registry that something is offered for:
//!
//! 1. An entry of the document that holds for it and has credentials, be it a literal, a suffix or
//!    `.`.
//! 2. The first offer of the list that the document can express. The next ones become its further
//!    accounts (`also`), in their order, as many as an entry has room for: the puller tries them
//!    after a refusal, as the kubelet does.
//! 3. No source: the entry that holds sends its credentials to a mirror, so none are added to it.
//!
//! An entry for some repositories hides the wider ones. So what was offered for these (fewer
//! segments, then the host) comes behind its own accounts.
//!
//! `reg.corp` and `reg.corp:443` are one registry: the spelling of the first offer for either
//! counts, and where the document has an entry `reg.corp:443`, that one holds for an offer without
//! a port. Without such an entry a name without a port holds for every port. But where anything is
//! about one port of a host, an offer for some of its repositories is for port 443 unless it names
//! another: for every port, it would hide what is about that one, and bring it others' passwords.
//!
//! An offer only ever adds credentials. Where the registry has an entry of its own, they join it.
//! Where it has none, it gets one, and that begins with everything that the entry says which held
//! for it until then (`ca-certs` of a suffix, say): a literal entry hides the others, and must not
//! change which roots the puller trusts. An entry cannot inherit its absence: a host that only
//! serves others' blobs or tokens is trusted by their `ca-certs` until it has an entry of its own
//! ([`Origin::change`]).

mod holder;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use registry_config::{
    Checked, Document, MAX_ALSO, MAX_DOCUMENT_BYTES, MAX_REGISTRIES, Problems, Registries,
    Registry, RegistryName, Rule, Warning, is_below,
};
use serde::Serialize;
use thiserror::Error;
use zeroize::Zeroizing;

use self::holder::Holder;
use crate::{Finding, Loss, Offer, printable};

pub use self::holder::is_taken;
pub(crate) use self::holder::{entry_name, holds_for, lends};

/// A document with offers in it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Merged {
    /// The document's text, written anew with what was added, without its comments. The same bytes
    /// as before where nothing was.
    pub text: Zeroizing<Vec<u8>>,
    /// The text, parsed.
    pub document: Document,
    /// What its author may not have meant, as of any document.
    pub warnings: Vec<Warning>,
    /// Where the credentials come from, in the order in which the registries were first offered
    /// for.
    pub origins: Vec<Origin>,
}

/// Where the credentials of one registry come from, and what was offered for it in vain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The name of the registry's entry in its normal form; where it has none, as it was offered.
    pub registry: String,
    /// The document's entry that has credentials, as it is named there: no offer was taken.
    pub entry: Option<String>,
    /// The accounts that were added, in the order in which they are tried.
    pub accounts: Vec<Account>,
    /// Why it has these and no others, as a fragment without a full stop. Never a value.
    pub why: String,
    /// What else these accounts change, where they do.
    pub change: Option<&'static str>,
    /// The offers that were not taken.
    pub losers: Vec<Loser>,
}

/// An account that was added to an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Account {
    /// Where it comes from.
    pub source: String,
    /// The wider name that it was offered for, where that is not the entry's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_for: Option<String>,
}

/// An offer that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Loser {
    /// Where it comes from.
    pub source: String,
    /// Why it was not taken, as a fragment without a full stop. Never a value.
    pub why: String,
    /// Whether something is missing from the document now: not where another source won.
    pub lost: bool,
}

impl Loser {
    /// Whether it is left out only because the document is full.
    #[must_use]
    pub fn has_no_room(&self) -> bool {
        self.why == NO_ROOM || self.why == no_entries()
    }
}

/// What is said of an offer for which a document has no room.
const NO_ROOM: &str = "it would make the document too long";

/// [`NO_ROOM`] of an offer that needs an entry of its own.
fn no_entries() -> String {
    format!("a document has at most {MAX_REGISTRIES} entries")
}

/// Why nothing could be merged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The document itself is not valid.
    #[error("the document is not valid:\n{0}")]
    Document(Problems),
    /// The document is a reason why the node has none, and refuses every pull.
    #[error("the document is a \"node-error\", beside which nothing stands; remove that key first")]
    NodeError,
    /// The document is valid but would not be with what was added.
    #[error("with what was offered the document would not be valid:\n{0}")]
    Result(Problems),
    /// The document cannot be written.
    #[error("the document cannot be written: {0}")]
    Unwritten(Rule),
}

/// Accounts that an entry will get. No `Debug`, since they hold secrets.
struct Addition<'a> {
    /// The registry's name.
    name: RegistryName,
    /// The entry of the document that they join, where it has this very name, or whose other
    /// settings a new one takes over.
    base: Option<&'a RegistryName>,
    /// At least one and at most an entry's, the first one tried first, each with the wider name
    /// that it was offered for.
    accounts: Vec<(&'a Offer, Option<String>)>,
}

/// Puts `offers` below what `document` says; of two offers for one registry the first one's account
/// is tried first.
///
/// Both may be hostile. The work is bounded by the limits of a document times the number of offers.
/// Only the returned text and document hold secrets, and every other copy is zeroed; what the
/// document's parser says of that holds here too.
///
/// # Errors
///
/// [`MergeError::Document`] if `document` is not valid, [`MergeError::NodeError`] if something is
/// offered to one that takes nothing. The others mean that an offer has brought a
/// document to its limits, or a fault; the document without offers is as good as before.
pub fn merge(document: &[u8], offers: &[Offer]) -> Result<Merged, MergeError> {
    let checked = read(document, offers.is_empty())?;
    let mut config = checked.document.clone();
    let mut room = MAX_DOCUMENT_BYTES.saturating_sub(config.written_bytes());
    let mut is_as_before = true;
    let mut origins = Vec::new();
    for (mut origin, addition) in plan(&checked.document.registries, offers) {
        if let Some(mut addition) = addition {
            let (count, bytes) = add(&addition, room, &mut config.registries);
            room -= bytes;
            is_as_before &= count == 0;
            // What was offered for wider names has its place there.
            let gone = addition.accounts.split_off(count).into_iter();
            let gone = gone.filter(|(_, offered_for)| offered_for.is_none());
            origin.losers.extend(gone.map(|(offer, _)| offer.lose(NO_ROOM, true)));
            if count == 0 {
                NO_ROOM.clone_into(&mut origin.why);
                origin.change = None;
            }
            let kept = addition.accounts.into_iter();
            origin.accounts = kept
                .map(|(offer, offered_for)| Account { source: offer.source.clone(), offered_for })
                .collect();
        }
        origins.push(origin);
    }
    if is_as_before {
        let Checked { document: parsed, warnings, .. } = checked;
        return Ok(Merged { text: document.to_vec().into(), document: parsed, warnings, origins });
    }
    let mut text = config.to_toml().map_err(MergeError::Unwritten)?;
    let text = Zeroizing::new(std::mem::take(&mut *text).into_bytes());
    let Checked { document, warnings, .. } = Document::parse(&text).map_err(MergeError::Result)?;
    Ok(Merged { text, document, warnings, origins })
}

/// Who wins for each registry, and what that adds, before anything is written.
fn plan<'a>(
    registries: &'a Registries,
    offers: &'a [Offer],
) -> Vec<(Origin, Option<Addition<'a>>)> {
    let known = registries.iter().map(|(name, _)| name.clone());
    let offered = offers.iter().filter_map(|offer| RegistryName::parse(&offer.name).ok());
    let host_of = |name: &RegistryName| name.host().map(|host| host.name());
    // The hosts of which something is about one port only, be it in the document or an offer.
    let by_port = known.chain(offered).filter(RegistryName::has_port);
    let by_port: BTreeSet<_> = by_port.map(|name| host_of(&name)).collect();
    let mut free_entries = MAX_REGISTRIES.saturating_sub(registries.len());
    let mut plan: Vec<(Origin, Option<Addition<'_>>)> = Vec::new();
    // The place of each registry: a name without a port and the one with port 443 are one.
    let mut places = BTreeMap::new();
    for offer in offers {
        let name = match RegistryName::parse(&offer.name) {
            Ok(name) => name,
            Err(rule) => {
                let (registry, why) = (printable(&offer.name), rule.to_string());
                let losers = vec![offer.lose(&why, true)];
                plan.push((Origin { registry, why, losers, ..Origin::default() }, None));
                continue;
            }
        };
        // An entry for some repositories on every port would hide the one that the host has for a
        // port, and send what is offered for the port of HTTPS to that one.
        let is_below = name.repositories().is_some();
        let name = match is_below && by_port.contains(&host_of(&name)) {
            true => name.with_https_port(),
            false => entry_name(registries, name),
        };
        let holder = Holder::of(registries, &name);
        let place = *places.entry(name.with_https_port()).or_insert_with(|| {
            let why = "the document has credentials for it, and they win over every offer";
            let entry = holder.taken.map(RegistryName::written);
            let why = entry.as_ref().map_or(String::new(), |_| why.to_owned());
            let registry = name.to_string();
            plan.push((Origin { registry, entry, why, ..Origin::default() }, None));
            plan.len() - 1
        });
        let (origin, addition) = &mut plan[place];
        let is_nobodys = origin.entry.is_none() && addition.is_none();
        let taken = match holder.refusal {
            Some(why) => Err((why, is_nobodys)),
            None => take(offer, name, &holder, &mut free_entries, origin, addition),
        };
        if let Err((why, lost)) = taken {
            origin.losers.push(offer.lose(&why, lost));
            if is_nobodys {
                origin.why = why;
            }
        }
    }
    add_wider(&mut plan);
    plan
}
/// Takes an offer into the entry `name`, unless it is for another port or says nothing new; then
/// why, and whether it is lost.
fn take<'a>(
    offer: &'a Offer,
    name: RegistryName,
    holder: &Holder<'a>,
    free_entries: &mut usize,
    origin: &mut Origin,
    addition: &mut Option<Addition<'a>>,
) -> Result<(), (String, bool)> {
    if offer.offered.is_anonymous() {
        return Err(("it is empty".to_owned(), false));
    }
    offer.offered.check().map_err(|rule| (rule.to_string(), true))?;
    let Some(Addition { name: first, accounts, .. }) = addition else {
        let base = holder.base;
        if base != Some(&name) {
            *free_entries = free_entries.checked_sub(1).ok_or_else(|| (no_entries(), true))?;
            origin.change = holder.change(&name);
        }
        origin.why = holder.reason(&name);
        origin.registry = name.to_string();
        *addition = Some(Addition { name, base, accounts: vec![(offer, None)] });
        return Ok(());
    };
    if *first != name {
        return Err((format!("an offer for \"{first}\" comes first, for other ports"), false));
    }
    if accounts.iter().any(|(known, _)| known.offered == offer.offered) {
        return Err(("an earlier offer says the same".to_owned(), false));
    }
    if accounts.len() > MAX_ALSO {
        return Err((format!("an entry has at most {MAX_ALSO} further accounts"), true));
    }
    accounts.push((offer, None));
    Ok(())
}

/// Puts what was offered for wider names behind the accounts of entries for repositories.
fn add_wider(plan: &mut [(Origin, Option<Addition<'_>>)]) {
    let additions = plan.iter().filter_map(|(_, addition)| addition.as_ref());
    let mut own: Vec<_> =
        additions.map(|addition| (addition.name.clone(), addition.accounts.clone())).collect();
    // The most segments first.
    own.sort_by_key(|(name, _)| Reverse(name.repositories().map(str::len)));
    for addition in plan.iter_mut().filter_map(|(_, addition)| addition.as_mut()) {
        let Addition { name, accounts, .. } = addition;
        for (wide, further) in own.iter().filter(|(wide, _)| is_wider(wide, name)) {
            for (offer, _) in further {
                let is_known = accounts.iter().any(|(known, _)| known.offered == offer.offered);
                if accounts.len() <= MAX_ALSO && !is_known {
                    accounts.push((offer, Some(wide.to_string())));
                }
            }
        }
    }
}

/// Whether the entry `wide` would hold for all that `name` holds for if that had none of its own.
fn is_wider(wide: &RegistryName, name: &RegistryName) -> bool {
    let Some(repositories) = name.repositories() else {
        return false;
    };
    let is_above = match wide.repositories() {
        Some(above) => above != repositories && is_below(repositories, above),
        None => true,
    };
    // An entry for one port is no statement about the others.
    let has_its_ports = !wide.has_port() || name.has_port();
    wide.host() == name.host() && is_above && has_its_ports
}

/// Adds accounts to an entry, as many as do not take more bytes than there is `room`. Returns how
/// many these are, and their bytes.
fn add(addition: &Addition<'_>, room: usize, registries: &mut Registries) -> (usize, usize) {
    let bytes_of = |entry: &Registry| {
        let mut alone = Document::default();
        alone.registries.set(addition.name.clone(), entry.clone());
        // With the line before it.
        alone.written_bytes() + 1
    };
    let base = addition.base;
    let mut entry = base.and_then(|base| registries.get(base)).cloned().unwrap_or_default();
    let before = if base == Some(&addition.name) { bytes_of(&entry) } else { 0 };
    let (mut added, mut bytes) = (0, 0);
    for (offer, _) in &addition.accounts {
        let mut more = entry.clone();
        let account = offer.offered.clone();
        if more.credentials.is_anonymous() {
            more.credentials = account;
        } else {
            more.also.push(account);
        }
        let more_bytes = bytes_of(&more) - before;
        if more_bytes > room {
            break;
        }
        (entry, added, bytes) = (more, added + 1, more_bytes);
    }
    if added > 0 {
        registries.set(addition.name.normal(), entry);
    }
    (added, bytes)
}

/// Reads a document that something is added to, unless there is nothing to add.
pub(crate) fn read(document: &[u8], is_done: bool) -> Result<Checked, MergeError> {
    let checked = Document::parse(document).map_err(MergeError::Document)?;
    if checked.document.node_error.is_some() && !is_done {
        return Err(MergeError::NodeError);
    }
    Ok(checked)
}

impl Offer {
    fn lose(&self, why: &str, lost: bool) -> Loser {
        Loser { source: self.source.clone(), why: why.to_owned(), lost }
    }
}

impl Origin {
    /// What is to be told of it; `document` is the document's name.
    #[must_use]
    pub fn findings(&self, document: &str) -> Vec<Finding> {
        let of = |source: &str, loss, text| Finding::new(source, &self.registry, loss, text);
        let losers = self.losers.iter().map(|loser| {
            let loss = if loser.lost { Loss::Lost } else { Loss::Note };
            of(&loser.source, loss, format!("left out: {}", loser.why))
        });
        let change = self.change.map(|change| of(document, Loss::Note, change.to_owned()));
        losers.chain(change).collect()
    }
}

impl fmt::Debug for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merged")
            .field("document", &self.document)
            .field("origins", &self.origins)
            .finish_non_exhaustive()
    }
}
