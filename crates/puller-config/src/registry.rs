//! What the document says about registries, and which entry holds for a host.

use std::collections::BTreeMap;

use crate::{Credentials, Mirror, RegistryHost, RegistryName, Roots, SecretReference};

/// The most entries of a document; an entry costs memory in the guest whatever its length in the
/// document is.
pub const MAX_REGISTRIES: usize = 1024;

/// One entry of the document: how the registries that its name stands for are reached.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// Who the puller is to the registry; anonymous where there is a `credentials_uri`.
    pub credentials: Credentials,
    /// Where the puller gets a docker configuration that says who it is, from which only what is
    /// written there for the registry of the pull may be used.
    pub credentials_uri: Option<SecretReference>,
    /// The only roots to trust for the whole pull; `None` means the web's, unless there is a
    /// `ca_certs_uri`.
    pub ca_certs: Option<Roots>,
    /// Where the puller gets the only roots to trust; never beside `ca_certs`.
    pub ca_certs_uri: Option<SecretReference>,
    /// Whether the registry's own certificate goes unchecked; other hosts of the pull are not
    /// concerned.
    pub insecure_skip_verify: bool,
    /// Whether plain HTTP may be tried, and credentials sent over it.
    pub plain_http: bool,
    /// Where to ask first.
    pub mirror: Option<Mirror>,
    /// Whether the registry itself is asked, anonymously, where the mirror fails.
    pub mirror_fallback: bool,
}

/// All entries by name; no two names mean the same hosts.
#[derive(Clone, Debug, Default)]
pub struct Registries(pub(crate) BTreeMap<RegistryName, Registry>);

/// Which entry holds for a host.
#[derive(Clone, Copy, Debug)]
pub enum Match<'a> {
    /// This entry.
    Entry {
        /// The name under which the document has it.
        key: &'a RegistryName,
        /// What it says.
        entry: &'a Registry,
        /// Whether the name is that of the host itself, not that of a domain above it.
        literal: bool,
    },
    /// None: the web's roots, no credentials, no mirror.
    Defaults,
}

