//! The way to the sources of an image, for who keeps nothing of it: there is no store, and the
//! event log of a guest learns nothing.

use std::sync::Arc;

use oci_image::digest::Unverified;
use oci_image::named::NamedReference;
use oci_image::platform::Platform;
use pull_route::{Route, Settings};
use registry_client::registry::Registry;
use registry_client::{Documents, Patience};
use registry_config::RegistryHost;

use super::asked::Asked;
use super::clock;
use super::known_accounts::KnownAccounts;
use super::policy::{Gate, PolicyPlace};
use super::secrets::Secrets;
use super::sources::Sources;
use crate::blocking::blocking;
use crate::error::Error;
use crate::reasons::Reasons;
use crate::watch::silent;

/// The documents as they were at one moment.
#[derive(Debug)]
pub struct Visit {
    pub(super) settings: Settings,
    policies: PolicyPlace,
    secrets: Secrets,
    pub(super) platform: Platform,
}

impl Visit {
    /// Reads the documents.
    ///
    /// # Errors
    ///
    /// A document that is not used, or a clock that is certainly wrong.
    pub async fn load(documents: Documents, platform: Platform) -> Result<Self, Error> {
        let policies = PolicyPlace::of(&documents, None);
        let settings = blocking(move || Ok(documents.load()?)).await?;
        clock::check()?;
        Ok(Self { settings, policies, secrets: Secrets::new(None, Reasons::Told), platform })
    }

    /// What a name means by the documents.
    ///
    /// # Errors
    ///
    /// What the pins of the owner forbid.
    pub(super) fn image(&self, named: &NamedReference) -> Result<Asked, Error> {
        Asked::of(named, &self.settings)
    }

    /// The owner's image policy, for an image.
    pub(super) async fn gate(&self, asked: &Asked) -> Result<Gate<'_>, Error> {
        let name = asked.name.clone();
        Gate::open(&self.policies, &self.settings, &self.secrets, name).await
    }

    /// The hosts that a pull asks, with everything that is given by reference.
    pub(super) async fn route(
        &self,
        host: &RegistryHost,
        repository: &str,
    ) -> Result<Route, Error> {
        self.settings.plan(host, repository)?.check_allowed()?;
        let settled = self.secrets.settle(self.settings.clone(), host, repository);
        settled.await
    }
}

/// The sources of a route, of which nothing is known from before.
pub(super) fn sources(route: &Route, repository: &str, patience: Patience) -> Sources {
    let known = Arc::new(KnownAccounts::default());
    let plain = Arc::default();
    Sources::new(route, repository, patience, silent, known, &plain)
}

/// What a registry has under a tag.
pub(super) async fn by_tag(registry: &Registry, tag: &str) -> Result<Unverified, Error> {
    Ok(registry.tag(tag).await?)
}
