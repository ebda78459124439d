//! The configuration of one pull: the documents as they are now, and who is in charge of a registry
//! by them.
//!
//! There may be two. The *measured* one is the word of the guest's owner, who vouched for it when
//! the guest was measured; the *configuration* is the host's. Where both speak about a host, the
//! measured one does alone, however wide its entry is.

use std::path::PathBuf;
use std::sync::Arc;

use puller_config::{
    DecryptionKey, Document, EventLog, ExtraEnv, Match, Moment, Origin, Registry, RegistryHost,
    RegistryName, Resources, Roots,
};

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
}

impl Settings {
    /// The documents as they are now, the owner's first. Nothing is fetched yet.
    pub fn new(measured: PlacedDocument, configuration: PlacedDocument) -> Self {
        Self {
            measured,
            configuration,
            is_confidential: false,
            fetched_roots: None,
        }
    }

    /// What holds for the registry that an image names.
    pub fn registry(&self, host: &RegistryHost) -> Authority {
        if let Match::Entry { key, entry, .. } = self.measured.document.registries.entry_for(host) {
            return self.entry(Origin::Measured, key, entry, host);
        }
        match self.configuration.document.registries.entry_for(host) {
            Match::Entry { key, entry, .. } => self.entry(Origin::Host, key, entry, host),
            Match::Defaults => Authority::new(self.no_entry(), Registry::default()),
        }
    }

    fn no_entry(&self) -> EntryName {
        let files = [&self.configuration, &self.measured];
        let present = files.into_iter().filter(|file| file.is_present);
        let paths: Vec<_> = present.map(|file| file.path.clone()).collect();
        if paths.is_empty() {
            EntryName::NoDocument(self.configuration.path.clone())
        } else {
            EntryName::NoEntry(paths)
        }
    }

    /// The entries that match a host: who wrote each, and its name. The first one is in charge.
    pub fn matches(&self, host: &RegistryHost) -> impl Iterator<Item = (Origin, &RegistryName)> {
        let files = [
            (Origin::Measured, &self.measured),
            (Origin::Host, &self.configuration),
        ];
        files.into_iter().flat_map(|(origin, file)| {
            let matches = file.document.registries.matches(host);
            matches
                .map(move |(name, _)| (origin, name))
                .collect::<Vec<_>>()
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
            return Some(own);
        }
        let measured = self.measured.document.registries.entry_for(host);
        if under.is_measured() || matches!(measured, Match::Entry { .. }) {
            return None;
        }
        self.configuration_literal(host)
    }

    /// What holds for a proxy that an entry names itself. Who stands between is not who is spoken
    /// to: all that goes through a proxy is what would go without one, so the host may vouch for
    /// its own.
    pub fn proxy(&self, host: &RegistryHost) -> Option<Authority> {
        self.measured_literal(host)
            .or_else(|| self.configuration_literal(host))
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
        if let Some(fetched) = self
            .fetched_roots
            .as_ref()
            .filter(|fetched| fetched.0 == *host)
        {
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

    /// What encrypted images are opened with, and who wrote it; the owner's first. The host's stay
    /// in every pull: a key opens what it opens, and sends nothing anywhere.
    pub fn decryption_keys(&self) -> impl Iterator<Item = (Origin, &DecryptionKey)> {
        let files = [
            (Origin::Measured, &self.measured),
            (Origin::Host, &self.configuration),
        ];
        files.into_iter().flat_map(|(origin, file)| {
            let keys = file.document.decryption_keys.iter();
            keys.map(move |key| (origin, key))
        })
    }

    /// Before when nothing is pulled, which the owner alone says.
    pub fn clock_not_before(&self) -> Option<&Moment> {
        self.measured.document.clock_not_before.as_ref()
    }

    /// Where references are resolved, which the owner alone says.
    pub fn resources(&self) -> Option<&Resources> {
        self.measured.document.resources.as_ref()
    }

    /// Whether pulls have to be in the guest's event log, which the owner alone says.
    pub fn event_log(&self) -> EventLog {
        self.measured.document.event_log.unwrap_or_default()
    }

    /// What the event log keeps of the host's document: a hash without its secrets, or "none".
    pub fn record(&self) -> String {
        match self.configuration.is_present {
            true => self.configuration.document.record(),
            false => "none".to_owned(),
        }
    }
}
