//! Would a pull work: the way that it takes, up to the manifest's answer and no further.
//!
//! By the same functions as a pull's: plan, references, sources in order, accounts in order. What
//! is different is the patience, and that nothing is kept: there is no store, and the event log of
//! a guest learns nothing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use oci_image::digest::Digest;
use oci_image::named::NamedReference;
use oci_image::search::{Kind, Search};
use registry_client::Patience;
use registry_client::registry::Registry;
use tokio::time::timeout;

use super::asked::ImageName;
use super::policy::Gate;
use super::resolve;
use super::sources::Sources;
use super::visit::{self, Visit};
use crate::error::Error;

mod asked;
mod target;

pub use asked::{Asked, Refusal};
pub use target::{Entry, MAX_TARGETS, Target};

/// The documents, and how they are tried.
#[derive(Debug)]
pub struct Prober {
    visit: Visit,
    time: Duration,
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
    /// A person would get what the registry has under the tag just now; a guest pulls nothing
    /// without a digest.
    WorksByTag(Digest),
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
    /// Tries them; each source is given that time for everything.
    pub fn new(visit: Visit, time: Duration) -> Self {
        Self { visit, time }
    }

    /// Why the node has no document, if it says so.
    pub fn node_error(&self) -> Option<Error> {
        let reason = self.visit.settings.node_error()?;
        Some(pull_route::Error::NodeError(reason.clone()).into())
    }

    /// Each entry of the documents, the owner's first; at most [`MAX_TARGETS`], and how many are
    /// left out.
    pub fn entries(&self) -> (Vec<Target>, usize) {
        target::entries(&self.visit.settings)
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
                // A mirror may take its prefix out of a name, of which nothing must be left then.
                let repository = match entry.repository.as_str() {
                    "" => String::new(),
                    above => format!("{above}/app"),
                };
                let route = self.visit.route(&host, &repository);
                let mut route = self.in_time(route).await?;
                for source in &mut route.sources {
                    source.repository = None;
                }
                let sources = visit::sources(&route, "", self.patience());
                sources
                    .first(|registry| noted(asked, registry, async { Ok(registry.greet().await?) }))
                    .await?;
                Ok(End::Works(None))
            }
        }
    }

    /// Asks for a manifest, and where that is an index, for the manifest of the platform too; and
    /// what the owner's image policy says of it.
    async fn ask_for(
        &self,
        image: &NamedReference,
        asked: &Mutex<Vec<Asked>>,
    ) -> Result<End, Error> {
        let meant = self.visit.image(image)?;
        let (host, repository) = (image.registry(), image.repository());
        let route = self.in_time(self.visit.route(host, repository));
        let route = route.await?;
        let mut gate = self.in_time(self.visit.gate(&meant)).await?;
        let is_by_tag = meant.digest().is_none() && !gate.may_resolve_tag().unwrap_or(false);
        self.in_time(gate.check(meant.digest())).await?;
        let sources = visit::sources(&route, repository, self.patience());
        let digest = match &meant.image {
            ImageName::Pinned(image) => image.digest().clone(),
            ImageName::Tagged(image, _) => {
                let found = sources
                    .first(|registry| noted(asked, registry, visit::by_tag(registry, image.tag())));
                let digest = found.await?.name_by_content().0;
                gate.of_digest(&digest, !is_by_tag);
                digest
            }
        };
        let mut search = Search::new(digest.clone(), self.visit.platform.clone());
        loop {
            let wanted = search.wanted();
            if wanted.kind == Kind::Config {
                self.in_time(admit(&gate, search.contents(), &sources)).await?;
                return Ok(match is_by_tag {
                    false => End::Works(Some(digest)),
                    true => End::WorksByTag(digest),
                });
            }
            let document = sources
                .first(|registry| noted(asked, registry, resolve::fetch(registry, wanted.clone())));
            search.receive(document.await?)?;
        }
    }

    /// What comes by reference, or by several requests, within its time.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let late = || Error::Deadline {
            seconds: self.time.as_secs(),
            is_callers: false,
            last: Some("what the documents ask for did not come".to_owned()),
        };
        timeout(self.time, work).await.map_err(|_| late())?
    }

    /// One attempt at each source, within its time.
    fn patience(&self) -> Patience {
        let time = self.time;
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

/// Whether the owner's image policy lets it run.
async fn admit(gate: &Gate<'_>, contents: Vec<Digest>, sources: &Sources) -> Result<(), Error> {
    gate.admit(&contents, None, None, async { Ok(sources) }).await.map(drop)
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
    match (&error, target) {
        (Error::Confidential(_) | Error::Withheld { .. }, _) => End::NeedsGuest(error),
        // That is what such an entry is for.
        (Error::Registry(said), Target::Entry(_)) if said.is_forbidden() => End::Forbidden(error),
        _ => End::Fails(error),
    }
}
