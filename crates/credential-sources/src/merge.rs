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
//! ([`Decision::change`]).

mod holder;
mod plan;
#[cfg(test)]
mod tests;

use std::fmt;

use registry_config::{
    Checked, Credentials, Document, MAX_DOCUMENT_BYTES, MAX_REGISTRIES, Problems, Registries,
    Registry, RegistryHost, RegistryName, Rule, Warning, is_below,
};
use thiserror::Error;
use zeroize::Zeroizing;

use self::holder::{Holder, entry_name, is_open_below};
use self::plan::{Addition, Plan};
use crate::Offer;

pub(crate) use self::holder::{holds_for, with_https_port};

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
    /// Who won, in the order in which the registries were first offered for.
    pub decisions: Vec<Decision>,
}

/// Who wins for one registry, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// The name of the registry's entry in its normal form; where it has none, as it was offered.
    pub name: String,
    /// Whose credentials it has now.
    pub winner: Winner,
    /// Why that is so, as a fragment without a full stop. Never a value.
    pub why: String,
    /// What else the winner changes, where it does.
    pub change: Option<&'static str>,
    /// The further accounts, in the order in which they are tried after a refusal.
    pub also: Vec<Further>,
    /// The offers that were not taken.
    pub losers: Vec<Loser>,
}

/// A further account of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Further {
    /// Where it comes from.
    pub source: String,
    /// The wider name that it was offered for, where that is not the entry's own.
    pub offered_for: Option<String>,
}

/// Whose credentials a registry has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Winner {
    /// Those that the document itself has, in the entry with this name as it is written there.
    Document(String),
    /// Those of this source.
    Offer(String),
    /// No offer could be taken.
    Nobody,
}

/// An offer that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    let mut plan = Plan::new(&checked.document.registries, offers);
    for offer in offers {
        plan.consider(offer);
    }
    let (additions, mut decisions) = plan.into_parts();
    let mut config = checked.document.clone();
    let mut room = MAX_DOCUMENT_BYTES.saturating_sub(config.written_bytes());
    let mut is_as_before = true;
    for addition in &additions {
        let (accounts, bytes) = add(addition, room, &mut config.registries);
        room -= bytes;
        is_as_before &= accounts == 0;
        decisions[addition.decision].keep(accounts);
    }
    if is_as_before {
        return Ok(Merged::new(document.to_vec().into(), checked, decisions));
    }
    let mut text = config.to_toml().map_err(MergeError::Unwritten)?;
    let text = Zeroizing::new(std::mem::take(&mut *text).into_bytes());
    let checked = Document::parse(&text).map_err(MergeError::Result)?;
    Ok(Merged::new(text, checked, decisions))
}

/// Adds accounts to an entry, as many as do not take more bytes than there is `room`. Returns how
/// many these are, and their bytes.
fn add(addition: &Addition, room: usize, registries: &mut Registries) -> (usize, usize) {
    let bytes_of = |entry: &Registry| {
        let mut alone = Document::default();
        alone.registries.set(addition.name.clone(), entry.clone());
        // With the line before it.
        alone.written_bytes() + 1
    };
    let base = addition.base.as_ref();
    let mut entry = base.and_then(|base| registries.get(base)).cloned().unwrap_or_default();
    let before = if base == Some(&addition.name) { bytes_of(&entry) } else { 0 };
    let (mut added, mut bytes) = (0, 0);
    for account in &addition.accounts {
        let mut more = entry.clone();
        if more.credentials.is_anonymous() {
            more.credentials = Credentials::clone(account);
        } else {
            more.also.push(Credentials::clone(account));
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

/// Whether a document has credentials for all of `host`, so that no offer for it or for some of its
/// repositories would be taken.
#[must_use]
pub fn is_taken(registries: &Registries, host: &RegistryHost) -> bool {
    let Ok(name) = RegistryName::parse(&host.to_string()) else {
        return false;
    };
    // An entry for the port of HTTPS holds for an offer without a port, but not for one for some
    // repositories, which is about every port.
    let on_its_port = entry_name(registries, name.clone());
    let is_taken = |name| Holder::of(registries, name).is_taken();
    let is_open = registries.iter().any(|entry| is_open_below(entry, host));
    is_taken(&name) && is_taken(&on_its_port) && !is_open
}

/// Whether a document has credentials for the repositories of `host` below `repositories`, so that
/// no offer for some of them would be taken.
#[must_use]
pub fn is_taken_below(registries: &Registries, host: &RegistryHost, repositories: &str) -> bool {
    let Ok(name) = RegistryName::parse(&format!("{host}/{repositories}")) else {
        return false;
    };
    let on_its_port = entry_name(registries, name.clone());
    let is_taken = |name| Holder::of(registries, name).is_taken();
    let is_within = |(name, _): &(&RegistryName, _)| {
        let below = name.repositories();
        below.is_some_and(|below| is_below(below, repositories))
    };
    let mut within = registries.iter().filter(is_within);
    let is_open = within.any(|entry| is_open_below(entry, host));
    is_taken(&name) && is_taken(&on_its_port) && !is_open
}

/// Reads a document that something is added to, unless there is nothing to add.
pub(crate) fn read(document: &[u8], is_done: bool) -> Result<Checked, MergeError> {
    let checked = Document::parse(document).map_err(MergeError::Document)?;
    if checked.document.node_error.is_some() && !is_done {
        return Err(MergeError::NodeError);
    }
    Ok(checked)
}

impl Merged {
    fn new(text: Zeroizing<Vec<u8>>, checked: Checked, decisions: Vec<Decision>) -> Self {
        Self { text, document: checked.document, warnings: checked.warnings, decisions }
    }
}

impl fmt::Debug for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merged")
            .field("document", &self.document)
            .field("decisions", &self.decisions)
            .finish_non_exhaustive()
    }
}
