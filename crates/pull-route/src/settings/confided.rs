//! A pull with credentials that were fetched confidentially, and what the host's document may still
//! say in it: its proxies.
//!
//! The host chooses which resource is fetched, answers the guest's name look-ups and stands on its
//! network. So the secret goes only where whoever wrote the *fetched* document says, over TLS that
//! the host has no part in:
//!
//! - The registry of the image, or its mirror by the measured document, has to be named in the
//!   fetched document.
//! - Of the host's document all entries are gone: CAs, unchecked certificates, plain HTTP, mirrors,
//!   and entries for the token servers and storage hosts that the registry sends the puller to. The
//!   web's roots hold, or those that were fetched.
//! - The measured document stays, but for unchecked certificates and plain HTTP, which are nobody's
//!   wish for a secret.
//! - The proxies of either document stay: all that passes them is TLS to the other end.

use std::sync::Arc;

use docker_config::DockerConfig;
use puller_config::{Credentials, Registry, RegistryHost, Roots};

use super::{Authority, Settings};
use crate::error::Error;

/// What holds in such a pull.
#[derive(Debug)]
pub(super) struct Confided {
    /// Whose images are pulled.
    pub(super) host: RegistryHost,
    /// What holds there.
    pub(super) authority: Authority,
    /// What holds for the measured mirror, if there is one.
    pub(super) mirror: Option<Authority>,
}

impl Settings {
    /// The settings for the pull of one repository with credentials that were fetched by the
    /// `credentials-uri` of the entry for its registry, and with CAs that were fetched by
    /// `ca-certs-uri`.
    ///
    /// A mirror of the measured entry is asked with the credentials of its own measured entry, or
    /// else with what the fetched document has for the mirror's own name, or else anonymously.
    /// Nothing is lent to it.
    ///
    /// # Errors
    ///
    /// [`Error::NotConfided`] unless the fetched document has credentials for the registry, or for
    /// the mirror where only that is asked; [`Error::ConfidedPlain`] for a mirror over plain HTTP.
    /// [`Error::Internal`] where the entry has no such reference, or where its CAs were not
    /// fetched.
    pub fn confided(
        &self,
        fetched: DockerConfig,
        roots: Option<Roots>,
        host: &RegistryHost,
        repository: &str,
    ) -> Result<Self, Error> {
        let entry = self.registry(host);
        if entry.registry.credentials_uri.is_none() {
            let rule = format!("{entry} has no \"credentials-uri\"");
            return Err(Error::Internal(rule));
        }
        if entry.registry.ca_certs_uri.is_some() && roots.is_none() {
            let rule = format!("\"ca-certs-uri\" of {entry} was not fetched");
            return Err(Error::Internal(rule));
        }
        let fetched = Fetched {
            config: fetched,
            entry: entry.to_string(),
            repository,
        };
        let mut authority = bare(&entry);
        authority.registry.credentials_uri = None;
        authority.registry.ca_certs_uri = None;
        if let Some(roots) = roots {
            authority.registry.ca_certs = Some(roots);
            authority.has_fetched_roots = true;
        }
        let mirror = match authority.registry.mirror.clone() {
            None => None,
            Some(mirror) if mirror.is_plain_http() => {
                return Err(Error::ConfidedPlain {
                    host: mirror.host().to_string(),
                    authority: entry.to_string(),
                });
            }
            Some(mirror) => Some(self.confided_mirror(&fetched, &authority, mirror.host())?),
        };
        let is_asked = mirror.is_none() || authority.registry.mirror_fallback;
        if is_asked {
            let credentials = fetched.credentials(host)?;
            authority.put(credentials.ok_or_else(|| fetched.not_for(host))?);
        }
        Ok(Self {
            confided: Some(Arc::new(Confided {
                host: host.clone(),
                authority,
                mirror,
            })),
            rooted: None,
            ..self.clone()
        })
    }

    /// What holds for a mirror of the entry `under`, of which CAs are lent but no credentials.
    fn confided_mirror(
        &self,
        fetched: &Fetched<'_>,
        under: &Authority,
        host: &RegistryHost,
    ) -> Result<Authority, Error> {
        let own = self.measured_literal(host);
        let must_be_named = own
            .as_ref()
            .is_some_and(|own| own.registry.credentials_uri.is_some());
        let mut authority = match &own {
            Some(own) if own.registry.ca_certs_uri.is_some() => {
                return Err(own.mirror_reference(host, "ca-certs-uri"));
            }
            Some(own) => bare(own),
            None => under.clone(),
        };
        authority.registry.credentials_uri = None;
        if let Some(own) = own.filter(|own| !own.registry.credentials.is_anonymous()) {
            authority.registry.credentials = own.registry.credentials;
            return Ok(authority);
        }
        match fetched.credentials(host)? {
            Some(credentials) => authority.put(credentials),
            // The only one that is asked, or one whose entry says that there are credentials.
            None if must_be_named || !under.registry.mirror_fallback => {
                return Err(fetched.not_for(host));
            }
            None => {}
        }
        Ok(authority)
    }
}

impl Authority {
    fn put(&mut self, credentials: Credentials) {
        self.registry.credentials = credentials;
        self.has_fetched_credentials = true;
    }

    /// What holds for a mirror by its own name would have to be fetched first.
    pub(super) fn mirror_reference(&self, mirror: &RegistryHost, key: &'static str) -> Error {
        Error::MirrorReference {
            mirror: mirror.to_string(),
            authority: self.to_string(),
            key,
        }
    }
}

/// The fetched document and what it is asked about.
struct Fetched<'a> {
    config: DockerConfig,
    /// The entry with the reference, in words.
    entry: String,
    repository: &'a str,
}

impl Fetched<'_> {
    fn credentials(&self, host: &RegistryHost) -> Result<Option<Credentials>, Error> {
        let found = self.config.credentials_for(host, self.repository);
        found.map_err(|unfit| self.error(host, unfit.to_string()))
    }

    fn not_for(&self, host: &RegistryHost) -> Error {
        let rule = "it has no entry for that registry and repository; write one into it under the \
        registry's own name";
        self.error(host, rule.to_owned())
    }

    fn error(&self, host: &RegistryHost, rule: String) -> Error {
        Error::NotConfided {
            registry: host.to_string(),
            authority: self.entry.clone(),
            rule,
        }
    }
}

/// What is left of an entry in such a pull, without credentials: of one that the host wrote, its
/// name.
pub(super) fn bare(entry: &Authority) -> Authority {
    let registry = match entry.is_measured() {
        true => Registry {
            credentials_uri: entry.registry.credentials_uri.clone(),
            ca_certs: entry.registry.ca_certs.clone(),
            ca_certs_uri: entry.registry.ca_certs_uri.clone(),
            mirror: entry.registry.mirror.clone(),
            mirror_fallback: entry.registry.mirror_fallback,
            ..Registry::default()
        },
        false => Registry::default(),
    };
    Authority {
        is_confided: true,
        ..Authority::new(entry.name.clone(), registry)
    }
}
