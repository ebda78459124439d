//! Fetches what only the guest may see, by reference: the credentials and the roots of one pull.

use cdh_client::REQUEST_LIMIT;
use docker_config::DockerConfig;
use pull_route::{Route, Settings};
use registry_config::{RegistryHost, ResourceSource, ResourceUri, Roots};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::reasons::Reasons;

mod memory;

use memory::Memory;
pub use memory::Text;

/// The secrets of all pulls, and what was said of image policies.
#[derive(Debug)]
pub struct Secrets {
    /// The source where the measured document names none.
    otherwise: Option<ResourceSource>,
    reasons: Reasons,
    memory: Memory,
}

impl Secrets {
    /// Connects to no source yet.
    pub fn new(otherwise: Option<ResourceSource>, reasons: Reasons) -> Self {
        Self { otherwise, reasons, memory: Memory::default() }
    }

    /// The one source of a pull, by its settings.
    fn source<'s>(&'s self, settings: &'s Settings) -> Option<&'s ResourceSource> {
        let named = settings.resources().and_then(|resources| resources.source.as_ref());
        named.or(self.otherwise.as_ref())
    }

    /// Fetches what a document or an image names.
    pub async fn fetch(
        &self,
        reference: &ResourceUri,
        settings: &Settings,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let source = self.source(settings);
        let fetched = cdh_client::resource(source, reference, REQUEST_LIMIT).await;
        fetched.map_err(|error| self.failed(&reference.to_string(), error))
    }

    /// Fetches what an image policy consists of, and keeps what is of use for the pulls of this
    /// boot: a cached image needs no CDH. What one source gave is not for another one's pulls.
    /// `unfit` says why a text is of no use.
    pub async fn remembered(
        &self,
        reference: &ResourceUri,
        settings: &Settings,
        unfit: impl Fn(&[u8]) -> Option<String>,
    ) -> Result<Text, Error> {
        let source = self.source(settings);
        let kept = self.memory.find(source, reference);
        let is_new = kept.is_none();
        let text = match kept {
            Some(text) => text,
            None => Text::new(self.fetch(reference, settings).await?),
        };
        if let Some(why) = unfit(&text) {
            return Err(self.withhold(&reference.to_string(), &why));
        }
        if is_new {
            self.memory.keep(source, reference, text.clone());
        }
        Ok(text)
    }

    /// Has a packet opened by the CDH; `name` is what errors call it.
    pub async fn unwrap(
        &self,
        packet: &[u8],
        name: &str,
        settings: &Settings,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let source = self.source(settings);
        let unwrapped = cdh_client::unwrap_packet(source, packet, REQUEST_LIMIT).await;
        unwrapped.map_err(|error| self.failed(name, error))
    }

    /// The error of a pull for which what a reference names is of no use. Why stays in the guest.
    pub fn withhold(&self, reference: &str, why: &str) -> Error {
        self.reasons.withhold(reference, why)
    }

    fn failed(&self, reference: &str, error: cdh_client::Error) -> Error {
        match error.is_about_resource() {
            true => self.withhold(reference, &error.to_string()),
            false => error.into(),
        }
    }

    /// The route of one pull, with what the documents name by reference put in. A reference that
    /// cannot be had ends the pull: there is no falling back to credentials that the host gives,
    /// nor to none.
    pub async fn settle(
        &self,
        settings: Settings,
        registry: &RegistryHost,
        repository: &str,
    ) -> Result<Route, Error> {
        let plan = settings.plan(registry, repository)?;
        let unread = |key: &str, reference: &ResourceUri, rule: &str| {
            let entry = match key {
                "credentials-uri" => plan.authority().credentials_name().to_string(),
                _ => plan.authority().to_string(),
            };
            let why = format!("what {key:?} of {entry} names {rule}");
            self.withhold(&reference.to_string(), &why)
        };
        let roots = match plan.ca_certs_uri() {
            Some(reference) => {
                let text = self.fetch(reference, &settings).await?;
                let roots = std::str::from_utf8(&text).ok();
                let roots = roots.and_then(|text| Roots::parse(text).ok());
                // A text without a certificate forbids a registry; here it is another secret than
                // the one that was meant.
                let roots = roots.filter(|roots| !roots.trusts_nobody());
                Some(roots.ok_or_else(|| {
                    unread("ca-certs-uri", reference, "is no list of PEM certificates")
                })?)
            }
            None => None,
        };
        let fetched = match plan.credentials_uri() {
            Some(reference) => {
                let text = self.fetch(reference, &settings).await?;
                // The error does not even say where parsing stopped: an attacker may have named
                // another secret in order to measure it.
                Some(DockerConfig::parse(&text).map_err(|error| {
                    let error = error.without_place();
                    let rule = format!("is no docker configuration: {error}");
                    unread("credentials-uri", reference, &rule)
                })?)
            }
            None => None,
        };
        let reference = plan.credentials_uri().cloned();
        plan.fill(fetched.as_ref(), roots).map_err(|error| match (&error, reference) {
            (pull_route::Error::UnfitCredentials { .. }, Some(reference)) => {
                self.withhold(&reference.to_string(), &error.to_string())
            }
            _ => error.into(),
        })
    }
}
