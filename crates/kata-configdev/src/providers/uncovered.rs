//! Patterns of the kubelet's configuration for which no plugin is asked, because no registry is
//! named for them. Images of these are pulled without the plugin, which the kubelet would ask.

use std::fmt;

use credential_sources::kubelet::answer::source;
use credential_sources::kubelet::config::Provider;
use credential_sources::kubelet::matching::Pattern;
use foreign_text::shown;
use registry_config::RegistryHost;

use crate::settings::AskedRegistry;

/// The patterns of one plugin. Displayed as what is to be done about it.
#[derive(Clone, Debug)]
pub struct Uncovered {
    /// How messages call the plugin.
    pub source: String,
    /// At least one.
    patterns: Vec<Pattern>,
}

impl Uncovered {
    /// Those of the plugins `listed` that none of the registries `asked` is for.
    pub(super) fn of(listed: &[Provider], asked: &[AskedRegistry]) -> Vec<Self> {
        let asked = asked.iter().map(|one| Pattern::parse(&one.to_string()));
        let asked: Vec<_> = asked.filter_map(Result::ok).collect();
        let is_missed = |pattern: &&Pattern| {
            // A registry that has no place in the list is told otherwise.
            let has_glob = pattern.registry().is_none();
            has_glob && !asked.iter().any(|one| pattern.matches_host_of(one))
        };
        let of_plugin = |plugin: &Provider| {
            let patterns = plugin.patterns.iter().filter(is_missed).cloned();
            let patterns: Vec<_> = patterns.collect();
            (!patterns.is_empty()).then(|| Self { source: source(&plugin.name), patterns })
        };
        listed.iter().filter_map(of_plugin).collect()
    }

    /// Why the plugin is not asked about an image of which a pattern is.
    #[must_use]
    pub fn of_image(&self, host: &RegistryHost, repository: &str) -> Option<String> {
        let image = Pattern::parse(&format!("{host}/{repository}")).ok()?;
        let pattern = self.patterns.iter().find(|one| one.matches(&image))?;
        Some(format!(
            "{} is for it by {} of \"matchImages\", and is not asked, because \"registries\" \
            does not name {host}; add it there",
            self.source,
            quoted(pattern)
        ))
    }
}

impl fmt::Display for Uncovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns: Vec<_> = self.patterns.iter().map(quoted).collect();
        write!(
            f,
            "no registry is named for {}, so that their images are pulled without it; name those \
            of this node in \"registries\", beside \"matchImages\"",
            patterns.join(", ")
        )
    }
}

fn quoted(pattern: &Pattern) -> String {
    shown(&pattern.to_string()).quoted().to_string()
}
