//! What plugins answered about a registry, as offers for it.
//!
//! The kubelet puts all answers about an image into one keyring, walks its keys in reverse
//! lexicographic order, and tries every pair whose key matches the image, those of earlier plugins
//! first. The offers are in that order; the document takes the first that it can express. A key
//! with a path becomes an offer for the repositories below it, by whole segments, where the kubelet
//! compares texts. A key with globs becomes an offer for the registry that was asked about and for
//! no other name. A registry asked about without a port gets an entry without one, and that holds
//! for every port of the host; the kubelet would use the pair for the HTTPS port only. Where ports
//! are different registries, list them with their ports.

use std::cmp::Reverse;

use puller_config::{RegistryHost, RegistryName, Secret, is_below};

use super::matching::Pattern;
use super::protocol::{CacheKeyType, Pair, Response};
use crate::{Finding, Loss, Offer, Offered};

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

/// What `answers`, by the plugins' names and in their order, offer for `host`.
pub fn offers(host: &RegistryHost, answers: &[(&str, &Response)]) -> (Vec<Offer>, Vec<Finding>) {
    offers_of(host, None, answers)
}

/// The same of plugins that the kubelet asks for images below `repositories` only, whatever the
/// keys of their answers.
pub fn offers_below(
    host: &RegistryHost,
    repositories: &str,
    answers: &[(&str, &Response)],
) -> (Vec<Offer>, Vec<Finding>) {
    offers_of(host, Some(repositories), answers)
}

fn offers_of(
    host: &RegistryHost,
    scope: Option<&str>,
    answers: &[(&str, &Response)],
) -> (Vec<Offer>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut candidates = Vec::new();
    let Ok(image) = Pattern::parse(&super::probe(host)) else {
        // A registry's host is always one; were it not, nothing would match it.
        return (Vec::new(), findings);
    };
    for (plugin, response) in answers {
        if response.cache_key_type == CacheKeyType::Image && !response.auth.is_empty() {
            let text =
                "its answer is for a single image, which no document can express, and is not used";
            findings.push(lost(plugin, host, text.into()));
            continue;
        }
        let question = Question {
            host,
            scope,
            image: &image,
        };
        let found = candidates_of(plugin, response, question, &mut findings);
        candidates.extend(found);
    }
    // Stable: of one key, the earlier plugin stays the first.
    candidates.sort_by(|one, other| Reverse(&one.key).cmp(&Reverse(&other.key)));
    let (below, whole): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .partition(|candidate| candidate.is_below);
    let chosen = matching(&whole, &image, host);
    let offers = chosen.into_iter().chain(&below).filter_map(|candidate| {
        let Pair { username, password } = candidate.pair;
        // "Anonymous": no entry, rather than one with nothing in it.
        let is_empty = username.is_empty() && password.expose().is_empty();
        (!is_empty).then(|| Offer {
            name: candidate.name.clone(),
            offered: Offered::Password {
                username: username.to_string(),
                password: Secret::clone(password),
            },
            source: source(candidate.plugin),
        })
    });
    (offers.collect(), findings)
}

/// Whether `response` has a pair for `host`, be it an empty one.
#[must_use]
pub fn has_pair_for(host: &RegistryHost, response: &Response) -> bool {
    let Ok(image) = Pattern::parse(&super::probe(host)) else {
        return false;
    };
    let question = Question {
        host,
        scope: None,
        image: &image,
    };
    let candidates = candidates_of("", response, question, &mut Vec::new());
    let is_below = candidates.iter().any(|candidate| candidate.is_below);
    is_below || !matching(&candidates, &image, host).is_empty()
}

