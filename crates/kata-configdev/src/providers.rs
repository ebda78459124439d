//! Credentials of the kubelet's plugins for a sandbox that starts, put below its document.
//!
//! Nothing here fails a sandbox: whatever a plugin, its configuration or the cache do, the document
//! is at least what it was, and the rest is a [`Finding`]. Where the settings name no registry,
//! nothing is read and nothing started.
//!
//! Plugins run as this process's user, which is root, as the kubelet's do. So configuration and
//! programs must belong to root and be writable for nobody else; the kubelet does not look.

pub mod agent;
mod answers;
mod asking;
pub mod child;
mod contribution;
mod fingerprint;
mod listing;
mod questions;
mod uncovered;

use std::path::Path;
use std::time::Instant;

use credential_sources::kubelet::answer::offers;
use credential_sources::kubelet::config::Provider;
use credential_sources::{Finding, Loss, Offer, merge};
use registry_config::{Document, Registries};

use self::answers::Answers;
use self::questions::Inquiry;
use crate::choice::DocumentText;
use crate::settings::{AskedRegistries, AskedRegistry, Settings};

pub use self::contribution::{AskedPlugin, Contribution, Line, NotKept, Outcome, Told};
pub use self::listing::{ListingFault, read as read_listing};
pub use self::uncovered::Uncovered;

/// How messages call what is not about a single plugin.
const ALL: &str = "credential providers";

/// What to do where the kubelet's files are at none of the usual places.
const NOT_FOUND: &str = "the kubelet's configuration of them is not found where kubeadm, k3s, \
    RKE2, EKS, GKE and AKS keep it; name it by \"config\" and \"bin-dir\" of the settings";

impl Contribution {
    fn lose(&mut self, source: &str, text: impl Into<String>) {
        self.findings.push(Finding::new(source, "", Loss::Lost, text));
    }
}

/// The document `text`, which says `document`, with what the node's plugins offer below it, where
/// they offer anything, and what they did.
#[must_use]
pub fn add(
    settings: &Settings,
    (text, document): (&DocumentText, &Document),
    kept: Kept,
) -> (Option<(DocumentText, Document)>, Contribution) {
    let (offers, mut contribution) = offered(settings, &document.registries, kept);
    let mut merged = None;
    if !offers.is_empty() {
        merged = merge(text, &offers).ok();
        // The document was valid before; its problems may name lines of what was added, so they are
        // not repeated.
        if merged.is_none() {
            let text = "with their answers the document would not be valid; it is used without";
            contribution.lose(ALL, text);
        }
    }
    contribution.tell(merged.as_ref());
    let merged = merged.map(|merged| ((merged.text.into(), merged.document), merged.origins));
    let (merged, origins) = merged.unzip();
    contribution.origins = origins.unwrap_or_default();
    (merged, contribution)
}

/// Forgets the kept answers that have expired; nothing where none are kept.
pub fn forget_expired(run_root: &Path) {
    if let Some(answers) = Answers::open(run_root, false).and_then(Answers::locked) {
        answers.write();
    }
}

/// Forgets every kept answer; nothing where none are kept.
pub fn forget_all(run_root: &Path) {
    if let Some(answers) = Answers::open(run_root, false) {
        answers.discard();
    }
}

/// What answers are good for that were kept for other sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// As good as new ones, until they expire. Who failed a moment ago is not asked again.
    Used,
    /// To be replaced by new ones, in time before they expire. Who failed is asked again, too.
    Ignored,
    /// All that there is: nobody is run, because the [node agent](agent) asks the others.
    Only,
}

/// The patterns for which no registry is named, where the settings mean those of the kubelet.
#[must_use]
pub fn uncovered(registries: &AskedRegistries, listed: &[Provider]) -> Vec<Uncovered> {
    let mut contribution = Contribution::default();
    questions::registries(registries, listed, &mut contribution);
    contribution.uncovered
}

/// What the node's plugins offer now for a sandbox whose document has `registries`, if `settings`
/// ask any: the offers of one registry in the order in which the kubelet would try them.
fn offered(settings: &Settings, registries: &Registries, kept: Kept) -> (Vec<Offer>, Contribution) {
    let asked = &settings.credential_providers;
    let deadline = Instant::now() + asked.deadline;
    let mut offered = Vec::new();
    let mut contribution = Contribution {
        by_agent: kept == Kept::Only,
        registries: asked.registries.named.clone(),
        ..Contribution::default()
    };
    if !asked.is_wanted() {
        return (offered, contribution);
    }
    let Some(sources) = asked.sources(Path::new("/")) else {
        contribution.lose(ALL, NOT_FOUND);
        return (offered, contribution);
    };
    let listed = match read_listing(&sources.config) {
        Ok(listed) => listed,
        Err(fault) => {
            contribution.lose(ALL, format!("{fault}; no plugin is asked"));
            return (offered, contribution);
        }
    };
    let named = questions::registries(&asked.registries, listed.list(), &mut contribution);
    let plugins = questions::usable(listed.list(), &sources, &mut contribution);
    let mut questions = questions::questions(&plugins, &named, registries, &mut contribution);
    if !questions.is_empty() {
        asking::answer(&mut questions, (settings, &sources), deadline, kept, &mut contribution);
    }
    // The questions about one registry stand together; those about some of its repositories are a
    // matter of their own.
    let place = |one: &Inquiry<'_>| {
        let host = &one.registry.host;
        (named.iter().position(|known| known.host == *host), one.repositories.clone())
    };
    questions.sort_by_key(place);
    for same in questions.chunk_by(|one, next| place(one) == place(next)) {
        let answers: Vec<_> = same.iter().filter_map(Inquiry::answer).collect();
        let Inquiry { registry, repositories, .. } = &same[0];
        let (mut offers, findings) = offers(&registry.host, repositories.as_deref(), &answers);
        offered.append(&mut offers);
        // What is about the host is about the part of it that was asked about.
        let host = registry.host.to_string();
        contribution.findings.extend(findings.into_iter().map(|mut finding| {
            if finding.key == host {
                finding.key = registry.to_string();
            }
            finding
        }));
    }
    contribution.asked = questions.into_iter().map(Inquiry::into_asked).collect();
    contribution.registries = named;
    (offered, contribution)
}

fn about(source: &str, registry: &AskedRegistry, text: &str) -> Finding {
    Finding::new(source, &registry.to_string(), Loss::Lost, text)
}
