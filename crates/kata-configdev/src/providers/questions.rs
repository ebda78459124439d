//! Which plugin is asked about which registry.

use std::collections::BTreeSet;
use std::fs::Metadata;

use credential_sources::kubelet::answer::source;
use credential_sources::kubelet::config::Provider;
use credential_sources::kubelet::matching::Pattern;
use credential_sources::kubelet::protocol::Response;
use credential_sources::kubelet::run::program;
use credential_sources::kubelet::{PROBE, probe};
use credential_sources::merge;
use puller_config::{OnlyRegistries, Registries, RegistryHost, RegistryName, is_below};

use super::fingerprint::Fingerprint;
use super::{ALL, AskedPlugin, Outcome, Provided, Uncovered, about};
use crate::host_file::{FileFault, require_administered};
use crate::settings::{AskedRegistries, MAX_REGISTRIES, Sources};

/// The most programs that are started for one sandbox, all at once. Free to change.
const MAX_QUESTIONS: usize = 64;

/// The most of them that are started for repositories of a list, which pods may have: no pod makes
/// more. Free to change.
const MAX_LISTED_QUESTIONS: usize = 32;

/// What plugins are to be asked about.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// The registries of the settings.
    pub(super) hosts: &'a [RegistryHost],
    /// The registries and repositories that the sandbox is for; `None` for all.
    pub(super) only: Option<&'a OnlyRegistries>,
    /// What its document has already.
    pub(super) document: &'a Registries,
}

/// A plugin that may be started.
pub(super) struct Plugin<'a> {
    pub(super) provider: &'a Provider,
    program: Metadata,
}

/// The plugins whose programs only root can have put there.
pub(super) fn usable<'a>(
    listed: &'a [Provider],
    sources: &Sources,
    provided: &mut Provided,
) -> Vec<Plugin<'a>> {
    let administered = |path: &std::path::Path| -> Result<Metadata, FileFault> {
        let metadata = std::fs::metadata(path)?;
        require_administered(&metadata)?;
        Ok(metadata)
    };
    if let Err(fault) = administered(&sources.bin_dir) {
        let directory = sources.bin_dir.display();
        provided.lose(ALL, format!("{directory}: {fault}; no plugin is asked"));
        return Vec::new();
    }
    let mut plugins = Vec::new();
    for provider in listed {
        match administered(&program(&sources.bin_dir, provider)) {
            Ok(metadata) if metadata.is_file() => {
                plugins.push(Plugin { provider, program: metadata })
            }
            Ok(_) => provided.lose(&source(&provider.name), FileFault::NotRegular.to_string()),
            Err(fault) => provided.lose(&source(&provider.name), fault.to_string()),
        }
    }
    plugins
}

/// One plugin that is asked about one registry, and what comes of it.
pub(super) struct Inquiry<'a> {
    pub(super) plugin: &'a Plugin<'a>,
    pub(super) host: &'a RegistryHost,
    /// The repositories of the registry that the plugin is for or is asked about, if not for all.
    pub(super) repositories: Option<String>,
    /// Of the plugin and the repositories.
    pub(super) fingerprint: Fingerprint,
    pub(super) outcome: Outcome,
    pub(super) response: Option<Response>,
}

impl Inquiry<'_> {
    /// The plugin's name with its answer, where there is one.
    pub(super) fn answer(&self) -> Option<(&str, &Response)> {
        Some((self.plugin.provider.name.as_str(), self.response.as_ref()?))
    }

    /// The image that the plugin is asked about; it need not exist. One of a list is asked about as
    /// it stands there, as the kubelet would.
    pub(super) fn image(&self) -> String {
        match &self.repositories {
            None => probe(self.host),
            Some(repository) if self.fingerprint.is_of_repository => {
                format!("{}/{repository}", self.host)
            }
            Some(repositories) => format!("{}/{repositories}/{PROBE}", self.host),
        }
    }

    pub(super) fn into_asked(self) -> AskedPlugin {
        AskedPlugin {
            source: source(&self.plugin.provider.name),
            host: self.host.clone(),
            repositories: self.repositories,
            outcome: self.outcome,
        }
    }
}

/// The registries of the settings, and those that the kubelet's own configuration names where the
/// settings say so. Of its patterns only those name one that have no glob.
pub(super) fn hosts(
    registries: &AskedRegistries,
    listed: &[Provider],
    provided: &mut Provided,
) -> Vec<RegistryHost> {
    let mut hosts = registries.named.clone();
    if !registries.match_images {
        return hosts;
    }
    let patterns = listed.iter().flat_map(|provider| &provider.patterns);
    let mut beyond = 0;
    for host in patterns.filter_map(Pattern::registry) {
        if hosts.contains(&host) {
            continue;
        }
        match hosts.len() < MAX_REGISTRIES {
            true => hosts.push(host),
            false => beyond += 1,
        }
    }
    provided.uncovered = Uncovered::of(listed, &hosts);
    if beyond > 0 {
        let text = format!(
            "\"matchImages\" names more than {MAX_REGISTRIES} registries; {beyond} are left out"
        );
        provided.lose(ALL, text);
    }
    hosts
}

