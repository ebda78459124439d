//! The configuration of one pull: the documents as they are now, and who is in charge of a registry
//! by them.
//!
//! There may be two. The *measured* one is the word of the guest's owner, who vouched for it when
//! the guest was measured; the *configuration* is the host's. Where both speak about a host, the
//! measured one alone says how it is reached, however wide its entry is. Who the puller is there
//! the host may say, where the measured document says nothing of that.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use registry_config::{
    DecryptionKey, Document, ExtraEnv, ImagePolicy, Match, NodeError, Origin, Pins, Registry,
    RegistryHost, RegistryName, Resources, Roots,
};
use url::Url;

use crate::address::leads_astray;

mod authority;
#[cfg(test)]
pub(crate) mod tests;

pub use self::authority::{Authority, EntryName};

/// A document and where it came from.
#[derive(Clone, Debug, Default)]
pub struct PlacedDocument {
    /// What it says; the defaults where it is not there.
    pub document: Arc<Document>,
    /// Where it lies or would; empty where nobody named a place.
    pub path: PathBuf,
    /// Whether it is there.
    pub is_present: bool,
}

/// The documents, and what was fetched by reference.
#[derive(Clone, Debug)]
pub struct Settings {
    measured: PlacedDocument,
    pub(crate) configuration: PlacedDocument,
    /// Whether the credentials of the pull are fetched, so that no entry of the host counts.
    pub(crate) is_confidential: bool,
    /// The roots that were fetched in another pull, and the registry that they are for.
    pub(crate) fetched_roots: Option<Arc<(RegistryHost, Roots)>>,
    /// Whether connections may be opened to any address, by the caller's word.
    any_address: bool,
}

/// A key of a document, and where it stands. Shown as that place.
#[derive(Clone, Copy, Debug)]
pub struct PlacedKey<'s> {
    /// Whose document it is.
    pub origin: Origin,
    /// The name of its table; none where that is for every image.
    pub table: Option<&'s RegistryName>,
    /// Its place in the table, from 1.
    pub number: usize,
    /// The key.
    pub key: &'s DecryptionKey,
}

impl fmt::Display for PlacedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.map(RegistryName::written);
        let table = table.map_or(String::new(), |name| format!(".\"{name}\""));
        let Self { origin, number, .. } = self;
        write!(f, "key {number} of [decryption-keys{table}] in {origin}")
    }
}

impl Settings {
    /// The documents as they are now, the owner's first. Nothing is fetched yet.
    pub fn new(measured: PlacedDocument, configuration: PlacedDocument) -> Self {
        Self {
            measured,
            configuration,
            is_confidential: false,
            fetched_roots: None,
            any_address: false,
        }
    }

    /// The same with connections to any address, also in a [`Vicinity`](crate::address::Vicinity):
    /// for who runs a pull on a machine of their own.
    #[must_use]
    pub fn with_any_address(self, any_address: bool) -> Self {
        Self { any_address, ..self }
    }

    /// Whether the owner names the host and port of a URL, in an entry or as a mirror. There a
    /// name without a port is for those of HTTPS and HTTP: the host answers for names, and could
    /// lead each one to any port of the guest.
    pub(crate) fn is_named_by_owner(&self, url: &Url) -> bool {
        let Some(host) = RegistryHost::of_url(url) else {
            return false;
        };
        let is_default = url.port().is_none();
        let is_entry = |name: &RegistryName| {
            name.host().is_some_and(|own| match own.port() {
                Some(_) => own == host,
                None => is_default && own.name() == host.name(),
            })
        };
        self.measured.document.registries.iter().any(|(name, entry)| {
            is_entry(name) || entry.mirrors.iter().any(|mirror| *mirror.host() == host)
        })
    }

    /// Whether a connection to the host of a URL may end in a
    /// [`Vicinity`](crate::address::Vicinity) of this machine.
    pub fn may_be_near(&self, url: &Url) -> bool {
        self.any_address || self.is_named_by_owner(url)
    }

    /// The same for the addresses of the entry `by`. Those of the host may not, also where the owner
    /// names the host that they are said to be of.
    pub fn may_addresses_be_near(&self, url: &Url, by: &Authority) -> bool {
        self.any_address || by.is_measured() && self.is_named_by_owner(url)
    }

    /// The same for the proxies: the owner's may.
    pub fn may_proxies_be_near(&self) -> bool {
        self.any_address || self.measured.document.has_extra_env
    }

    /// Whether a server at `from` may not send the puller to `to`: that is in a vicinity that the
    /// server itself is not in, by its text, and the owner does not name it.
    pub fn leads_astray(&self, from: &Url, to: &Url) -> bool {
        leads_astray(from, to) && !self.is_named_by_owner(to)
    }

