//! Credentials of the kubelet's plugins for a sandbox that starts, put below its document.
//!
//! Nothing here fails a sandbox: whatever a plugin, its configuration or the cache do, the document
//! is at least what it was, and the rest is a [`Finding`]. Where the settings name no registry,
//! nothing is read and nothing started.
//!
//! Plugins run as this process's user, which is root, as the kubelet's do. So configuration and
//! programs must belong to root and be writable for nobody else; the kubelet does not look.

mod cache;
mod contribution;
mod fingerprint;
mod listing;

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::time::Instant;

use credential_sources::kubelet::answer::{offers, source};
use credential_sources::kubelet::config::Provider;
use credential_sources::kubelet::matching::Pattern;
use credential_sources::kubelet::probe;
use credential_sources::kubelet::protocol::Response;
use credential_sources::kubelet::run::{Question, ask, program};
use credential_sources::{Finding, Loss, Offer, merge};
use puller_config::{Document, RegistryHost};

use self::cache::Cache;
use self::fingerprint::Fingerprint;
use crate::choice::DocumentText;
use crate::host_file::{FileFault, require_administered};
use crate::settings::{Settings, Sources};

pub use self::contribution::{AskedPlugin, Contribution, Outcome};
pub use self::listing::{ListingFault, read as read_listing};

/// The most programs that are started for one sandbox, all at once. Free to change.
const MAX_QUESTIONS: usize = 64;

/// How messages call what is not about a single plugin.
const ALL: &str = "credential providers";

/// What the plugins of the node offer.
#[derive(Debug, Default)]
pub struct Provided {
    /// The offers, those of one registry in the order in which the kubelet would try them.
    pub offers: Vec<Offer>,
    /// Who was asked.
    pub asked: Vec<AskedPlugin>,
    /// What did not work, and what no document can express.
    pub findings: Vec<Finding>,
}

impl Provided {
    fn lose(&mut self, source: &str, text: String) {
        self.findings
            .push(Finding::new(source, "", Loss::Lost, text));
    }
}

/// `document` with what the node's plugins offer below it, where they offer anything, and what they
/// did.
#[must_use]
pub fn add(
    settings: &Settings,
    document: &DocumentText,
) -> (Option<(DocumentText, Document)>, Contribution) {
    let Some(Provided {
        offers,
        asked,
        mut findings,
    }) = provided(settings)
    else {
        return (None, Contribution::default());
    };
    let mut merged = None;
    let (mut exposed, mut decisions) = (Vec::new(), Vec::new());
    if !offers.is_empty() {
        match merge(document, &offers) {
            Ok(result) => {
                exposed = contribution::exposed(&result);
                decisions = result.decisions;
                merged = Some((result.text.into(), result.document));
            }
            // The document was valid before; its problems may name lines of what was added, so they
            // are not repeated.
            Err(_) => findings.push(Finding::new(
                ALL,
                "",
                Loss::Lost,
                "with their answers the document would not be valid; it is used without",
            )),
        }
    }
    let contribution = Contribution {
        asked,
        decisions,
        findings,
        exposed,
    };
    (merged, contribution)
}

/// Forgets the kept answers that have expired; nothing where none are kept.
pub fn forget_expired(run_root: &std::path::Path) {
    if let Some(mut cache) = Cache::existing(run_root) {
        cache.tidy();
    }
}

/// What the node's plugins offer now; `None` where `settings` ask none.
#[must_use]
pub fn provided(settings: &Settings) -> Option<Provided> {
    let sources = settings.credential_providers.sources()?;
    let deadline = Instant::now() + settings.credential_providers.deadline;
    let mut provided = Provided::default();
    let listed = match read_listing(sources.config) {
        Ok(listed) => listed,
        Err(fault) => {
            provided.lose(ALL, format!("{fault}; no plugin is asked"));
            return Some(provided);
        }
    };
    let hosts = &settings.credential_providers.registries;
    let plugins = usable(listed.list(), sources, &mut provided);
    let mut questions = questions(&plugins, hosts, sources, &mut provided);
    if !questions.is_empty() {
        let cache = Cache::open(&settings.run_root);
        answer(&mut questions, sources, deadline, cache, &mut provided);
    }
    // The questions about one registry stand together.
    for of_host in questions.chunk_by(|one, next| one.host == next.host) {
        let answers: Vec<_> = of_host.iter().filter_map(Inquiry::answer).collect();
        let (mut offers, mut findings) = offers(of_host[0].host, &answers);
        provided.offers.append(&mut offers);
        provided.findings.append(&mut findings);
    }
    provided.asked = questions.into_iter().map(Inquiry::into_asked).collect();
    Some(provided)
}

/// A plugin that may be started.
struct Plugin<'a> {
    provider: &'a Provider,
    program: Metadata,
}