/// Those of `candidates` that the kubelet would try for `host`, in their order.
fn matching<'a, 'b>(
    candidates: &'b [PluginPair<'a>],
    image: &Pattern,
    host: &RegistryHost,
) -> Vec<&'b PluginPair<'a>> {
    let is_for = |candidate: &&PluginPair<'_>| {
        Pattern::parse(&candidate.key).is_ok_and(|key| key.matches(image))
    };
    let chosen: Vec<_> = candidates.iter().filter(is_for).collect();
    if chosen.is_empty() && host.is_docker_hub() {
        let is_hub = |candidate: &&PluginPair<'_>| candidate.key == DOCKER_HUB_KEY;
        return candidates.iter().filter(is_hub).collect();
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

fn candidates_of<'a>(
    plugin: &'a str,
    response: &'a Response,
    question: Question<'_>,
    findings: &mut Vec<Finding>,
) -> Vec<PluginPair<'a>> {
    let host = question.host;
    let mut candidates = Vec::new();
    let (mut unreadable, mut paths) = (0, 0);
    for (key, pair) in &response.auth {
        let key = normal(key);
        match Pattern::parse(&key) {
            Err(_) => unreadable += 1,
            // Whether it matches is seen later, because Docker Hub has a second chance.
            Ok(pattern) if question.scope.is_none() && !pattern.has_path() => {
                candidates.push(PluginPair {
                    key,
                    name: host.to_string(),
                    is_below: false,
                    plugin,
                    pair,
                });
            }
            Ok(pattern) if pattern.matches_host_of(question.image) => {
                let of_key = pattern
                    .has_path()
                    .then(|| pattern.repositories().unwrap_or(""));
                let Some(repositories) = question.repositories(of_key) else {
                    continue;
                };
                match below(host, repositories) {
                    Some(name) => candidates.push(PluginPair {
                        key,
                        name,
                        is_below: true,
                        plugin,
                        pair,
                    }),
                    None => paths += 1,
                }
            }
            Ok(_) => {}
        }
    }
    // Keys are not shown: a broken plugin may write a password there.
    if unreadable > 0 {
        let text = format!("{unreadable} keys of its answer are no hosts and are not used");
        findings.push(lost(plugin, host, text));
    }
    if paths > 0 {
        let text = format!(
            "{paths} keys of its answer have a path that is no beginning of a repository's name, \
            and are not used"
        );
        findings.push(lost(plugin, host, text));
    }
    candidates
}

/// The name of the entry for some repositories of a registry, if there can be one.
fn below(host: &RegistryHost, repositories: Option<&str>) -> Option<String> {
    let name = RegistryName::parse(&format!("{host}/{}", repositories?)).ok()?;
    Some(name.to_string())
}

fn lost(plugin: &str, host: &RegistryHost, text: String) -> Finding {
    Finding::new(&source(plugin), &host.to_string(), Loss::Lost, text)
}