    /// What holds for a registry, whatever the repository.
    pub fn registry(&self, host: &RegistryHost) -> Authority {
        self.of_repository(host, None)
    }

    /// What holds for an image: the way there by the entry of its registry, and who the puller is
    /// by the entry for its repository, where the same document has one. Where the owner's document
    /// shows the way and names nobody, the host's says who the puller is.
    pub fn image(&self, host: &RegistryHost, repository: &str) -> Authority {
        self.of_repository(host, Some(repository))
    }

    fn of_repository(&self, host: &RegistryHost, repository: Option<&str>) -> Authority {
        let by = |origin| self.in_charge(origin, host, repository);
        match by(Origin::Measured) {
            Some(measured) => measured.completed_by(by(Origin::Host)),
            None => by(Origin::Host)
                .unwrap_or_else(|| Authority::new(self.no_entry(host), Registry::default())),
        }
    }

    /// What a document says of a repository, if it says anything.
    fn in_charge(
        &self,
        origin: Origin,
        host: &RegistryHost,
        repository: Option<&str>,
    ) -> Option<Authority> {
        let file = self.file(origin);
        let registries = &file.document.registries;
        let access = repository
            .and_then(|repository| registries.repository_entries(host, repository).next());
        let mut authority = match registries.entry_for(host) {
            Match::Entry { key, entry, .. } => self.entry(origin, key, entry, host),
            Match::Defaults if access.is_none() => return None,
            Match::Defaults => {
                let near = registries.near_miss(host).cloned();
                let name = EntryName::NoEntry(vec![file.path.clone()], near);
                Authority::new(name, Registry::default())
            }
        };
        authority.access = access.map(|(key, entry)| {
            let name = EntryName::Entry(key.clone(), origin);
            Box::new((name, entry.clone()))
        });
        Some(authority)
    }

    fn file(&self, origin: Origin) -> &PlacedDocument {
        match origin {
            Origin::Measured => &self.measured,
            Origin::Host => &self.configuration,
        }
    }

    fn no_entry(&self, host: &RegistryHost) -> EntryName {
        let files = [&self.configuration, &self.measured];
        let present = files.into_iter().filter(|file| file.is_present);
        let paths: Vec<_> = present.map(|file| file.path.clone()).collect();
        if paths.is_empty() {
            EntryName::NoDocument(self.configuration.path.clone())
        } else {
            let mut files = files.into_iter();
            let near = files.find_map(|file| file.document.registries.near_miss(host));
            EntryName::NoEntry(paths, near.cloned())
        }
    }

    /// Every entry: who wrote it, its name, and what it says. The owner's first.
    pub fn entries(&self) -> impl Iterator<Item = (Origin, &RegistryName, &Registry)> {
        [Origin::Measured, Origin::Host].into_iter().flat_map(move |origin| {
            let entries = self.file(origin).document.registries.iter();
            entries.map(move |(name, entry)| (origin, name, entry))
        })
    }

    /// Why the node has no document, if it says so.
    pub fn node_error(&self) -> Option<&NodeError> {
        self.configuration.document.node_error.as_ref()
    }

    /// The entries that match an image: who wrote each, and its name. Of each document first those
    /// for some repositories; of both kinds the most specific first.
    pub fn matches(
        &self,
        host: &RegistryHost,
        repository: &str,
    ) -> impl Iterator<Item = (Origin, &RegistryName)> {
        [Origin::Measured, Origin::Host].into_iter().flat_map(move |origin| {
            let registries = &self.file(origin).document.registries;
            let own = registries.repository_entries(host, repository);
            let matches = own.chain(registries.matches(host));
            matches.map(move |(name, _)| (origin, name)).collect::<Vec<_>>()
        })
    }

    /// What holds for a host that an entry names itself, and that the source `under` sends the
    /// puller to.
    ///
    /// The host's entries count only where it is the host's entry that is in charge of the pull,
    /// and where the measured document has none for that host, be it a wide one.
    pub fn named(&self, host: &RegistryHost, under: &Authority) -> Option<Authority> {
        let own = self.named_as_written(host, under)?;
        Some(match self.is_confidential {
            true => own.confidential(),
            false => own,
        })
    }

