//! What the document says about registries, and which entry holds for a host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::host_name::DOCKER_HUB;
use crate::name::Pattern;
use crate::repositories::is_below;
use crate::{
    ClientIdentity, Credentials, Effect, Mirror, Origin, RegistryHost, RegistryName, ResourceUri,
    Roots, Rule,
};

/// One entry of the document: how the registries that its name stands for are reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registry {
    /// Who the puller is to the registry; anonymous where there is a `credentials_uri`.
    pub credentials: Credentials,
    /// Who else it is, tried in this order after a refusal; never there where it is anonymous, and
    /// never anonymous.
    pub also: Vec<Credentials>,
    /// Where the puller gets a docker configuration that says who it is, from which only what is
    /// written there for the registry of the pull may be used.
    pub credentials_uri: Option<ResourceUri>,
    /// Whether a registry that this docker configuration does not name is asked anonymously.
    /// Otherwise its pull fails.
    pub credentials_optional: bool,
    /// Whether the owner wants nobody's credentials here, the host's neither.
    pub wants_anonymous: bool,
    /// The only roots to trust for the whole pull; `None` means the web's, unless there is a
    /// `ca_certs_uri`.
    pub ca_certs: Option<Roots>,
    /// Where the puller gets the only roots to trust; never beside `ca_certs`.
    pub ca_certs_uri: Option<ResourceUri>,
    /// Who the puller is to TLS, at the registry's own host and where that is verified.
    pub client: Option<ClientIdentity>,
    /// Whether the registry's own certificate goes unchecked; other hosts of the pull are not
    /// concerned.
    pub insecure_skip_verify: bool,
    /// Whether plain HTTP may be tried, and credentials sent over it.
    pub plain_http: bool,
    /// Where the host is, in the place of a look-up of its name; only in the entry of one host.
    pub addresses: Vec<IpAddr>,
    /// Where to ask first, in this order.
    pub mirrors: Vec<Mirror>,
    /// The first segments of the names of repositories that nobody is asked for.
    pub blocked: Vec<Box<str>>,
    /// Whether the registry itself is asked, anonymously, where the mirrors fail that say nothing
    /// of that themselves.
    pub mirror_fallback: bool,
}

impl Registry {
    /// What counts of the entry in a pull whose credentials it refers to, without credentials: of
    /// an entry of the host only its references, and nothing that weakens the transport.
    #[must_use]
    pub fn in_confidential_pull(&self, origin: Origin) -> Self {
        let references = Self {
            credentials_uri: self.credentials_uri.clone(),
            credentials_optional: self.credentials_optional,
            ca_certs_uri: self.ca_certs_uri.clone(),
            // The host answers the guest's look-ups anyway.
            addresses: self.addresses.clone(),
            ..Self::default()
        };
        match origin {
            Origin::Host => references,
            Origin::Measured => Self {
                ca_certs: self.ca_certs.clone(),
                client: self.client.clone(),
                wants_anonymous: self.wants_anonymous,
                mirrors: self.mirrors.clone(),
                blocked: self.blocked.clone(),
                mirror_fallback: self.mirror_fallback,
                ..references
            },
        }
    }

    /// Whether the registry itself is asked for a repository where the mirrors fail that have it.
    pub fn falls_back(&self, repository: &str) -> bool {
        let has = |mirror: &&Mirror| mirror.has(repository);
        let said = self.mirrors.iter().filter(has).filter_map(Mirror::fallback);
        said.reduce(|one, other| one && other).unwrap_or(self.mirror_fallback)
    }

    /// The beginning of a repository's name for which nobody is asked.
    pub fn blocked(&self, repository: &str) -> Option<&str> {
        self.blocked.iter().map(Box::as_ref).find(|prefix| is_below(repository, prefix))
    }

    /// Whether the entry says who the puller is, be it nobody. Otherwise another document may.
    pub fn says_who(&self) -> bool {
        self.wants_anonymous
            || self.credentials_uri.is_some()
            || self.client.is_some()
            || !self.credentials.is_anonymous()
    }

