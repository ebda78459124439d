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
use puller_config::RegistryHost;

use self::cache::Cache;
use self::fingerprint::Fingerprint;
use crate::choice::DocumentText;
use crate::host_file::{FileFault, require_administered};
use crate::settings::{Settings, Sources};

pub use self::contribution::{Asked, Contribution, Outcome};
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
    pub asked: Vec<Asked>,
    /// What did not work, and what no document can express.
    pub findings: Vec<Finding>,
}

impl Provided {
    fn lose(&mut self, source: &str, text: String) {
        self.findings.push(Finding {
            source: source.into(),
            key: String::new(),
            loss: Loss::Lost,
            text,
        });
    }
}

/// `document` with what the node's plugins offer below it, and what they did. Only where `settings`
/// name registries.
#[must_use]
pub fn add(settings: &Settings, document: DocumentText) -> (DocumentText, Contribution) {
    let Some(Provided {
        offers,
        asked,
        findings,
    }) = provided(settings)
    else {
        return (document, Contribution::default());
    };
    let mut contribution = Contribution {
        asked,
        decisions: Vec::new(),
        findings,
        exposed: Vec::new(),
    };
    if offers.is_empty() {
        return (document, contribution);
    }
    match merge(&document, &offers) {
        Ok(merged) => {
            contribution.exposed = contribution::exposed(&merged);
            contribution.decisions = merged.decisions;
            (merged.text.into(), contribution)
        }
        // The document was valid before; its problems may name lines of what was added, so they are
        // not repeated.
        Err(_) => {
            contribution.findings.push(Finding {
                source: ALL.into(),
                key: String::new(),
                loss: Loss::Lost,
                text: "with their answers the document would not be valid; it is used without"
                    .into(),
            });
            (document, contribution)
        }
    }
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
    let questions = questions(&plugins, hosts, &mut provided);
    answer(
        settings,
        &questions,
        hosts,
        deadline,
        sources,
        &mut provided,
    );
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

/// One plugin to be asked about one registry.
struct Pending<'a> {
    plugin: &'a Plugin<'a>,
    host: &'a RegistryHost,
}

fn questions<'a>(
    plugins: &'a [Plugin<'a>],
    hosts: &'a [RegistryHost],
    provided: &mut Provided,
) -> Vec<Pending<'a>> {
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
                pending.push(Pending { plugin, host });
            }
        }
    }
    pending
}

fn about(source: &str, host: &RegistryHost, text: &str) -> Finding {
    Finding {
        source: source.into(),
        key: host.to_string(),
        loss: Loss::Lost,
        text: text.into(),
    }
}

/// Answers `pending` from the cache, else by the plugins, and makes offers of it.
fn answer(
    settings: &Settings,
    pending: &[Pending<'_>],
    hosts: &[RegistryHost],
    deadline: Instant,
    sources: Sources<'_>,
    provided: &mut Provided,
) {
    let mut cache = None;
    let fingerprints: Vec<_> = pending
        .iter()
        .map(|one| Fingerprint::of(one.plugin.provider, sources.bin_dir, &one.plugin.program))
        .collect();
    let mut answers: Vec<Option<Response>> = Vec::with_capacity(pending.len());
    let mut outcomes = Vec::with_capacity(pending.len());
    if !pending.is_empty() {
        cache = Cache::open(&settings.run_root);
    }
    for (one, fingerprint) in pending.iter().zip(&fingerprints) {
        let version = one.plugin.provider.version;
        let cached = cache
            .as_ref()
            .and_then(|cache| cache.find(fingerprint, one.host, version));
        let left = cached.as_ref().map(|found| found.left);
        outcomes.push(left.map_or(Outcome::Failed, |left| Outcome::Kept { left }));
        answers.push(cached.map(|found| found.response));
    }
    let missing: Vec<usize> = (0..pending.len())
        .filter(|&index| answers[index].is_none())
        .collect();
    let questions: Vec<_> = missing
        .iter()
        .map(|&index| Question {
            provider: pending[index].plugin.provider,
            image: probe(pending[index].host),
        })
        .collect();
    for (index, result) in missing
        .iter()
        .zip(ask(sources.bin_dir, &questions, deadline))
    {
        let (one, fingerprint) = (&pending[*index], &fingerprints[*index]);
        let provider = one.plugin.provider;
        match result {
            Ok(answer) => {
                let kept_for = cache.as_mut().and_then(|cache| {
                    cache.keep(fingerprint, one.host, &answer, provider.default_cache)
                });
                outcomes[*index] = Outcome::Fresh { kept_for };
                answers[*index] = Some(answer.response);
            }
            Err(error) => {
                let finding = about(&source(&provider.name), one.host, &error.to_string());
                provided.findings.push(finding);
            }
        }
    }
    for (one, outcome) in pending.iter().zip(outcomes) {
        provided.asked.push(Asked {
            source: source(&one.plugin.provider.name),
            host: one.host.clone(),
            outcome,
        });
    }
    for host in hosts {
        let of_host: Vec<(&str, &Response)> = pending
            .iter()
            .zip(&answers)
            .filter(|(one, _)| std::ptr::eq(one.host, host))
            .filter_map(|(one, answer)| Some((one.plugin.provider.name.as_str(), answer.as_ref()?)))
            .collect();
        let (mut offers, mut findings) = offers(host, &of_host);
        provided.offers.append(&mut offers);
        provided.findings.append(&mut findings);
    }
}
