//! What plugins answered about a registry, as offers for it.
//!
//! The kubelet puts all answers about an image into one keyring, walks its keys in reverse
//! lexicographic order, and tries every pair whose key matches the image, those of earlier plugins
//! first. The offers are in that order, and a document has as many of them as it has room for. What
//! a pair is for, its key says: `cacheKeyType` is about keeping the answer only. A key with a path
//! becomes an offer for the repositories below it, by whole segments, where the kubelet compares
//! texts. A key with globs becomes an offer for the registry that was asked about and for no other
//! name. A registry asked about without a port gets an entry without one, and that holds for every
//! port of the host; the kubelet would use the pair for the HTTPS port only. Where ports are
//! different registries, list them with their ports.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use ::docker_config::without_line_end;
use registry_config::{Credentials, RegistryHost, RegistryName, Secret, is_below};

use super::matching::Pattern;
use super::protocol::{Pair, Response};
use crate::{Finding, Loss, Offer};

/// The key under which the kubelet finds Docker Hub's pair where no key matches its image.
const DOCKER_HUB_KEY: &str = "index.docker.io";

/// A pair of an answer that holds for the registry.
struct PluginPair<'a> {
    key: String,
    /// The name of the entry that the pair is for.
    name: String,
    /// Whether that is one for some repositories of the registry.
    is_below: bool,
    plugin: &'a str,
    pair: &'a Pair,
}

impl PluginPair<'_> {
    fn is_empty(&self) -> bool {
        self.pair.username.is_empty() && self.password().is_empty()
    }

    /// Without a line end, as that of a docker configuration is read.
    fn password(&self) -> &str {
        let password = &self.pair.password;
        &password[..without_line_end(password.as_bytes()).len()]
    }

    fn offer(&self) -> Offer {
        Offer {
            name: self.name.clone(),
            offered: Credentials::Basic {
                username: self.pair.username.to_string(),
                password: Secret::from(self.password().to_owned()),
            },
            source: source(self.plugin),
        }
    }
}

/// What `answers`, by the plugins' names and in their order, offer for `host`: for what their keys
/// say, or of plugins that were asked about images below `scope` only, for these, whatever the keys.
pub fn offers(
    host: &RegistryHost,
    scope: Option<&str>,
    answers: &[(&str, &Response)],
) -> (Vec<Offer>, Vec<Finding>) {
    let mut findings = Vec::new();
    let Ok(image) = Pattern::parse(&super::probe(host)) else {
        // A registry's host is always one; were it not, nothing would match it.
        return (Vec::new(), findings);
    };
    let question = Question { host, scope, image: &image };
    let mut pairs = Vec::new();
    for (plugin, response) in answers {
        pairs.extend(pairs_of(plugin, response, question, &mut findings));
    }
    // Stable: of one key, the earlier plugin stays the first.
    pairs.sort_by(|one, other| Reverse(&one.key).cmp(&Reverse(&other.key)));
    let (below, whole): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|pair| pair.is_below);
    let mut chosen = matching(&whole, &image, host);
    chosen.extend(&below);
    for (plugin, response) in answers {
        let mut own = chosen.iter().filter(|pair| pair.plugin == *plugin);
        let is_told = findings.iter().any(|finding| finding.source == source(plugin));
        if !is_told && own.all(|pair| pair.is_empty()) {
            findings.push(silence(plugin, response, question, &chosen));
        }
    }
    // "Anonymous": no entry, rather than one with nothing in it.
    chosen.retain(|pair| !pair.is_empty());
    let is_cut = |pair: &&&PluginPair<'_>| pair.password().len() < pair.pair.password.len();
    findings.extend(chosen.iter().filter(is_cut).map(|pair| {
        let text = "its password ended in a line end or a zero byte, which is cut off";
        Finding::new(&source(pair.plugin), &pair.name, Loss::Note, text)
    }));
    (chosen.into_iter().map(PluginPair::offer).collect(), findings)
}

