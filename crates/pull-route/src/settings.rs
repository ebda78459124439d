//! The configuration of one pull: the documents as they are now, and who is in charge of a registry
//! by them.
//!
//! There may be two. The *measured* one is the word of the guest's owner, who vouched for it when
//! the guest was measured; the *configuration* is the host's. Where both speak about a host, the
//! measured one does alone, however wide its entry is.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use puller_config::{
    DecryptionKey, Document, ExtraEnv, Match, Mirror, Registry, RegistryHost, RegistryName,
    Resources, Roots,
};

use self::authority::AuthorityName;
use self::confided::{Confided, bare};
use crate::error::Error;

mod authority;
mod confided;
#[cfg(test)]
mod confided_tests;
#[cfg(test)]
mod tests;

pub use self::authority::Authority;

/// Who wrote something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The guest's owner.
    Measured,
    /// The host.
    Configuration,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "the measured document",
            Self::Configuration => "the node's document",
        })
    }
}

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
    configuration: PlacedDocument,
    /// The pull that has confidential credentials.
    confided: Option<Arc<Confided>>,
    /// The host whose CAs were fetched without credentials.
    rooted: Option<Arc<(RegistryHost, Roots)>>,
}

impl Settings {
    /// The documents as they are now, the owner's first. Nothing is fetched yet.
    pub fn new(measured: PlacedDocument, configuration: PlacedDocument) -> Self {
        Self {
            measured,
            configuration,
            confided: None,
            rooted: None,
        }
    }

    /// The same with the CAs that were fetched by `ca-certs-uri` of the entry that holds for a
    /// host, if its credentials are no reference. Nothing else changes.
    #[must_use]
    pub fn with_roots(&self, host: &RegistryHost, roots: Roots) -> Self {
        Self {
            rooted: Some(Arc::new((host.clone(), roots))),
            ..self.clone()
        }
    }

    /// What holds for the registry that an image names.
    pub fn registry(&self, host: &RegistryHost) -> Authority {
        if let Some(confided) = self.confided.as_ref().filter(|one| one.host == *host) {
            return confided.authority.clone();
        }
        if let Match::Entry { key, entry, .. } = self.measured.document.registries.entry_for(host) {
            return self.entry(Origin::Measured, key, entry, host);
        }
        match self.configuration.document.registries.entry_for(host) {
            Match::Entry { key, entry, .. } => self.entry(Origin::Configuration, key, entry, host),
            Match::Defaults => Authority::new(self.no_entry(), Registry::default()),
        }
    }

    fn no_entry(&self) -> AuthorityName {
        let files = [&self.configuration, &self.measured];
        let present = files.into_iter().filter(|file| file.is_present);
        let paths: Vec<_> = present.map(|file| file.path.clone()).collect();
        if paths.is_empty() {
            AuthorityName::NoDocument(self.configuration.path.clone())
        } else {
            AuthorityName::NoEntry(paths)
        }
    }

    /// What holds for a mirror by its own name, if an entry has it that counts beside `under`, the
    /// entry that names the mirror.
    ///
    /// # Errors
    ///
    /// [`Error::MirrorReference`] where that entry's own credentials or CAs would have to be
    /// fetched.
    pub(crate) fn mirror(
        &self,
        mirror: &Mirror,
        under: &Authority,
    ) -> Result<Option<Authority>, Error> {
        if let Some(confided) = &self.confided {
            return Ok(confided.mirror.clone());
        }
        let own = self.named(mirror.host(), under);
        if let Some(own) = &own
            && let Some(key) = own.unresolved()
        {
            return Err(own.mirror_reference(mirror.host(), key));
        }
        Ok(own)
    }

    /// What holds for a host that an entry names itself, and that the source `under` sends the
    /// puller to.
    ///
    /// The host's entries count only where it is the host's entry that is in charge of the pull,
    /// and where the measured document has none for that host, be it a wide one.
    pub fn named(&self, host: &RegistryHost, under: &Authority) -> Option<Authority> {
        if let Some(own) = self.measured_literal(host) {
            let is_confided = self.confided.is_some();
            return Some(if is_confided { bare(&own) } else { own });
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
        if self.confided.is_some() {
            return None;
        }
        let registries = &self.configuration.document.registries;
        let (key, entry) = registries.literal_entry_for(host)?;
        Some(self.entry(Origin::Configuration, key, entry, host))
    }

    fn entry(
        &self,
        origin: Origin,
        key: &RegistryName,
        entry: &Registry,
        host: &RegistryHost,
    ) -> Authority {
        let name = AuthorityName::Entry(key.to_string(), origin);
        let mut authority = Authority::new(name, entry.clone());
        if let Some(rooted) = self.rooted.as_ref().filter(|rooted| rooted.0 == *host) {
            authority.registry.ca_certs_uri = None;
            authority.registry.ca_certs = Some(rooted.1.clone());
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
            (Origin::Configuration, &self.configuration),
        ];
        files.into_iter().flat_map(|(origin, file)| {
            let keys = file.document.decryption_keys.iter();
            keys.map(move |key| (origin, key))
        })
    }

    /// Where references are resolved, which the owner alone says.
    pub fn resources(&self) -> Option<&Resources> {
        self.measured.document.resources.as_ref()
    }
}