/// The plugins whose programs only root can have put there.
fn usable<'a>(
    listed: &'a [Provider],
    sources: Sources<'_>,
    provided: &mut Provided,
) -> Vec<Plugin<'a>> {
    let administered = |path: &std::path::Path| -> Result<Metadata, FileFault> {
        let metadata = std::fs::metadata(path)?;
        require_administered(&metadata)?;
        Ok(metadata)
    };
    if let Err(fault) = administered(sources.bin_dir) {
        let directory = sources.bin_dir.display();
        provided.lose(ALL, format!("{directory}: {fault}; no plugin is asked"));
        return Vec::new();
    }
    let mut plugins = Vec::new();
    for provider in listed {
        match administered(&program(sources.bin_dir, provider)) {
            Ok(metadata) if metadata.is_file() => plugins.push(Plugin {
                provider,
                program: metadata,
            }),
            Ok(_) => provided.lose(&source(&provider.name), FileFault::NotRegular.to_string()),
            Err(fault) => provided.lose(&source(&provider.name), fault.to_string()),
        }
    }
    plugins
}

/// One plugin that is asked about one registry, and what comes of it.
struct Inquiry<'a> {
    plugin: &'a Plugin<'a>,
    host: &'a RegistryHost,
    fingerprint: Fingerprint,
    outcome: Outcome,
    response: Option<Response>,
}

impl Inquiry<'_> {
    /// The plugin's name with its answer, where there is one.
    fn answer(&self) -> Option<(&str, &Response)> {
        Some((self.plugin.provider.name.as_str(), self.response.as_ref()?))
    }

    fn into_asked(self) -> AskedPlugin {
        AskedPlugin {
            source: source(&self.plugin.provider.name),
            host: self.host.clone(),
            outcome: self.outcome,
        }
    }
}

fn questions<'a>(
    plugins: &'a [Plugin<'a>],
    hosts: &'a [RegistryHost],
    sources: Sources<'_>,
    provided: &mut Provided,
) -> Vec<Inquiry<'a>> {
    let mut pending = Vec::new();
    let mut told = BTreeSet::new();
    for host in hosts {
        let Ok(image) = Pattern::parse(&probe(host)) else {
            continue;
        };
        let for_host = |plugin: &Plugin<'_>| {
            let mut patterns = plugin.provider.patterns.iter();
            patterns.any(|pattern| pattern.matches(&image) || pattern.matches_host_of(&image))
        };
        // Where no plugin can be used at all, that was told.
        if !plugins.is_empty() && !plugins.iter().any(for_host) {
            let text = "it is among the registries of the settings, but no usable plugin is for it";
            provided.findings.push(about(ALL, host, text));
        }
        for plugin in plugins {
            let provider = plugin.provider;
            let matches = |pattern: &Pattern| !pattern.has_path() && pattern.matches(&image);
            let source = source(&provider.name);
            if !provider.patterns.iter().any(matches) {
                let with_path = |pattern: &Pattern| pattern.matches_host_of(&image);
                if provider.patterns.iter().any(with_path) {
                    let text = "it is for a part of the registry, which no document can express, \
                    and is not asked";
                    provided.findings.push(about(&source, host, text));
                }
            } else if provider.wants_token {
                if told.insert(&provider.name) {
                    let text = "it wants a service account's token, which only the kubelet has, \
                    and is not asked";
                    provided.lose(&source, text.into());
                }
            } else if pending.len() == MAX_QUESTIONS {
                let text = "there are too many plugins for too many registries; it is not asked";
                provided.findings.push(about(&source, host, text));
            } else {
                pending.push(Inquiry {
                    plugin,
                    host,
                    fingerprint: Fingerprint::of(provider, sources.bin_dir, &plugin.program),
                    outcome: Outcome::Failed,
                    response: None,
                });
            }
        }
    }
    pending
}

fn about(source: &str, host: &RegistryHost, text: &str) -> Finding {
    Finding::new(source, &host.to_string(), Loss::Lost, text)
}

/// Answers the questions from the cache, else by the plugins, all at once.
fn answer(
    questions: &mut [Inquiry<'_>],
    sources: Sources<'_>,
    deadline: Instant,
    mut cache: Option<Cache>,
    provided: &mut Provided,
) {
    for one in &mut *questions {
        let version = one.plugin.provider.version;
        let cache = cache.as_ref();
        if let Some(found) = cache.and_then(|it| it.find(&one.fingerprint, one.host, version)) {
            one.outcome = Outcome::Kept { left: found.left };
            one.response = Some(found.response);
        }
    }
    let open = questions.iter_mut().filter(|one| one.response.is_none());
    let mut open: Vec<_> = open.collect();
    let asked: Vec<_> = open
        .iter()
        .map(|one| Question {
            provider: one.plugin.provider,
            image: probe(one.host),
        })
        .collect();
    let results = ask(sources.bin_dir, &asked, deadline);
    for (one, result) in open.iter_mut().zip(results) {
        let provider = one.plugin.provider;
        match result {
            Ok(answer) => {
                let cache = cache.as_mut();
                let default = provider.default_cache;
                let kept_for =
                    cache.and_then(|it| it.keep(&one.fingerprint, one.host, &answer, default));
                one.outcome = Outcome::Fresh { kept_for };
                one.response = Some(answer.response);
            }
            Err(error) => {
                let finding = about(&source(&provider.name), one.host, &error.to_string());
                provided.findings.push(finding);
            }
        }
    }
}