/// Why an answer in which nothing is wrong offers nothing.
fn silence(
    plugin: &str,
    response: &Response,
    question: Question<'_>,
    chosen: &[&PluginPair<'_>],
) -> Finding {
    let host = question.host;
    let has_key_for = |host: &RegistryHost| has_pair_for(host, response);
    let without_port = || RegistryHost::parse(&host.name()).ok();
    let (loss, text) = if response.auth.is_empty() {
        let text = "it answered that it has no credentials for it";
        (Loss::Note, text.to_owned())
    } else if chosen.iter().any(|pair| pair.plugin == plugin) {
        let text = "it answered with an empty pair, which means anonymous and adds nothing";
        (Loss::Note, text.to_owned())
    } else if host.is_docker_hub() && has_key_for(host) {
        let text = format!("its key {DOCKER_HUB_KEY} counts only where no other key matches");
        (Loss::Note, text)
    } else if host.port().is_some() && without_port().is_some_and(|host| has_key_for(&host)) {
        let text = format!(
            "its answer has no key for {host}, but one for {} without the port; name the registry \
            without its port",
            host.name()
        );
        (Loss::Lost, text)
    } else {
        let text = "none of the keys of its answer is for it, so it adds no credentials";
        (Loss::Lost, text.to_owned())
    };
    Finding::new(&source(plugin), &host.to_string(), loss, text)
}

/// Whether `response` has a pair for `host`, be it an empty one.
#[must_use]
pub fn has_pair_for(host: &RegistryHost, response: &Response) -> bool {
    let Ok(image) = Pattern::parse(&super::probe(host)) else {
        return false;
    };
    let question = Question { host, scope: None, image: &image };
    let pairs = pairs_of("", response, question, &mut Vec::new());
    let is_below = pairs.iter().any(|pair| pair.is_below);
    is_below || !matching(&pairs, &image, host).is_empty()
}

/// Those of `pairs` that the kubelet would try for `host`, in their order.
fn matching<'a, 'b>(
    pairs: &'b [PluginPair<'a>],
    image: &Pattern,
    host: &RegistryHost,
) -> Vec<&'b PluginPair<'a>> {
    let is_for =
        |pair: &&PluginPair<'_>| Pattern::parse(&pair.key).is_ok_and(|key| key.matches(image));
    let chosen: Vec<_> = pairs.iter().filter(is_for).collect();
    if chosen.is_empty() && host.is_docker_hub() {
        let is_hub = |pair: &&PluginPair<'_>| pair.key == DOCKER_HUB_KEY;
        return pairs.iter().filter(is_hub).collect();
    }
    chosen
}

/// How messages call a plugin.
#[must_use]
pub fn source(plugin: &str) -> String {
    format!("credential provider {plugin}")
}

/// What a plugin was asked about.
#[derive(Clone, Copy)]
struct Question<'q> {
    host: &'q RegistryHost,
    /// The repositories that the plugin is for, if not for all.
    scope: Option<&'q str>,
    image: &'q Pattern,
}

impl Question<'_> {
    /// The repository that the plugin was asked about, which nobody pulls.
    fn probe(self) -> String {
        match self.scope {
            Some(scope) => format!("{scope}/{}", super::PROBE),
            None => self.image.repositories().unwrap_or("").to_owned(),
        }
    }

    /// The repositories that a pair is for, whose key is of the host and perhaps for some of them
    /// itself: those of the key that the plugin is for. None are left where the two exclude each
    /// other.
    fn repositories<'k>(self, of_key: Option<&'k str>) -> Option<Option<&'k str>>
    where
        Self: 'k,
    {
        match (self.scope, of_key) {
            (None, of_key) => Some(of_key),
            (scope, None) => Some(scope),
            (Some(scope), Some(key)) if is_below(key, scope) => Some(Some(key)),
            (Some(scope), Some(key)) if is_below(scope, key) => Some(Some(scope)),
            _ => None,
        }
    }
}

fn pairs_of<'a>(
    plugin: &'a str,
    response: &'a Response,
    question: Question<'_>,
    findings: &mut Vec<Finding>,
) -> Vec<PluginPair<'a>> {
    let host = question.host;
    let probe = question.probe();
    let mut pairs = Vec::new();
    let (mut unreadable, mut paths, mut probes) = (0, 0, 0);
    for (key, pair) in &response.auth {
        let key = normal(key);
        match Pattern::parse(&key) {
            Err(_) => unreadable += 1,
            // Whether it matches is seen later, because Docker Hub has a second chance.
            Ok(pattern) if question.scope.is_none() && !pattern.has_path() => {
                pairs.push(PluginPair {
                    key,
                    name: host.to_string(),
                    is_below: false,
                    plugin,
                    pair,
                });
            }
            Ok(pattern) if pattern.matches_host_of(question.image) => {
                let of_key = pattern.has_path().then(|| pattern.repositories().unwrap_or(""));
                let Some(repositories) = question.repositories(of_key) else {
                    continue;
                };
                match below(host, repositories) {
                    Some(_) if repositories == Some(&*probe) => probes += 1,
                    Some(name) => {
                        pairs.push(PluginPair { key, name, is_below: true, plugin, pair })
                    }
                    None => paths += 1,
                }
            }
            Ok(_) => {}
        }
    }
    // Keys are not shown: a broken plugin may write a password there.
    for (count, what) in [
        (unreadable, "are no hosts"),
        (paths, "have a path that is no beginning of a repository's name"),
        (probes, "are for the image alone that it was asked about, which nobody pulls"),
    ] {
        if count > 0 {
            let text = format!("{count} keys of its answer {what}, and are not used");
            let finding = Finding::new(&source(plugin), &host.to_string(), Loss::Lost, text);
            findings.push(finding);
        }
    }
    pairs
}

/// The name of the entry for some repositories of a registry, if there can be one.
fn below(host: &RegistryHost, repositories: Option<&str>) -> Option<String> {
    let name = RegistryName::parse(&format!("{host}/{}", repositories?)).ok()?;
    Some(name.to_string())
}

/// A key as the kubelet's keyring keeps it: without scheme, without the version of a registry's
/// interface, without a lone slash.
fn normal(key: &str) -> String {
    let rest = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let (host, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let path = if path.starts_with("/v1/") || path.starts_with("/v2/") { &path[3..] } else { path };
    let path = if path == "/" { "" } else { path };
    format!("{host}{path}")
}
