//! The sources in their order, and the one that a pull keeps to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use puller_config::{ResourceSource, ResourceUri, Resources};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use crate::error::{Error, Failure, Fault, Others};
use crate::limits::Limits;
use crate::source::Source;
use crate::unwrap;

/// Everything that can be asked for a secret, for all pulls: what is learned, a broker's session,
/// serves the next pull too.
#[derive(Debug)]
pub struct Sources {
    /// Those that are asked in order, and behind them those of `from` alone.
    all: Vec<Source>,
    /// How many are asked in order.
    in_order: usize,
    /// What has a source of its own, and which of `all` it is.
    from: Vec<(ResourceUri, usize)>,
    /// The hubs that unwrap keys, by their sockets.
    unwrap: Vec<PathBuf>,
    limits: Limits,
}

/// Asks for the secrets of one pull.
///
/// All of them come from the source that gave the first: who keeps one source from answering for
/// one resource would otherwise mix what two owners say.
#[derive(Debug)]
pub struct Client {
    sources: Arc<Sources>,
    /// The source that gave the first. Held while that one is looked for.
    chosen: Mutex<Option<usize>>,
}

/// The source that a pull keeps to. It means something for the same [`Sources`] only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(usize);

impl Sources {
    /// The sources of `[resources]`; nothing is asked yet. A broker that gets evidence gets the
    /// text of `initdata` with it, if there is such a file then.
    ///
    /// # Errors
    ///
    /// [`Error::Source`] where a source cannot be used.
    pub fn new(
        resources: &Resources,
        initdata: Option<&Path>,
        limits: Limits,
    ) -> Result<Self, Error> {
        let mut all: Vec<&ResourceSource> = resources.sources.iter().collect();
        let mut from = Vec::new();
        for (uri, source) in &resources.from {
            // One session with each broker, however often it is named.
            let known = all.iter().position(|known| *known == source);
            from.push((uri.clone(), known.unwrap_or(all.len())));
            if known.is_none() {
                all.push(source);
            }
        }
        let prepare = |source| Source::new(source, resources, initdata, limits);
        Ok(Self {
            all: all.into_iter().map(prepare).collect::<Result<_, _>>()?,
            in_order: resources.sources.len(),
            from,
            unwrap: resources.unwrap.clone(),
            limits,
        })
    }
}

impl Client {
    /// A client for one pull.
    pub fn new(sources: Arc<Sources>) -> Self {
        Self { sources, chosen: Mutex::default() }
    }

    /// Gets a resource of 1 to [`crate::MAX_RESOURCE_BYTES`] bytes: from its own source, if it has
    /// one, else from the source that gave the pull's first secret, else from the first source
    /// that has it.
    ///
    /// # Errors
    ///
    /// [`Error::NotConfigured`], or [`Error::Unavailable`] with what each source said.
    pub async fn resource(&self, uri: &ResourceUri) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.resolve(uri, self.deadline()).await
    }

    /// The source that this pull keeps to, once one gave a secret that has no source of its own.
    pub async fn origin(&self) -> Option<Origin> {
        self.chosen.lock().await.map(Origin)
    }

    /// Keeps to the source of an answer that was kept from another pull, as if it had been asked
    /// now. False where this pull keeps to another one: then that answer is not for it.
    pub async fn keep_to(&self, origin: Origin) -> bool {
        *self.chosen.lock().await.get_or_insert(origin.0) == origin.0
    }

    /// Has a packet opened by the first hub that does, and gives the options of a layer. Where
    /// they come from says nothing about them: only what they decrypt can be verified. Hubs are no
    /// sources, and the pull's choice of one does not matter.
    ///
    /// # Errors
    ///
    /// [`Error::Wrapped`] with what each hub said.
    pub async fn unwrap(&self, packet: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
        let deadline = self.deadline();
        let limits = self.sources.limits;
        let mut failures = Vec::new();
        for socket in &self.sources.unwrap {
            let options = unwrap::unwrap(socket, packet, limits.request);
            let options = timeout_at(deadline, options).await;
            match options.unwrap_or(Err(Fault::OutOfTime(limits.whole))) {
                Ok(options) => return Ok(options),
                Err(fault) => failures.push(Failure {
                    source: ResourceSource::DataHub(socket.clone()).to_string(),
                    fault,
                }),
            }
        }
        Err(Error::Wrapped { failures })
    }

    /// When what begins now has to be over.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.sources.limits.whole
    }

    /// Asks who may be asked, until `deadline`.
    pub(crate) async fn resolve(
        &self,
        uri: &ResourceUri,
        deadline: Instant,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let all = self.sources.all.iter().enumerate();
        let mut from = self.sources.from.iter();
        if let Some((_, own)) = from.find(|(named, _)| named == uri) {
            let own = all.skip(*own).take(1);
            let (_, resource) = self.ask(uri, own, Others::Own, deadline).await?;
            return Ok(resource);
        }
        let mut chosen = self.chosen.lock().await;
        if let Some(at) = *chosen {
            drop(chosen);
            let first = all.skip(at).take(1);
            let (_, resource) = self.ask(uri, first, Others::First, deadline).await?;
            return Ok(resource);
        }
        let in_order = all.take(self.sources.in_order);
        let (at, resource) = self.ask(uri, in_order, Others::None, deadline).await?;
        *chosen = Some(at);
        Ok(resource)
    }

    /// Asks one source after the other; says which one had it.
    async fn ask(
        &self,
        uri: &ResourceUri,
        sources: impl Iterator<Item = (usize, &Source)>,
        others: Others,
        deadline: Instant,
    ) -> Result<(usize, Zeroizing<Vec<u8>>), Error> {
        let whole = self.sources.limits.whole;
        let mut failures = Vec::new();
        for (at, source) in sources {
            let answer = timeout_at(deadline, source.fetch(uri)).await;
            let is_over = answer.is_err();
            match answer.unwrap_or(Err(Fault::OutOfTime(whole))) {
                Ok(resource) => return Ok((at, resource)),
                Err(fault) => {
                    // The log may go to the console, which the host reads.
                    if !fault.is_about_resource() {
                        tracing::warn!(%uri, source = source.name(), why = %fault, "a source was \
                        not asked");
                    }
                    let source = source.name().to_owned();
                    failures.push(Failure { source, fault });
                }
            }
            if is_over {
                break;
            }
        }
        let uri = uri.clone();
        if failures.is_empty() {
            return Err(Error::NotConfigured { uri });
        }
        Err(Error::Unavailable { uri, failures, others })
    }
}
