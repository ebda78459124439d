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

use credential_sources::kubelet::answer::{offers, offers_below, source};
use credential_sources::kubelet::config::Provider;
use credential_sources::kubelet::matching::Pattern;
use credential_sources::kubelet::protocol::Response;
use credential_sources::kubelet::run::{Question, ask, program};
use credential_sources::kubelet::{PROBE, probe};
use credential_sources::{Finding, Loss, Offer, merge};
use puller_config::{Document, RegistryHost, RegistryName};

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
    kept: Kept,
) -> (Option<(DocumentText, Document)>, Contribution) {
    let Some(Provided {
        offers,
        asked,
        mut findings,
    }) = provided(settings, kept)
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

/// Forgets every kept answer; nothing where none are kept.
pub fn forget_all(run_root: &std::path::Path) {
    if let Some(cache) = Cache::existing(run_root) {
        cache.empty();
    }
}

/// What answers are good for that were kept for other sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// As good as new ones, until they expire.
    Used,
    /// To be replaced by new ones, in time before they expire.
    Ignored,
}

/// What the node's plugins offer now; `None` where `settings` ask none.
#[must_use]
pub fn provided(settings: &Settings, kept: Kept) -> Option<Provided> {
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
    let mut questions = questions(&plugins, hosts, &mut provided);
    if !questions.is_empty() {
        let cache = Cache::open(&settings.run_root);
        answer(
            &mut questions,
            sources,
            deadline,
            (cache, kept),
            &mut provided,
        );
    }
    // The questions about one registry stand together; those about some of its repositories are a
    // matter of their own.
    let is_same = |one: &Inquiry<'_>, next: &Inquiry<'_>| {
        (one.host, &one.repositories) == (next.host, &next.repositories)
    };
    questions.sort_by(|one, next| {
        let place = |host: &RegistryHost| hosts.iter().position(|known| known == host);
        (place(one.host), &one.repositories).cmp(&(place(next.host), &next.repositories))
    });
    for same in questions.chunk_by(is_same) {
        let answers: Vec<_> = same.iter().filter_map(Inquiry::answer).collect();
        let (mut offers, mut findings) = match &same[0].repositories {
            None => offers(same[0].host, &answers),
            Some(repositories) => offers_below(same[0].host, repositories, &answers),
        };
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
    /// The repositories of the registry that the plugin is for, if not for all.
    repositories: Option<String>,
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
            let source = source(&provider.name);
            let Some(scopes) = scopes(provider, &image, host) else {
                continue;
            };
            if scopes.is_empty() {
                let text = "it is for a part of the registry that is no beginning of a \
                    repository's name, and is not asked";
                provided.findings.push(about(&source, host, text));
            } else if provider.wants_token {
                if told.insert(&provider.name) {
                    let text = "it wants a service account's token, which only the kubelet has, \
                    and is not asked";
                    provided.lose(&source, text.into());
                }
            } else if pending.len() + scopes.len() > MAX_QUESTIONS {
                let text = "there are too many plugins for too many registries; it is not asked";
                provided.findings.push(about(&source, host, text));
            } else {
                pending.extend(scopes.into_iter().map(|repositories| Inquiry {
                    plugin,
                    host,
                    repositories,
                    fingerprint: Fingerprint::of(provider, &plugin.program),
                    outcome: Outcome::Failed,
                    response: None,
                }));
            }
        }
    }
    pending
}

/// For which repositories of a registry a plugin is asked, each `None` for all of them; `None` as a
/// whole where it is not for this registry.
fn scopes(
    provider: &Provider,
    image: &Pattern,
    host: &RegistryHost,
) -> Option<Vec<Option<String>>> {
    let mut patterns = provider
        .patterns
        .iter()
        .filter(|pattern| pattern.matches_host_of(image))
        .peekable();
    patterns.peek()?;
    let patterns: Vec<_> = patterns.collect();
    if !patterns.iter().all(|pattern| pattern.has_path()) {
        return Some(vec![None]);
    }
    let is_name =
        |repositories: &&str| RegistryName::parse(&format!("{host}/{repositories}")).is_ok();
    let paths: BTreeSet<&str> = patterns
        .iter()
        .filter_map(|pattern| pattern.repositories())
        .filter(is_name)
        .collect();
    Some(
        paths
            .into_iter()
            .map(|path| Some(path.to_owned()))
            .collect(),
    )
}

fn about(source: &str, host: &RegistryHost, text: &str) -> Finding {
    Finding::new(source, &host.to_string(), Loss::Lost, text)
}

/// Answers the questions from the cache, else by the plugins, all at once.
fn answer(
    questions: &mut [Inquiry<'_>],
    sources: Sources<'_>,
    deadline: Instant,
    (mut cache, kept): (Option<Cache>, Kept),
    provided: &mut Provided,
) {
    for one in &mut *questions {
        let version = one.plugin.provider.version;
        let cache = cache.as_ref().filter(|_| kept == Kept::Used);
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
            image: match &one.repositories {
                None => probe(one.host),
                Some(repositories) => format!("{}/{repositories}/{PROBE}", one.host),
            },
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
