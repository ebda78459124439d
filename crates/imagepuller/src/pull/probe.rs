//! Would a pull work: the way that it takes, up to the manifest's answer and no further.
//!
//! By the same functions as a pull's: plan, references, sources in order, accounts in order. What
//! is different is the patience, and that nothing is kept: there is no store, and the event log of
//! a guest learns nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oci_image::digest::{Digest, Unverified};
use oci_image::platform::Platform;
use oci_image::search::{Kind, Search};
use pull_route::{Route, Settings};
use puller_config::{RegistryHost, Resources};
use registry_client::registry::Registry;
use registry_client::{Documents, Patience};
use tokio::time::timeout;

use super::broker::Broker;
use super::clock;
use super::known_accounts::KnownAccounts;
use super::output::ImageName;
use super::resolve;
use super::sources::Sources;
use crate::blocking::blocking;
use crate::error::Error;
use crate::progress::Progress;
use crate::reasons::Reasons;

mod asked;
mod target;

pub use asked::{Asked, Refusal};
pub use target::{Entry, MAX_TARGETS, Target};

/// How a probe asks.
#[derive(Clone, Debug)]
pub struct Options {
    /// The platform that is chosen from an index.
    pub platform: Platform,
    /// How long each source is given for everything.
    pub time: Duration,
    /// Sources of what the documents give by reference, unless the measured one names some.
    pub resources: Resources,
    /// The text of the initdata, for key brokers.
    pub initdata: Option<PathBuf>,
    /// Where it is kept why references gave nothing.
    pub reasons: Reasons,
}

/// The documents, and how they are tried.
#[derive(Debug)]
pub struct Prober {
    settings: Settings,
    broker: Broker,
    options: Options,
}

/// What became of a target.
#[derive(Debug)]
pub struct Found {
    /// Each source that was asked, in this order, the one that answered last.
    pub asked: Vec<Asked>,
    /// How it ended.
    pub end: End,
}

/// How a probe of one target ended.
#[derive(Debug)]
pub enum End {
    /// A pull would get its manifest, which is the one of this digest; or, where there is no image,
    /// a registry let the puller in.
    Works(Option<Digest>),
    /// A pull would fail.
    Fails(Error),
    /// What is given by reference cannot be had here.
    NeedsGuest(Error),
    /// The document forbids the registry that the entry is about, and no image was named.
    Forbidden(Error),
    /// The entry is the name of no single host.
    NoHost,
}

impl Prober {
    /// Reads the documents.
    ///
    /// # Errors
    ///
    /// A document that is not used, or a clock that is certainly wrong.
    pub async fn load(documents: Documents, options: Options) -> Result<Self, Error> {
        let settings = blocking(move || Ok(documents.load()?)).await?;
        clock::check(&settings)?;
        let broker = Broker::new(
            options.resources.clone(),
            options.initdata.clone(),
            options.reasons.clone(),
        );
        Ok(Self {
            settings,
            broker,
            options,
        })
    }

    /// Why the node has no document, if it says so.
    pub fn node_error(&self) -> Option<Error> {
        let reason = self.settings.node_error()?;
        Some(pull_route::Error::NodeError(reason.clone()).into())
    }

    /// Each entry of the documents, the owner's first; at most [`MAX_TARGETS`], and how many are
    /// left out.
    pub fn entries(&self) -> (Vec<Target>, usize) {
        target::entries(&self.settings)
    }

    /// Goes the way of a pull.
    pub async fn probe(&self, target: &Target) -> Found {
        let asked = Mutex::default();
        let end = match self.ask(target, &asked).await {
            Ok(end) => end,
            Err(error) => end_of(target, error),
        };
        let asked = asked.into_inner().unwrap_or_else(PoisonError::into_inner);
        Found { asked, end }
    }

    async fn ask(&self, target: &Target, asked: &Mutex<Vec<Asked>>) -> Result<End, Error> {
        match target {
            Target::Image(image) => self.ask_for(image, asked).await,
            Target::Entry(entry) => {
                let Some(host) = entry.name.host() else {
                    return Ok(End::NoHost);
                };
                let mut route = self.route(&host, &entry.repository).await?;
                for source in &mut route.sources {
                    source.repository = None;
                }
                let sources = self.sources(&route, "");
                sources
                    .first(|registry| noted(asked, registry, async { Ok(registry.greet().await?) }))
                    .await?;
                Ok(End::Works(None))
            }
        }
    }

    /// Asks for a manifest, and where that is an index, for the manifest of the platform too.
    async fn ask_for(&self, image: &ImageName, asked: &Mutex<Vec<Asked>>) -> Result<End, Error> {
        let (host, repository) = (image.registry(), image.repository());
        let route = self.route(host, repository).await?;
        let sources = self.sources(&route, repository);
        let digest = match image {
            ImageName::Pinned(image) => image.digest().clone(),
            ImageName::Tagged(image) => {
                let found = sources
                    .first(|registry| noted(asked, registry, by_tag(registry, image.tag())));
                found.await?.name_by_content().0
            }
        };
        let mut search = Search::new(digest.clone(), self.options.platform.clone());
        loop {
            let wanted = search.wanted();
            if wanted.kind == Kind::Config {
                return Ok(End::Works(Some(digest)));
            }
            let document = sources.first(|registry| {
                noted(asked, registry, resolve::fetch(registry, wanted.clone()))
            });
            search.receive(document.await?)?;
        }
    }

    async fn route(&self, host: &RegistryHost, repository: &str) -> Result<Route, Error> {
        let plan = self.settings.plan(host, repository)?;
        plan.check_allowed()?;
        let secrets = self.broker.secrets();
        let settled = secrets.settle(self.settings.clone(), host, repository);
        let time = self.options.time;
        let route = timeout(time, settled).await.map_err(|_| Error::Deadline {
            seconds: time.as_secs(),
            is_callers: false,
            last: Some("what the document gives by reference did not come".to_owned()),
        })??;
        clock::check(&route.settings)?;
        Ok(route)
    }

    fn sources(&self, route: &Route, repository: &str) -> Sources {
        let known = Arc::new(KnownAccounts::default());
        let progress = Progress::default();
        let plain = Arc::default();
        Sources::new(route, repository, self.patience(), &progress, known, &plain)
    }

    /// One attempt at each source, within its time.
    fn patience(&self) -> Patience {
        let time = self.options.time;
        Patience {
            attempts: Some(1),
            // What is left is for saying so before the source's time is over.
            connect: time.mul_f32(0.6),
            silence: time,
            stall: time,
            budget: time,
            budget_before_fallback: time,
            ..Patience::default()
        }
    }
}

async fn by_tag(registry: &Registry, tag: &str) -> Result<Unverified, Error> {
    Ok(registry.tag(tag).await?)
}

/// Takes note of what a source said.
async fn noted<T>(
    asked: &Mutex<Vec<Asked>>,
    registry: &Registry,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let answer = answer.await;
    let said = Asked::of(registry, answer.as_ref().err()).await;
    let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
    // Of two documents the last one.
    asked.retain(|other| other.source != said.source);
    asked.push(said);
    answer
}

/// What an error says of a target.
fn end_of(target: &Target, error: Error) -> End {
    use pull_route::Error as Plan;
    use registry_client::Error as Client;
    match (&error, target) {
        (Error::Confidential(_) | Error::Withheld { .. }, _) => End::NeedsGuest(error),
        // That is what such an entry is for.
        (Error::Registry(Client::Route(Plan::Forbidden { .. })), Target::Entry(_)) => {
            End::Forbidden(error)
        }
        _ => End::Fails(error),
    }
}
