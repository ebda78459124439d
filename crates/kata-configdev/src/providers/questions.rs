//! Which plugin is asked about which registry.

use std::collections::BTreeSet;
use std::fs::Metadata;

use credential_sources::kubelet::answer::source;
use credential_sources::kubelet::config::Provider;
use credential_sources::kubelet::matching::Pattern;
use credential_sources::kubelet::protocol::Response;
use credential_sources::kubelet::run::program;
use credential_sources::kubelet::{PROBE, probe};
use credential_sources::merge::is_taken;
use registry_config::{Registries, RegistryName, is_below};

use super::fingerprint::fingerprint;
use super::{ALL, AskedPlugin, Contribution, Outcome, Uncovered, about};
use crate::host_file::{FileFault, require_administered};
use crate::settings::{AskedRegistries, AskedRegistry, MAX_REGISTRIES, Sources};

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
    contribution: &mut Contribution,
) -> Vec<Plugin<'a>> {
    let administered = |path: &std::path::Path| -> Result<Metadata, FileFault> {
        let metadata = std::fs::metadata(path)?;
        require_administered(&metadata)?;
        Ok(metadata)
    };
    if let Err(fault) = administered(&sources.bin_dir) {
        let directory = sources.bin_dir.display();
        contribution.lose(ALL, format!("{directory}: {fault}; no plugin is asked"));
        return Vec::new();
    }
    let mut plugins = Vec::new();
    for provider in listed {
        match administered(&program(&sources.bin_dir, provider)) {
            Ok(metadata) if metadata.is_file() => {
                plugins.push(Plugin { provider, program: metadata })
            }
            Ok(_) => contribution.lose(&source(&provider.name), FileFault::NotRegular.to_string()),
            Err(fault) => contribution.lose(&source(&provider.name), fault.to_string()),
        }
    }
    plugins
}

/// One plugin that is asked about one registry, and what comes of it.
pub(super) struct Inquiry<'a> {
    pub(super) plugin: &'a Plugin<'a>,
    pub(super) registry: &'a AskedRegistry,
    /// The repositories of the registry that it is asked about, if not about all.
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
            None => probe(&self.registry.host),
            Some(repositories) => format!("{}/{repositories}/{PROBE}", self.registry.host),
        }
    }

    pub(super) fn into_asked(self) -> AskedPlugin {
        AskedPlugin {
            source: source(&self.plugin.provider.name),
            registry: self.registry.clone(),
            repositories: self.repositories,
            outcome: self.outcome,
        }
    }
}

/// The registries of the settings, and those that the kubelet's own configuration names where the
/// settings say so. Of its patterns only those name one that have no glob.
pub(super) fn registries(
    asked: &AskedRegistries,
    listed: &[Provider],
    contribution: &mut Contribution,
) -> Vec<AskedRegistry> {
    let mut registries = asked.named.clone();
    if !asked.match_images {
        return registries;
    }
    let patterns = listed.iter().flat_map(|provider| &provider.patterns);
    let mut beyond = 0;
    for registry in patterns.filter_map(Pattern::registry).map(AskedRegistry::from) {
        if registries.contains(&registry) {
            continue;
        }
        match registries.len() < MAX_REGISTRIES {
            true => registries.push(registry),
            false => beyond += 1,
        }
    }
    contribution.uncovered = Uncovered::of(listed, &registries);
    if beyond > 0 {
        let text = format!(
            "\"matchImages\" names more than {MAX_REGISTRIES} registries; {beyond} are left out"
        );
        contribution.lose(ALL, text);
    }
    registries
}

/// The questions about the `registries` of the settings. Those for which the document has
/// credentials are no open ones: these win over every offer, so no sandbox has to wait for one.
pub(super) fn questions<'a>(
    plugins: &'a [Plugin<'a>],
    registries: &'a [AskedRegistry],
    document: &Registries,
    contribution: &mut Contribution,
) -> Vec<Inquiry<'a>> {
    let mut pending: Vec<Inquiry<'a>> = Vec::new();
    let mut told = BTreeSet::new();
    for registry in registries {
        let scoped = plugins.iter().filter_map(|one| Some((one, scopes(one.provider, registry)?)));
        let scoped: Vec<_> = scoped.collect();
        // Where no plugin can be used at all, that was told.
        if !plugins.is_empty() && scoped.is_empty() {
            let text = "it is among the registries of the settings, but no usable plugin is for it";
            contribution.findings.push(about(ALL, registry, text));
        }
        for (plugin, scopes) in scoped {
            let provider = plugin.provider;
            let source = source(&provider.name);
            if scopes.is_empty() {
                let text = "it is for a part of the registry that is no beginning of a \
                    repository's name, and is not asked";
                contribution.findings.push(about(&source, registry, text));
            } else if provider.wants_token {
                if told.insert(&provider.name) {
                    let text = "it wants a service account's token, which only the kubelet has, \
                    and is not asked";
                    contribution.lose(&source, text);
                }
            } else if pending.len() + scopes.len() > MAX_QUESTIONS {
                let text = "there are too many plugins for too many registries; it is not asked";
                contribution.findings.push(about(&source, registry, text));
            } else {
                let host = &registry.host;
                let inquiry = |repositories: Option<String>| {
                    let below = repositories.as_deref();
                    let is_taken = is_taken(document, host, below);
                    Inquiry {
                        plugin,
                        registry,
                        fingerprint: fingerprint(provider, &plugin.program, below),
                        repositories,
                        outcome: match is_taken {
                            true => Outcome::Unneeded,
                            false => Outcome::Failed,
                        },
                        response: None,
                    }
                };
                pending.extend(scopes.into_iter().map(inquiry));
            }
        }
    }
    // Two of the settings' names may mean one question.
    let mut known = BTreeSet::new();
    pending.retain(|one| known.insert((one.fingerprint.clone(), one.registry.host.to_string())));
    pending
}

/// For which repositories of what the settings name a plugin is, by their first segments, `None`
/// for all of a registry; nothing where it is for none of these.
fn scopes(provider: &Provider, registry: &AskedRegistry) -> Option<Vec<Option<String>>> {
    let place = Pattern::parse(&format!("{registry}/")).ok()?;
    let whole = &registry.repositories;
    // What is no beginning of a repository's name is told.
    let is_within = |pattern: &&Pattern| match (pattern.repositories(), whole) {
        (Some(path), Some(whole)) => is_below(path, whole),
        _ => true,
    };
    let patterns = provider.patterns.iter().filter(|pattern| pattern.matches_host_of(&place));
    let (covering, parts): (Vec<_>, Vec<_>) = patterns.partition(|one| one.matches(&place));
    if !covering.is_empty() {
        return Some(vec![whole.clone()]);
    }
    let mut parts = parts.into_iter().filter(is_within).peekable();
    parts.peek()?;
    let is_name = |path: &&str| RegistryName::parse(&format!("{}/{path}", registry.host)).is_ok();
    let paths: BTreeSet<&str> = parts.filter_map(Pattern::repositories).filter(is_name).collect();
    Some(paths.into_iter().map(|path| Some(path.to_owned())).collect())
}
