//! The sources in their order.

use std::sync::Arc;
use std::time::Duration;

use puller_config::{ResourceUri, Resources, SecretReference};
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use crate::attester::Attester;
use crate::error::{Error, Failure, Fault};
use crate::sealed;
use crate::source::{self, Source};

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One request with its whole answer.
    pub request: Duration,
    /// All that one secret needs: each source, and for a sealed one several resources.
    pub whole: Duration,
}

/// 20 seconds for a request and 60 for the whole. The data hub itself waits 50 seconds for a
/// broker; a broker that needs as long is better asked again by the next pull.
impl Default for Limits {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(20),
            whole: Duration::from_secs(60),
        }
    }
}

/// Everything that can be asked for a secret.
///
/// A client may be shared: what it learns, a broker's session, serves the next request too.
#[derive(Debug)]
pub struct Client {
    sources: Vec<Source>,
    limits: Limits,
}

impl Client {
    /// A client for the sources of `[resources]`; nothing is asked yet.
    ///
    /// # Errors
    ///
    /// [`Error::Source`] where one cannot be used.
    pub fn new(resources: &Resources, limits: Limits) -> Result<Self, Error> {
        let attester = source::attester(resources.kbs_attester)?;
        Self::build(resources, attester, limits)
    }

    /// The same with an attester that `[resources]` has no name for.
    ///
    /// # Errors
    ///
    /// As with [`Client::new`].
    pub fn with_attester(
        resources: &Resources,
        attester: Arc<dyn Attester>,
        limits: Limits,
    ) -> Result<Self, Error> {
        Self::build(resources, Some(attester), limits)
    }

    fn build(
        resources: &Resources,
        attester: Option<Arc<dyn Attester>>,
        limits: Limits,
    ) -> Result<Self, Error> {
        let prepare = |source| Source::new(source, resources, attester.as_ref(), limits);
        Ok(Self {
            sources: resources
                .sources
                .iter()
                .map(prepare)
                .collect::<Result<_, _>>()?,
            limits,
        })
    }

    /// Gets a resource, 1 to [`crate::MAX_RESOURCE_BYTES`] bytes of it, from the first source that
    /// has it.
    ///
    /// # Errors
    ///
    /// [`Error::NotConfigured`], or [`Error::Unavailable`] with what each source said.
    pub async fn resource(&self, uri: &ResourceUri) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.resolve(uri, Instant::now() + self.limits.whole).await
    }

    /// Gets the secret that a reference stands for: a resource, or what is in a sealed secret.
    ///
    /// # Errors
    ///
    /// As with [`Client::resource`], and [`Error::Sealed`].
    pub async fn reference(
        &self,
        reference: &SecretReference,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let deadline = Instant::now() + self.limits.whole;
        match reference {
            SecretReference::Resource(uri) => self.resolve(uri, deadline).await,
            SecretReference::Sealed(text) => Ok(sealed::open(self, text.expose(), deadline).await?),
        }
    }

    /// Asks one source after the other until `deadline`.
    pub(crate) async fn resolve(
        &self,
        uri: &ResourceUri,
        deadline: Instant,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        if self.sources.is_empty() {
            return Err(Error::NotConfigured { uri: uri.clone() });
        }
        let mut failures = Vec::new();
        for source in &self.sources {
            let answer = timeout_at(deadline, source.fetch(uri)).await;
            let is_over = answer.is_err();
            match answer.unwrap_or(Err(Fault::OutOfTime(self.limits.whole))) {
                Ok(resource) => {
                    tracing::info!(%uri, source = source.name(), "got a resource");
                    return Ok(resource);
                }
                Err(fault) => {
                    tracing::warn!(%uri, source = source.name(), %fault, "a source did not give a \
                    resource");
                    let source = source.name().to_owned();
                    failures.push(Failure { source, fault });
                }
            }
            if is_over {
                break;
            }
        }
        Err(Error::Unavailable {
            uri: uri.clone(),
            failures,
        })
    }
}