    /// The same, with what does not count in a confidential pull.
    pub(crate) fn named_as_written(
        &self,
        host: &RegistryHost,
        under: &Authority,
    ) -> Option<Authority> {
        if let Some(own) = self.measured_literal(host) {
            // Nobody's credentials are wanted for the image.
            let wants_none = under.credentials_entry().wants_anonymous;
            let of_host = self.configuration_literal(host).filter(|_| !wants_none);
            return Some(own.completed_by(of_host));
        }
        let measured = self.measured.document.registries.entry_for(host);
        if under.is_measured() || matches!(measured, Match::Entry { .. }) {
            return None;
        }
        self.configuration_literal(host)
    }

    /// What a mirror borrows that has no entry of its own which counts: all from the entry that
    /// names it, but its own account from the host's document, where the owner's entry has none to
    /// lend. Nobody's account for an image that is to be pulled without.
    pub(crate) fn lent(&self, mirror: &RegistryHost, under: &Authority) -> Authority {
        let mut lent = under.lent();
        let of_image = under.credentials_entry();
        if of_image.wants_anonymous {
            lent.registry = lent.registry.with_credentials_of(of_image);
            lent.lender = Some(under.credentials_name().clone());
            return lent;
        }
        let own = self.configuration_literal(mirror);
        if let Some(own) = own.filter(|_| under.is_measured() && !under.says_who()) {
            lent.registry = lent.registry.with_credentials_of(&own.registry);
            lent.lender = Some(own.name);
        }
        lent
    }

    /// What holds for a proxy that an entry names itself. Who stands between is not who is spoken
    /// to: all that goes through a proxy is what would go without one, so the host may vouch for
    /// its own.
    pub fn proxy(&self, host: &RegistryHost) -> Option<Authority> {
        self.measured_literal(host).or_else(|| self.configuration_literal(host))
    }

    fn measured_literal(&self, host: &RegistryHost) -> Option<Authority> {
        let (key, entry) = self.measured.document.registries.literal_entry_for(host)?;
        Some(self.entry(Origin::Measured, key, entry, host))
    }

    /// Nothing in a pull with confidential credentials.
    fn configuration_literal(&self, host: &RegistryHost) -> Option<Authority> {
        if self.is_confidential {
            return None;
        }
        let registries = &self.configuration.document.registries;
        let (key, entry) = registries.literal_entry_for(host)?;
        Some(self.entry(Origin::Host, key, entry, host))
    }

    fn entry(
        &self,
        origin: Origin,
        key: &RegistryName,
        entry: &Registry,
        host: &RegistryHost,
    ) -> Authority {
        let name = EntryName::Entry(key.clone(), origin);
        let mut authority = Authority::new(name, entry.clone());
        if let Some(fetched) = self.fetched_roots.as_ref().filter(|fetched| fetched.0 == *host) {
            authority.registry.ca_certs_uri = None;
            authority.registry.ca_certs = Some(fetched.1.clone());
            authority.has_fetched_roots = true;
        }
        authority
    }

    /// The proxies: the measured document's, where it has the table, even an empty one, or else the
    /// host's. They stay in every pull.
    pub fn proxies(&self) -> &ExtraEnv {
        let measured = &self.measured.document;
        if measured.has_extra_env {
            &measured.extra_env
        } else {
            &self.configuration.document.extra_env
        }
    }

    /// What an encrypted image is opened with, and where that stands: the owner's first, and of
    /// each document those for fewer images first. Keys for other repositories are not among them.
    /// The host's stay in every pull: a key opens what it opens, and sends nothing anywhere.
    pub fn decryption_keys(
        &self,
        host: &RegistryHost,
        repository: &str,
    ) -> impl Iterator<Item = PlacedKey<'_>> {
        [Origin::Measured, Origin::Host].into_iter().flat_map(move |origin| {
            let keys = &self.file(origin).document.decryption_keys;
            let lists = keys.lists(host, repository).flat_map(move |(table, keys)| {
                keys.iter().zip(1..).map(move |(key, number)| PlacedKey {
                    origin,
                    table,
                    number,
                    key,
                })
            });
            lists.collect::<Vec<_>>()
        })
    }

    /// Which content images have by their names, which the owner alone says; and the document that
    /// says it.
    pub fn pins(&self) -> (&Pins, &Path) {
        (&self.measured.document.pins, &self.measured.path)
    }

    /// Which signatures images need, which the owner alone says.
    pub fn image_policy(&self) -> Option<&ImagePolicy> {
        self.measured.document.image_policy.as_ref()
    }

    /// Where references are resolved, which the owner alone says.
    pub fn resources(&self) -> Option<&Resources> {
        self.measured.document.resources.as_ref()
    }

    /// What the event log keeps of the host's document: a hash without its secrets, or "none".
    pub fn record(&self) -> String {
        match self.configuration.is_present {
            true => self.configuration.document.record(),
            false => "none".to_owned(),
        }
    }
}