    /// What the entry lends to its mirror. An unchecked certificate is the registry's own affair,
    /// and so are the further accounts: whoever runs the mirror learns one account, not all.
    #[must_use]
    pub fn lent_to_mirror(&self) -> Self {
        Self {
            also: Vec::new(),
            client: None,
            insecure_skip_verify: false,
            addresses: Vec::new(),
            ..self.clone()
        }
    }

    /// The same with all that another entry says of who the puller is.
    #[must_use]
    pub fn with_credentials_of(&self, other: &Self) -> Self {
        Self {
            client: other.client.clone(),
            credentials: other.credentials.clone(),
            also: other.also.clone(),
            credentials_uri: other.credentials_uri.clone(),
            credentials_optional: other.credentials_optional,
            wants_anonymous: other.wants_anonymous,
            ..self.clone()
        }
    }

    /// The key of a mirror's own entry that makes the mirror unusable: what it refers to is fetched
    /// only for the registry that an image names. Of a confidential pull the credentials are in the
    /// same docker configuration as the registry's.
    pub fn unfetched_for_mirror(&self, is_confidential: bool) -> Option<&'static str> {
        if self.credentials_uri.is_some() && !is_confidential {
            return Some("credentials-uri");
        }
        self.ca_certs_uri.is_some().then_some("ca-certs-uri")
    }

    /// What the author of a legal entry may not have meant, each with its key; empty for the entry
    /// as a whole.
    pub fn effects(&self, name: &RegistryName, origin: Origin) -> Vec<(&'static str, Effect)> {
        let is_referred = self.credentials_uri.is_some();
        let counted = self.in_confidential_pull(origin);
        let has_credentials = !self.credentials.is_anonymous();
        let has_roots = self.ca_certs.is_some() || self.ca_certs_uri.is_some();
        let is_lost = |is_there: bool, counts: bool| is_referred && is_there && !counts;
        let has_mirrors = |entry: &Self| !entry.mirrors.is_empty() || !entry.blocked.is_empty();
        let loses_mirror = is_lost(has_mirrors(self), has_mirrors(&counted));
        let loses_roots = is_lost(self.ca_certs.is_some(), counted.ca_certs.is_some());
        let trusts_nobody = self.ca_certs.as_ref().is_some_and(Roots::trusts_nobody);
        let is_below_docker_hub =
            matches!(&name.pattern, Pattern::Below(domain) if domain == DOCKER_HUB);
        let effects = [
            (has_credentials && self.plain_http, "plain-http", Effect::CredentialsInTheClear),
            (
                has_credentials && self.insecure_skip_verify,
                "insecure-skip-verify",
                Effect::CredentialsToAnyone,
            ),
            (has_credentials && name.is_any(), "", Effect::CredentialsEverywhere),
            (is_lost(self.plain_http, counted.plain_http), "plain-http", Effect::NotWithReference),
            (
                is_lost(self.insecure_skip_verify, counted.insecure_skip_verify),
                "insecure-skip-verify",
                Effect::NotWithReference,
            ),
            (loses_mirror, "mirror", Effect::NotWithReference),
            (loses_roots, "ca-certs", Effect::NotWithReference),
            (trusts_nobody && !loses_roots, "ca-certs", Effect::TrustsNobody),
            (
                self.insecure_skip_verify && has_roots && !trusts_nobody && !is_referred,
                "ca-certs",
                Effect::RootsUnused,
            ),
            (is_below_docker_hub, "", Effect::NotDockerHub),
            (
                self.client.is_some() && self.insecure_skip_verify,
                "insecure-skip-verify",
                Effect::ClientUnused,
            ),
            (
                is_lost(self.client.is_some(), counted.client.is_some()),
                "",
                Effect::ClientNotWithReference,
            ),
        ];
        let applying = effects.into_iter().filter(|(applies, ..)| *applies);
        applying.map(|(_, key, effect)| (key, effect)).collect()
    }
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
        self.matches(host).next().map_or(Match::Defaults, |(key, entry)| Match::Entry {
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

    /// The entries for some repositories of a host that one repository belongs to, the most
    /// specific first. The first one says who the puller is there; all else is said by the host's
    /// entry.
    pub fn repository_entries(
        &self,
        host: &RegistryHost,
        repository: &str,
    ) -> impl Iterator<Item = (&RegistryName, &Registry)> {
        RegistryName::repository_candidates(host, repository)
            .filter_map(|name| self.0.get_key_value(&name))
    }

    /// The name of a domain above a host, or of another port of it, that an entry has, and that
    /// does not hold for the host.
    pub fn near_miss(&self, host: &RegistryHost) -> Option<&RegistryName> {
        self.0.keys().find(|name| name.is_above(host) || name.is_port_of(host))
    }

    /// The entry that names a host itself, if there is one.
    pub fn literal_entry_for(&self, host: &RegistryHost) -> Option<(&RegistryName, &Registry)> {
        let [with_port, without] = RegistryName::literal_candidates(host);
        self.0.get_key_value(&with_port).or_else(|| self.0.get_key_value(&without))
    }

    /// Whether a mirror that an entry names may be asked by its protocol.
    ///
    /// Over plain HTTP, the mirror's own entry must allow trying that. Without such an entry, the
    /// one that names it must say `plain-http`, or, where it has no credentials to lend,
    /// `insecure-skip-verify`: what such an entry may do to its registry, asking in clear without
    /// telling anything, it may do to the mirror.
    #[must_use]
    pub fn allows_mirror(&self, mirror: &Mirror, registry: &Registry) -> bool {
        if !mirror.is_plain_http() {
            return true;
        }
        match self.literal_entry_for(mirror.host()) {
            Some((_, own)) => own.plain_http || own.insecure_skip_verify,
            None => {
                let lends = !registry.credentials.is_anonymous();
                registry.plain_http || registry.insecure_skip_verify && !lends
            }
        }
    }

    /// Why mirrors that an entry of this document names can never be asked, by their places in its
    /// list.
    ///
    /// An entry that names itself as the mirror is left to the pull: the registry itself may be
    /// that mirror, and then its roots are fetched.
    pub(crate) fn mirror_problems(
        &self,
        (name, registry): (&RegistryName, &Registry),
        origin: Origin,
    ) -> Vec<(usize, Rule)> {
        let is_confidential = registry.credentials_uri.is_some();
        let is_counted =
            !is_confidential || !registry.in_confidential_pull(origin).mirrors.is_empty();
        let problem = |mirror: &Mirror| {
            if !self.allows_mirror(mirror, registry) {
                return Some(Rule::MirrorPlainHttp);
            }
            let (own, entry) = self.literal_entry_for(mirror.host()).filter(|_| is_counted)?;
            let key = entry.unfetched_for_mirror(is_confidential)?;
            (is_confidential || own != name).then_some(Rule::MirrorReference { key })
        };
        let mirrors = registry.mirrors.iter().enumerate();
        mirrors.filter_map(|(at, mirror)| Some((at, problem(mirror)?))).collect()
    }

    /// What the entry of the host does to the credentials of an entry for some of its repositories.
    pub(crate) fn effects_of_host(&self, (name, entry): (&RegistryName, &Registry)) -> Vec<Effect> {
        let host = name.repositories().and_then(|_| name.host());
        let Some(Match::Entry { entry: of_host, .. }) = host.map(|host| self.entry_for(&host))
        else {
            return Vec::new();
        };
        let has_credentials = !entry.credentials.is_anonymous();
        let effects = [
            (of_host.plain_http, Effect::CredentialsInTheClear),
            (of_host.insecure_skip_verify, Effect::CredentialsToAnyone),
        ];
        let applying = effects.into_iter().filter(|(applies, _)| *applies && has_credentials);
        applying.map(|(_, effect)| effect).collect()
    }

    /// All entries, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&RegistryName, &Registry)> {
        self.0.iter()
    }

    /// The entry with this name, wherever it holds.
    #[must_use]
    pub fn get(&self, name: &RegistryName) -> Option<&Registry> {
        self.0.get(name)
    }

    /// Sets an entry; one that is there keeps its name as it was written.
    pub fn set(&mut self, name: RegistryName, entry: Registry) {
        self.0.insert(name, entry);
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
mod tests;
