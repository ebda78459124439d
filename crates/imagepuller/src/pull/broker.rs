//! Fetches what only the guest may see, by reference: the credentials and the roots of one pull.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use docker_config::DockerConfig;
use kbs_client::{Client, Limits, Sources};
use pull_route::{Route, Settings};
use puller_config::{RegistryHost, ResourceUri, Resources, Roots};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::reasons::Reasons;

mod memory;

use memory::Memory;
pub use memory::Text;

/// The sources of secrets. The last ones are kept with their sessions for later pulls.
#[derive(Debug)]
pub struct Broker {
    /// The sources to use where the measured document names none.
    otherwise: Resources,
    /// What a key broker gets with the evidence.
    initdata: Option<PathBuf>,
    reasons: Reasons,
    last: Mutex<Option<Arc<Asked>>>,
}

/// Whom pulls ask, and what was said of image policies.
#[derive(Debug)]
struct Asked {
    resources: Resources,
    sources: Arc<Sources>,
    memory: Memory,
}

/// The secrets of one pull, which come from one source.
#[derive(Debug)]
pub struct Secrets<'a> {
    broker: &'a Broker,
    client: OnceLock<(Client, Arc<Asked>)>,
}

impl Broker {
    /// Connects to no source yet.
    pub fn new(otherwise: Resources, initdata: Option<PathBuf>, reasons: Reasons) -> Self {
        Self { otherwise, initdata, reasons, last: Mutex::default() }
    }

    /// The secrets of a pull that begins.
    pub fn secrets(&self) -> Secrets<'_> {
        Secrets { broker: self, client: OnceLock::new() }
    }

    /// The sources by what the settings say now.
    fn asked(&self, settings: &Settings) -> Result<Arc<Asked>, Error> {
        let resources = settings.resources().unwrap_or(&self.otherwise);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(asked) = last.as_ref().filter(|last| last.resources == *resources) {
            return Ok(asked.clone());
        }
        let sources = Sources::new(resources, self.initdata.as_deref(), Limits::default())?;
        let asked = Arc::new(Asked {
            resources: resources.clone(),
            sources: Arc::new(sources),
            memory: Memory::default(),
        });
        *last = Some(asked.clone());
        Ok(asked)
    }
}

impl Secrets<'_> {
    /// Fetches what a document or an image names.
    pub async fn fetch(
        &self,
        reference: &ResourceUri,
        settings: &Settings,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let fetched = self.client(settings)?.0.resource(reference).await;
        fetched.map_err(|error| self.failed(&reference.to_string(), error))
    }

    /// Fetches what an image policy consists of, and keeps what is of use for the pulls of this
    /// boot: a cached image needs no broker. A pull that uses what was kept keeps to the source
    /// that it came from. `unfit` says why a text is of no use.
    pub async fn remembered(
        &self,
        reference: &ResourceUri,
        settings: &Settings,
        unfit: impl Fn(&[u8]) -> Option<String>,
    ) -> Result<Text, Error> {
        let (client, asked) = self.client(settings)?;
        let kept = match asked.memory.find(reference) {
            Some((Some(origin), text)) => client.keep_to(origin).await.then_some(text),
            Some((None, text)) => Some(text),
            None => None,
        };
        let is_new = kept.is_none();
        let text = match kept {
            Some(text) => text,
            None => Text::new(self.fetch(reference, settings).await?),
        };
        if let Some(why) = unfit(&text) {
            return Err(self.withhold(&reference.to_string(), &why));
        }
        if is_new {
            let origin = client.origin().await;
            asked.memory.keep(reference, origin, text.clone());
        }
        Ok(text)
    }

    /// Has a packet opened by a data hub; `name` is what errors call it.
    pub async fn unwrap(
        &self,
        packet: &[u8],
        name: &str,
        settings: &Settings,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let unwrapped = self.client(settings)?.0.unwrap(packet).await;
        unwrapped.map_err(|error| self.failed(name, error))
    }

    /// The error of a pull for which what a reference names is of no use. Why stays in the guest.
    pub fn withhold(&self, reference: &str, why: &str) -> Error {
        self.broker.reasons.withhold(reference, why)
    }

    fn failed(&self, reference: &str, error: kbs_client::Error) -> Error {
        match error.is_about_resource() {
            true => self.withhold(reference, &error.inside()),
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
                let roots = roots.ok_or_else(|| {
                    unread("ca-certs-uri", reference, "is no list of PEM certificates")
                })?;
                let ignores_dates = plan.authority().registry.ignores_ca_dates;
                Some(if ignores_dates { roots.without_dates() } else { roots })
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

    /// The client of this pull, whose settings are the same each time.
    fn client(&self, settings: &Settings) -> Result<&(Client, Arc<Asked>), Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let asked = self.broker.asked(settings)?;
        Ok(self.client.get_or_init(|| (Client::new(asked.sources.clone()), asked)))
    }
}
