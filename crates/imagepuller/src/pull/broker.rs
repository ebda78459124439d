//! Fetches what only the guest may see, by reference: the credentials and the roots of one pull.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use docker_config::DockerConfig;
use kbs_client::{Client, Limits, Sources};
use pull_route::{Route, Settings};
use puller_config::{RegistryHost, ResourceUri, Resources, Roots, SecretReference};
use zeroize::Zeroizing;

use crate::error::Error;

/// The sources of secrets. The last ones are kept with their sessions for later pulls.
#[derive(Debug)]
pub struct Broker {
    /// The sources to use where the measured document names none.
    otherwise: Resources,
    /// What a key broker gets with the evidence.
    initdata: Option<PathBuf>,
    last: Mutex<Option<(Resources, Arc<Sources>)>>,
}

/// The secrets of one pull, which come from one source.
#[derive(Debug)]
pub struct Secrets<'a> {
    broker: &'a Broker,
    client: OnceLock<Client>,
}

impl Broker {
    /// Connects to no source yet.
    pub fn new(otherwise: Resources, initdata: Option<PathBuf>) -> Self {
        Self {
            otherwise,
            initdata,
            last: Mutex::default(),
        }
    }

    /// The secrets of a pull that begins.
    pub fn secrets(&self) -> Secrets<'_> {
        Secrets {
            broker: self,
            client: OnceLock::new(),
        }
    }

    /// The sources by what the settings say now.
    fn sources(&self, settings: &Settings) -> Result<Arc<Sources>, Error> {
        let resources = settings.resources().unwrap_or(&self.otherwise);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, sources)) = last.as_ref().filter(|(asked, _)| asked == resources) {
            return Ok(sources.clone());
        }
        let sources = Sources::new(resources, self.initdata.as_deref(), Limits::default())?;
        let sources = Arc::new(sources);
        *last = Some((resources.clone(), sources.clone()));
        Ok(sources)
    }
}

impl Secrets<'_> {
    /// Fetches what a document names.
    pub async fn fetch(
        &self,
        reference: &SecretReference,
        settings: &Settings,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        Ok(self.client(settings)?.reference(reference).await?)
    }

    /// Fetches a resource of a key broker.
    pub async fn resource(
        &self,
        uri: &ResourceUri,
        settings: &Settings,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        Ok(self.client(settings)?.resource(uri).await?)
    }

    /// Has a packet opened by a data hub.
    pub async fn unwrap(
        &self,
        packet: &[u8],
        settings: &Settings,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        Ok(self.client(settings)?.unwrap(packet).await?)
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
        let unread = |what: &'static str, rule: String| Error::Fetched {
            what,
            authority: match what {
                "credentials-uri" => plan.authority().credentials_name().to_string(),
                _ => plan.authority().to_string(),
            },
            rule,
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
                    unread("ca-certs-uri", "is no list of PEM certificates".to_owned())
                })?;
                let ignores_dates = plan.authority().registry.ignores_ca_dates;
                Some(if ignores_dates {
                    roots.without_dates()
                } else {
                    roots
                })
            }
            None => None,
        };
        let fetched = match plan.credentials_uri() {
            Some(reference) => {
                let text = self.fetch(reference, &settings).await?;
                // The error does not even say where parsing stopped: an attacker may have named
                // another secret in order to measure it.
                Some(DockerConfig::parse(&text).map_err(|error| {
                    unread(
                        "credentials-uri",
                        format!("is no docker configuration: {}", error.without_place()),
                    )
                })?)
            }
            None => None,
        };
        Ok(plan.fill(fetched.as_ref(), roots)?)
    }

    /// The client of this pull, whose settings are the same each time.
    fn client(&self, settings: &Settings) -> Result<&Client, Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let sources = self.broker.sources(settings)?;
        Ok(self.client.get_or_init(|| Client::new(sources)))
    }
}
