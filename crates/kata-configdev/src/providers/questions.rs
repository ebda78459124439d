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
use registry_config::{Registries, RegistryHost, RegistryName};

use super::fingerprint::fingerprint;
use super::{ALL, AskedPlugin, Outcome, Provided, Uncovered, about};
use crate::host_file::{FileFault, require_administered};
use crate::settings::{AskedRegistries, MAX_REGISTRIES, Sources};

/// The most programs that are started for one sandbox, all at once. Free to change.
const MAX_QUESTIONS: usize = 64;

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
    /// The repositories of the registry that the plugin is for, if not for all.
    pub(super) repositories: Option<String>,
    /// Of the plugin and the repositories.
    pub(super) fingerprint: String,
    pub(super) outcome: Outcome,
    pub(super) response: Option<Response>,
}

impl Inquiry<'_> {
    /// The plugin's name with its answer, where there is one.
    pub(super) fn answer(&self) -> Option<(&str, &Response)> {
        Some((self.plugin.provider.name.as_str(), self.response.as_ref()?))
    }

    /// The image that the plugin is asked about; it need not exist.
    pub(super) fn image(&self) -> String {
        match &self.repositories {
            None => probe(self.host),
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

/// The questions about the registries `hosts` of the settings. Those for which the document has
/// credentials are no open ones: these win over every offer, so no sandbox has to wait for one.
pub(super) fn questions<'a>(
    plugins: &'a [Plugin<'a>],
    hosts: &'a [RegistryHost],
    document: &Registries,
    provided: &mut Provided,
) -> Vec<Inquiry<'a>> {
    let mut pending: Vec<Inquiry<'a>> = Vec::new();
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
        let is_taken = merge::is_taken(document, host);
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
                    fingerprint: fingerprint(provider, &plugin.program, repositories.as_deref()),
                    repositories,
                    outcome: match is_taken {
                        true => Outcome::Unneeded,
                        false => Outcome::Failed,
                    },
                    response: None,
                }));
            }
        }
    }
    pending
}

/// For which repositories of a registry a plugin is, by their first segments, `None` for all of
/// them; nothing where it is not for this registry.
fn scopes(
    provider: &Provider,
    image: &Pattern,
    host: &RegistryHost,
) -> Option<Vec<Option<String>>> {
    let mut patterns =
        provider.patterns.iter().filter(|pattern| pattern.matches_host_of(image)).peekable();
    patterns.peek()?;
    let patterns: Vec<_> = patterns.collect();
    if !patterns.iter().all(|pattern| pattern.has_path()) {
        return Some(vec![None]);
    }
    let is_name =
        |repositories: &&str| RegistryName::parse(&format!("{host}/{repositories}")).is_ok();
    let paths: BTreeSet<&str> =
        patterns.iter().filter_map(|pattern| pattern.repositories()).filter(is_name).collect();
    Some(paths.into_iter().map(|path| Some(path.to_owned())).collect())
}