/// A key as the kubelet's keyring keeps it: without scheme, without the version of a registry's
/// interface, without a lone slash.
fn normal(key: &str) -> String {
    let rest = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    let (host, path) = rest
        .find('/')
        .map_or((rest, ""), |slash| rest.split_at(slash));
    let path = if path.starts_with("/v1/") || path.starts_with("/v2/") {
        &path[3..]
    } else {
        path
    };
    let path = if path == "/" { "" } else { path };
    format!("{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::protocol::Version;

    fn response(kind: &str, auth: &str) -> Response {
        let text = format!(
            "{{\"kind\":\"CredentialProviderResponse\",\
             \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
             \"cacheKeyType\":\"{kind}\",\"auth\":{{{auth}}}}}"
        );
        Response::parse(text.as_bytes(), Version::V1).unwrap()
    }

    /// The users offered for `host` by the answers, whose pairs are `key=user`, each password its
    /// user's with "-pw".
    fn users(host: &str, answers: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let responses: Vec<_> = answers
            .iter()
            .map(|(kind, pairs)| {
                let pairs: Vec<_> = pairs
                    .split_whitespace()
                    .map(|pair| {
                        let (key, user) = pair.split_once('=').unwrap();
                        let password = if user.is_empty() {
                            String::new()
                        } else {
                            format!("{user}-pw")
                        };
                        format!("\"{key}\":{{\"username\":\"{user}\",\"password\":\"{password}\"}}")
                    })
                    .collect();
                response(kind, &pairs.join(","))
            })
            .collect();
        let names = ["one", "two", "three"];
        let answers: Vec<_> = names.into_iter().zip(&responses).collect();
        let host = RegistryHost::parse(host).unwrap();
        let (offers, findings) = offers(&host, &answers);
        let users = offers.iter().map(|offer| {
            let Offered::Password { username, password } = &offer.offered else {
                panic!("{offer:?}")
            };
            assert_eq!(password.expose(), format!("{username}-pw"));
            match offer.name.strip_prefix(&host.to_string()) {
                Some("") => username.clone(),
                Some(below) => format!("{username}{below}"),
                None => panic!("{}", offer.name),
            }
        });
        let findings = findings.iter().map(ToString::to_string).collect();
        (users.collect(), findings)
    }

    /// A registry, what each plugin answers, and whose pairs come.
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

    #[test]
    fn pairs_come_in_the_order_in_which_the_kubelet_tries_them() {
        let cases: [Case<'_>; 19] = [
            ("reg.corp", &[("Registry", "reg.corp=a")], &["a"]),
            ("reg.corp", &[("Global", "https://reg.corp/v2/=a")], &["a"]),
            ("reg.corp", &[("Registry", "http://reg.corp/=a")], &["a"]),
            ("reg.corp:5000", &[("Registry", "reg.corp=a")], &[]),
            ("reg.corp", &[("Registry", "reg.corp:5000=a")], &[]),
            ("reg.corp:5000", &[("Registry", "*.corp:5000=a")], &["a"]),
            ("reg.corp", &[("Registry", "other.corp=a *.*.corp=b")], &[]),
            // The literal before the glob, whoever has it; of one key the earlier plugin first.
            (
                "reg.corp",
                &[("Registry", "*.corp=a reg.corp=b")],
                &["b", "a"],
            ),
            (
                "reg.corp",
                &[("Registry", "*.corp=a"), ("Global", "reg.corp=b")],
                &["b", "a"],
            ),
            (
                "reg.corp",
                &[("Registry", "reg.corp=a"), ("Registry", "reg.corp=b")],
                &["a", "b"],
            ),
            // What ACR's plugin always adds.
            (
                "x.azurecr.io",
                &[("Registry", "*.azurecr.*= x.azurecr.io=a")],
                &["a"],
            ),
            ("y.azurecr.io", &[("Registry", "*.azurecr.*=")], &[]),
            ("docker.io", &[("Registry", "docker.io=a")], &["a"]),
            (
                "docker.io",
                &[("Registry", "https://index.docker.io/v1/=a")],
                &["a"],
            ),
            (
                "docker.io",
                &[("Registry", "index.docker.io=a *.io=b")],
                &["b"],
            ),
            ("reg.corp", &[("Registry", "index.docker.io=a")], &[]),
            // Those for some repositories behind those for all of them.
            (
                "reg.corp",
                &[(
                    "Registry",
                    "reg.corp/team/app=a reg.corp=b https://reg.corp/v2/team/=c",
                )],
                &["b", "a/team/app", "c/team"],
            ),
            (
                "reg.corp",
                &[("Registry", "*.corp/team=a other.corp/team=b")],
                &["a/team"],
            ),
            ("reg.corp", &[("Registry", "reg.corp/team=")], &[]),
        ];
        for (host, answers, expected) in cases {
            let (found, findings) = users(host, answers);
            assert_eq!(found, expected, "{host} {answers:?}");
            assert!(findings.is_empty(), "{findings:?}");
        }
    }

    /// The kubelet asks a plugin for the images of its `matchImages` only, so a pair for the whole
    /// host is not one for other repositories.
    #[test]
    fn a_plugin_for_some_repositories_offers_nothing_for_others() {
        let host = RegistryHost::parse("reg.corp").unwrap();
        for (pairs, expected) in [
            ("reg.corp", &["reg.corp/team"][..]),
            ("*.corp", &["reg.corp/team"]),
            ("reg.corp/team/app", &["reg.corp/team/app"]),
            ("reg.corp/team", &["reg.corp/team"]),
            ("reg.corp/other", &[]),
            ("other.corp", &[]),
        ] {
            let pair = format!("\"{pairs}\":{{\"username\":\"u\",\"password\":\"p\"}}");
            let response = response("Registry", &pair);
            let (offers, findings) = offers_below(&host, "team", &[("one", &response)]);
            let names: Vec<_> = offers.iter().map(|offer| offer.name.as_str()).collect();
            assert_eq!(names, expected, "{pairs}");
            assert!(findings.is_empty(), "{findings:?}");
        }
    }

    #[test]
    fn what_no_document_can_say_is_named() {
        let (found, findings) = users(
            "reg.corp",
            &[("Image", "reg.corp=a"), ("Registry", "reg.corp=b")],
        );
        assert_eq!(found, ["b"]);
        assert!(
            findings[0]
                .starts_with("credential provider one: reg.corp: its answer is for a single image")
        );
        let (found, findings) = users("reg.corp", &[("Registry", "reg.corp/Team=a reg.corp/p*=b")]);
        assert!(found.is_empty());
        assert!(
            findings[0].contains("2 keys of its answer have a path that is no"),
            "{findings:?}"
        );
        let (found, findings) = users("reg.corp", &[("Registry", "hunter2%zz/%zz=a reg.corp=b")]);
        assert_eq!(found, ["b"]);
        assert!(findings[0].contains("1 keys"), "{findings:?}");
        assert!(!findings[0].contains("hunter2"), "{findings:?}");
    }
}