/// The questions about what is wanted. Those about registries for which the document has
/// credentials are no open ones: these win over every offer, so no sandbox has to wait for one.
pub(super) fn questions<'a>(
    plugins: &'a [Plugin<'a>],
    wanted: Wanted<'a>,
    provided: &mut Provided,
) -> Vec<Inquiry<'a>> {
    let Wanted { hosts, only, document } = wanted;
    let mut pending: Vec<Inquiry<'a>> = Vec::new();
    let mut room = MAX_LISTED_QUESTIONS;
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
        let listed = only.map(|only| only.of_host(host));
        // All of a registry is asked about as where there is no list.
        let listed = listed.filter(|listed| !listed.contains(&None));
        let is_taken = merge::is_taken(document, host);
        for plugin in plugins {
            let provider = plugin.provider;
            let source = source(&provider.name);
            let Some(mut scopes) = scopes(provider, &image, host) else {
                continue;
            };
            let is_for_none = scopes.is_empty();
            if let Some(listed) = &listed {
                scopes = within(&scopes, listed);
                if scopes.len() > room {
                    let text = format!(
                        "{} of the listed repositories are too many; it is asked about at most \
                        {MAX_LISTED_QUESTIONS} for one sandbox",
                        scopes.len() - room
                    );
                    provided.findings.push(about(&source, host, &text));
                }
                scopes.truncate(room);
            }
            if is_for_none {
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
                if listed.is_some() {
                    room -= scopes.len();
                }
                pending.extend(scopes.into_iter().map(|scope| {
                    let is_taken = match &scope.repositories {
                        Some(below) if listed.is_some() => {
                            merge::is_taken_below(document, host, below)
                        }
                        _ => is_taken,
                    };
                    Inquiry {
                        plugin,
                        host,
                        fingerprint: scope.fingerprint(plugin),
                        repositories: scope.repositories,
                        outcome: match is_taken {
                            true => Outcome::Unneeded,
                            false => Outcome::Failed,
                        },
                        response: None,
                    }
                }));
            }
        }
    }
    pending
}

/// What of a registry a plugin is asked about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Scope {
    /// The first segments of the repositories, `None` for all of them.
    repositories: Option<String>,
    /// Whether they are those of a list, and asked about themselves.
    is_listed: bool,
}

impl Scope {
    fn of_plugin(repositories: Option<&str>) -> Self {
        Self { repositories: repositories.map(Into::into), is_listed: false }
    }

    fn fingerprint(&self, plugin: &Plugin<'_>) -> Fingerprint {
        let fingerprint = Fingerprint::of(plugin.provider, &plugin.program);
        match &self.repositories {
            Some(repository) if self.is_listed => fingerprint.about_repository(repository),
            repositories => fingerprint.about(repositories.as_deref()),
        }
    }
}

/// What of the `scopes` of a plugin is in a list of first segments, each segment a whole one.
fn within(scopes: &[Scope], listed: &BTreeSet<Option<&str>>) -> Vec<Scope> {
    let mut found = BTreeSet::new();
    for listed in listed.iter().flatten() {
        let whole = Scope { repositories: Some((*listed).to_owned()), is_listed: true };
        for scope in scopes {
            match scope.repositories.as_deref() {
                Some(own) if own != *listed && is_below(own, listed) => {
                    found.insert(scope.clone());
                }
                Some(own) if !is_below(listed, own) => {}
                _ => {
                    found.insert(whole.clone());
                }
            }
        }
    }
    found.into_iter().collect()
}

/// For which repositories of a registry a plugin is; `None` where it is not for this registry.
fn scopes(provider: &Provider, image: &Pattern, host: &RegistryHost) -> Option<Vec<Scope>> {
    let mut patterns =
        provider.patterns.iter().filter(|pattern| pattern.matches_host_of(image)).peekable();
    patterns.peek()?;
    let patterns: Vec<_> = patterns.collect();
    if !patterns.iter().all(|pattern| pattern.has_path()) {
        return Some(vec![Scope::of_plugin(None)]);
    }
    let is_name =
        |repositories: &&str| RegistryName::parse(&format!("{host}/{repositories}")).is_ok();
    let paths: BTreeSet<&str> =
        patterns.iter().filter_map(|pattern| pattern.repositories()).filter(is_name).collect();
    Some(paths.into_iter().map(|path| Scope::of_plugin(Some(path))).collect())
}