impl Registries {
    /// The entry that holds for a host: the literal with its port, the literal without, the longest
    /// suffix, `.`.
    pub fn entry_for(&self, host: &RegistryHost) -> Match<'_> {
        self.matches(host)
            .next()
            .map_or(Match::Defaults, |(key, entry)| Match::Entry {
                key,
                entry,
                literal: key.is_literal(),
            })
    }

    /// Every entry whose name a host matches, the most specific first. Only the first one holds;
    /// the others explain why.
    pub fn matches(&self, host: &RegistryHost) -> impl Iterator<Item = (&RegistryName, &Registry)> {
        RegistryName::candidates(host).filter_map(|name| self.0.get_key_value(&name))
    }

    /// The entry that names a host itself, if there is one.
    pub fn literal_entry_for(&self, host: &RegistryHost) -> Option<(&RegistryName, &Registry)> {
        let [with_port, without] = RegistryName::literal_candidates(host);
        self.0
            .get_key_value(&with_port)
            .or_else(|| self.0.get_key_value(&without))
    }

    /// Whether the mirror that an entry names may be asked by its protocol.
    ///
    /// Over plain HTTP, the mirror's own entry must allow trying that. Without such an entry, the
    /// one that names it must say `plain-http`; its `insecure-skip-verify` is about the registry's
    /// own host and says nothing about the mirror.
    pub(crate) fn allows_mirror_of(&self, registry: &Registry) -> bool {
        let Some(mirror) = registry
            .mirror
            .as_ref()
            .filter(|mirror| mirror.is_plain_http())
        else {
            return true;
        };
        match self.literal_entry_for(mirror.host()) {
            Some((_, own)) => own.plain_http || own.insecure_skip_verify,
            None => registry.plain_http,
        }
    }

    /// All entries, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&RegistryName, &Registry)> {
        self.0.iter()
    }

    /// Whether the document names no registry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many entries the document has.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registries(names: &[&str]) -> Registries {
        Registries(
            names
                .iter()
                .map(|name| (RegistryName::parse(name).unwrap(), Registry::default()))
                .collect(),
        )
    }

    /// The name of the entry that holds for a host, as the document's author would recognise it.
    fn matched(names: &[&str], host: &str) -> String {
        let registries = registries(names);
        match registries.entry_for(&RegistryHost::parse(host).unwrap()) {
            Match::Entry { key, literal, .. } => {
                assert_eq!(literal, key.is_literal());
                key.to_string()
            }
            Match::Defaults => "defaults".to_owned(),
        }
    }

    #[test]
    fn names_match_by_the_five_rules() {
        let corp = ["registry.corp", ".corp", ".registry.corp", "."];
        for (names, host, expected) in [
            // 1. A literal is that host alone.
            (&["registry.corp"][..], "registry.corp", "registry.corp."),
            (&["registry.corp."], "REGISTRY.Corp", "registry.corp."),
            (&["registry.corp"], "sub.registry.corp", "defaults"),
            (&["registry.corp"], "corp", "defaults"),
            // 2. A suffix is every subdomain, not the domain.
            (&[".corp"], "registry.corp", ".corp."),
            (&[".corp."], "a.b.c.corp", ".corp."),
            (&[".corp"], "corp", "defaults"),
            // 3. The dot is everything.
            (&["."], "registry.corp", "."),
            (&["."], "localhost", "."),
            (&["."], "192.0.2.1", "."),
            (&["."], "[::1]:5000", "."),
            // 4. The literal first, then the longest suffix.
            (&corp, "registry.corp", "registry.corp."),
            (&corp, "a.registry.corp", ".registry.corp."),
            (&corp, "a.b.registry.corp", ".registry.corp."),
            (&corp, "other.corp", ".corp."),
            (&corp, "corp", "."),
            (&["corp", "."], "corp", "corp."),
            // 5. Nothing else.
            (&[], "registry.corp", "defaults"),
            (&["other.corp", ".org"], "registry.corp", "defaults"),
        ] {
            assert_eq!(matched(names, host), expected, "{host} in {names:?}");
        }
    }

    #[test]
    fn ports_addresses_and_docker_hub_keep_the_rules() {
        let ports = [
            "registry.corp",
            "registry.corp:5000",
            "registry.corp:443",
            ".corp",
        ];
        let addresses = ["192.0.2.1", "192.0.2.1:5000", "[::1]", ".1", "."];
        for (names, host, expected) in [
            (&ports[..], "registry.corp:5000", "registry.corp:5000"),
            (&ports, "registry.corp:443", "registry.corp:443"),
            (&ports, "registry.corp", "registry.corp:443"),
            (&ports, "registry.corp:80", "registry.corp."),
            (&ports, "other.corp:5000", ".corp."),
            (&["registry.corp:5000"], "registry.corp", "defaults"),
            (&["registry.corp:5000"], "registry.corp:50000", "defaults"),
            (
                &[addresses[0], addresses[1], addresses[4]],
                "192.0.2.1:5000",
                "192.0.2.1:5000",
            ),
            (
                &[addresses[0], addresses[1], addresses[4]],
                "192.0.2.1",
                "192.0.2.1",
            ),
            (&[addresses[2]], "[0:0::1]:80", "[::1]"),
            (&[addresses[2]], "[::2]", "defaults"),
            (&["index.docker.io"], "docker.io", "docker.io."),
            (&["docker.io"], "registry-1.docker.io", "docker.io."),
            (&["docker.io"], "auth.docker.io", "defaults"),
            (&[".docker.io"], "index.docker.io", "defaults"),
            (&[".docker.io"], "auth.docker.io", ".docker.io."),
            (&[".io"], "index.docker.io", ".io."),
        ] {
            assert_eq!(matched(names, host), expected, "{host} in {names:?}");
        }
    }

    /// GHSA-6c87-g9pw-78fx: a matcher compared characters instead of labels, so whoever registered
    /// a domain that merely ended in a configured name was sent that name's credentials. Its repair
    /// still let literals match their subdomains.
    #[test]
    fn credentials_stay_at_the_label_boundary() {
        for (name, host) in [
            ("example.com", "notexample.com"),
            ("example.com", "evil-example.com"),
            ("example.com", "evil.example.com"),
            ("example.com", "example.com.evil.org"),
            (".example.com", "notexample.com"),
            (".example.com", "not.anexample.com"),
            (".example.com", "example.com"),
            (".example.com", "example.com.evil.org"),
            (".com", "examplecom"),
            ("192.0.2.1", "1.192.0.2.1.evil.org"),
            ("docker.io", "notdocker.io"),
        ] {
            assert_eq!(matched(&[name], host), "defaults", "{host} by {name}");
        }
    }

    #[test]
    fn all_matches_are_known_by_the_text_that_was_written() {
        let names = [
            "Registry.corp",
            "registry.corp:443",
            ".CORP",
            ".",
            ".other",
            "index.docker.io",
        ];
        let registries = registries(&names);
        for (host, expected) in [
            (
                "registry.corp",
                &["registry.corp:443", "Registry.corp", ".CORP", "."][..],
            ),
            ("registry.corp:80", &["Registry.corp", ".CORP", "."]),
            ("docker.io", &["index.docker.io", "."]),
            ("192.0.2.1", &["."]),
        ] {
            let host = RegistryHost::parse(host).unwrap();
            let written: Vec<_> = registries
                .matches(&host)
                .map(|(key, _)| key.written())
                .collect();
            assert_eq!(written, expected, "{host}");
        }
    }

    #[test]
    fn only_literals_name_a_host() {
        let registries = registries(&["registry.corp", "registry.corp:5000", ".corp", "."]);
        let named = |host| {
            let host = RegistryHost::parse(host).unwrap();
            registries
                .literal_entry_for(&host)
                .map(|(key, _)| key.to_string())
        };
        assert_eq!(
            named("registry.corp:5000").as_deref(),
            Some("registry.corp:5000")
        );
        assert_eq!(named("registry.corp").as_deref(), Some("registry.corp."));
        assert_eq!(named("other.corp"), None);
        assert_eq!(
            (
                registries.len(),
                registries.is_empty(),
                registries.iter().count()
            ),
            (4, false, 4)
        );
    }
}
