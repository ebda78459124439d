//! The plan of one pull: its sources in order, each with the account and the roots that it is asked
//! with, before anything is fetched by reference.
//!
//! The host prints a plan, because it may not see what is fetched. The guest fetches what the plan
//! refers to and fills it in, and only a filled plan has sources that can be asked.
//!
//! A pull is *confidential* where the entry in charge has `credentials-uri`. The host chooses which
//! resource is fetched, answers the guest's name look-ups and stands on its network. So the secret
//! goes only where the author of the fetched docker configuration says, over TLS that the host has
//! no part in:
//!
//! - The fetched configuration has to name the registry of the image, or its mirror by the measured
//!   document.
//! - No entry of the host counts: neither CAs, unchecked certificates, plain HTTP and mirrors, nor
//!   entries for the token servers and storage hosts that the registry sends the puller to. The
//!   web's roots hold, or those that were fetched.
//! - The measured document counts, but for unchecked certificates and plain HTTP, which nobody
//!   wants for a secret.
//! - The proxies of either document count: all that passes them is TLS to the other end.

mod filling;
mod making;

use registry_config::{RegistryHost, ResourceUri};
use url::Url;

use crate::account::Account;
use crate::error::Error;
use crate::reason::Reason;
use crate::settings::{Authority, Settings};
use crate::source::Source;

/// The sources of a registry's images, before anything is fetched.
#[derive(Clone, Debug)]
pub struct Plan {
    settings: Settings,
    host: RegistryHost,
    repository: String,
    /// The entry in charge, as far as it counts.
    authority: Authority,
    /// Asked first, in this order.
    mirrors: Vec<Step>,
    /// The registry itself, whether it is asked or not.
    registry: Step,
}

/// A source that has no credentials yet.
#[derive(Clone, Debug)]
pub struct Step {
    pub(crate) source: Source,
    account: Account,
    is_own_entry: bool,
}

/// The sources that a pull asks.
#[derive(Debug)]
pub struct Route {
    /// The documents, as they count for the hosts that the sources send the puller to.
    pub settings: Settings,
    /// The sources, first choice first.
    pub sources: Vec<Source>,
}

impl Plan {
    /// The reference to the docker configuration that has to be fetched.
    pub fn credentials_uri(&self) -> Option<&ResourceUri> {
        self.authority.credentials_entry().credentials_uri.as_ref()
    }

    /// The reference to the roots that have to be fetched.
    pub fn ca_certs_uri(&self) -> Option<&ResourceUri> {
        self.authority.registry.ca_certs_uri.as_ref()
    }

    /// The entry in charge of the registry, as far as it counts in this pull.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The repository of the image.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The documents as they count in this pull.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The mirrors that have the repository, which are asked first, in this order.
    pub fn mirrors(&self) -> &[Step] {
        &self.mirrors
    }

    /// The registry itself.
    pub fn registry(&self) -> &Step {
        &self.registry
    }

    /// Whether the registry itself is asked.
    pub fn is_registry_asked(&self) -> bool {
        self.mirrors.is_empty() || self.authority.registry.falls_back(&self.repository)
    }

    /// Refuses where each host that this plan asks is forbidden, also for an image that nobody has
    /// to be asked for.
    ///
    /// # Errors
    ///
    /// [`Error::Forbidden`], of the first host.
    pub fn check_allowed(&self) -> Result<(), Error> {
        let registry = self.is_registry_asked().then_some(&self.registry);
        let steps = self.mirrors.iter().chain(registry);
        let mut refused = None;
        for step in steps {
            match step.authority().check_roots() {
                // What is fetched is not known yet.
                Err(_) => return Ok(()),
                Ok(()) => match step.authority().check_allowed(&step.source.host()) {
                    Ok(()) => return Ok(()),
                    Err(error) => refused = refused.or(Some(error)),
                },
            }
        }
        refused.map_or(Ok(()), Err)
    }
}

impl Step {
    /// The name under which the source has the repository.
    pub fn repository(&self) -> Option<&str> {
        self.source.repository.as_deref()
    }

    /// The address: scheme, host, port and the path before `/v2/`.
    pub fn url(&self) -> &Url {
        &self.source.base
    }

    /// What holds for this host.
    pub fn authority(&self) -> &Authority {
        &self.source.authority
    }

    /// Who the puller is there.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Whether the entry that holds is the host's own. Otherwise it is lent by the entry that names
    /// the mirror.
    pub fn is_own_entry(&self) -> bool {
        self.is_own_entry
    }

    /// Whether it is the registry itself, perhaps in the place of a mirror.
    fn is_registry(&self) -> bool {
        self.source.namespace.is_none()
    }

    /// Why credentials are kept back where the source is asked over plain HTTP.
    pub fn kept_back(&self) -> Option<Reason> {
        let has_account = !matches!(self.account, Account::Anonymous(_));
        let is_plain = match self.source.is_scheme_fixed {
            true => self.url().scheme() == "http",
            false => self.source.may_be_plain(),
        };
        (has_account && is_plain && !self.source.may_tell("http"))
            .then(|| Reason::NotInClear(self.source.authority.name.clone()))
    }
}
