//! The sources in their order.

use std::sync::Arc;

use puller_config::{ResourceUri, Resources};
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use crate::attester::Attester;
use crate::error::{Error, Failure, Fault};
use crate::limits::Limits;
use crate::source::Source;

/// Everything that can be asked for a secret.
///
/// A client may be shared: what it learns, a broker's session, serves the next request too.
#[derive(Debug)]
pub struct Client {
    sources: Vec<Source>,
    limits: Limits,
}

impl Client {
    /// A client for the sources of `[resources]`; nothing is asked yet. Of the attesters, the one
    /// that `[resources]` names is asked for evidence.
    ///
    /// # Errors
    ///
    /// [`Error::Source`] where a source cannot be used, or the attester is not among these.
    pub fn new(
        resources: &Resources,
        attesters: &[Arc<dyn Attester>],
        limits: Limits,
    ) -> Result<Self, Error> {
        let attester = match resources.kbs_attester {
            None => None,
            Some(kind) => Some(named(&kind.to_string(), attesters)?),
        };
        let prepare = |source| Source::new(source, resources, attester, limits);
        let sources = resources.sources.iter().map(prepare);
        Ok(Self {
            sources: sources.collect::<Result<_, _>>()?,
            limits,
        })
    }

    /// Gets a resource of 1 to [`crate::MAX_RESOURCE_BYTES`] bytes from the first source that has
    /// it.
    ///
    /// # Errors
    ///
    /// [`Error::NotConfigured`], or [`Error::Unavailable`] with what each source said.
    pub async fn resource(&self, uri: &ResourceUri) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.resolve(uri, self.deadline()).await
    }

    /// When what begins now has to be over.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.limits.whole
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
                    let why = fault.inside();
                    tracing::warn!(%uri, source = source.name(), %why, "a source did not give a \
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

fn named<'a>(
    name: &str,
    attesters: &'a [Arc<dyn Attester>],
) -> Result<&'a Arc<dyn Attester>, Error> {
    let mut attesters = attesters.iter();
    let found = attesters.find(|attester| attester.name() == name);
    found.ok_or_else(|| Error::Source {
        source_name: format!("attester {name}"),
        reason: "this program does not have it".to_owned(),
    })
}
