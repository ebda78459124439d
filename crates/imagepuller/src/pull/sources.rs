//! The places that may have an image. Each content is asked for in order, so one place can make up
//! for what another has lost; and in turns, for as long as a pull may take, where all of them are
//! out of order.

use std::sync::{Arc, Mutex, PoisonError};

use pull_route::Route;
use registry_client::registry::Registry;
use registry_client::{Patience, PlainHosts};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::known_accounts::KnownAccounts;
use crate::error::{Error, chain, each};
use crate::watch::Tell;

/// The sources of one repository, first choice first.
#[derive(Debug)]
pub struct Sources {
    all: Vec<NamedRegistry>,
    repository: String,
    known_accounts: Arc<KnownAccounts>,
    patience: Patience,
    tell: Tell,
}

#[derive(Debug)]
struct NamedRegistry {
    name: String,
    registry: Arc<Registry>,
    /// Whether there is more than one account to ask it with.
    has_choice: bool,
    down: Mutex<Option<Down>>,
}

/// Why nothing more is asked of a source during this pull, or not yet.
#[derive(Clone, Debug)]
struct Down {
    error: Arc<Error>,
    /// When it may do better.
    until: Option<Instant>,
}

impl Sources {
    /// The mirrors and the registry of a repository's route.
    pub fn new(
        route: &Route,
        repository: &str,
        patience: Patience,
        tell: Tell,
        known_accounts: Arc<KnownAccounts>,
        plain_hosts: &Arc<PlainHosts>,
    ) -> Self {
        let settings = &route.settings;
        let patience = Patience {
            // Who counts the attempts wants no further turns.
            in_turns: route.sources.len() > 1 && patience.attempts.is_none(),
            ..patience
        };
        let all = route.sources.iter().cloned().map(|mut source| {
            known_accounts.order(&mut source, repository);
            let (name, has_choice) = (source.to_string(), source.accounts.len() > 1);
            let registry = Registry::new(source, repository, settings, &patience);
            NamedRegistry {
                name,
                has_choice,
                registry: Arc::new(registry.with_plain_hosts(plain_hosts.clone())),
                down: Mutex::default(),
            }
        });
        Self {
            all: all.collect(),
            repository: repository.to_owned(),
            known_accounts,
            patience,
            tell,
        }
    }

    fn remember(&self, source: &NamedRegistry) {
        let number = source.registry.account().filter(|_| source.has_choice);
        if let Some(number) = number {
            let host = source.registry.host();
            self.known_accounts.worked(&host, &self.repository, number);
        }
    }

    /// The first source that nothing was wrong with so far.
    pub fn next(&self) -> Option<&Arc<Registry>> {
        let mut all = self.all.iter();
        let source = all.find(|source| source.is_down().is_none())?;
        Some(&source.registry)
    }

    /// Asks one source after another until one gives what is wanted, verified; and once more, as
    /// long as the time lasts, those that may do better a little later.
    ///
    /// # Errors
    ///
    /// What is wrong on this side ends it at once; otherwise what each source had to say.
    pub async fn first<'a, T, F, R>(&'a self, ask: F) -> Result<T, Error>
    where
        F: Fn(&'a Arc<Registry>) -> R,
        R: Future<Output = Result<T, Error>>,
    {
        let end = Instant::now() + self.patience.budget;
        loop {
            let (errors, next) = match self.turn(&ask).await? {
                Turn::Content(content) => return Ok(content),
                Turn::Failed(errors, next) => (errors, next),
            };
            // The registry itself knows of no such image, whoever else may have had it.
            let is_missing = errors.last().is_some_and(|(_, error)| error.is_missing());
            let next = next.filter(|_| !is_missing);
            // With some jitter: the other layers of the image are asked for again too.
            let pause = self.patience.largest_delay.mul_f64(fastrand::f64());
            let next = next.map(|next| next.max(Instant::now() + pause));
            let Some(next) = next.filter(|next| *next < end) else {
                return Err(Error::of_sources(errors));
            };
            let waits_s = next.duration_since(Instant::now()).as_secs();
            tracing::info!(error = each(&errors), waits_s, "every source failed, asking again");
            sleep_until(next).await;
        }
    }

    /// Asks each source that is not down.
    async fn turn<'a, T, F, R>(&'a self, ask: &F) -> Result<Turn<T>, Error>
    where
        F: Fn(&'a Arc<Registry>) -> R,
        R: Future<Output = Result<T, Error>>,
    {
        let mut errors: Vec<(String, Arc<Error>)> = Vec::new();
        let mut next: Option<Instant> = None;
        for (at, source) in self.all.iter().enumerate() {
            let failed = match source.is_down() {
                Some(down) => down,
                None => match ask(&source.registry).await {
                    Ok(content) => {
                        self.remember(source);
                        return Ok(Turn::Content(content));
                    }
                    Err(error) if error.is_local() => return Err(error),
                    Err(error) => self.failed(at, error),
                },
            };
            next = [next, failed.until].into_iter().flatten().min();
            errors.push((source.name.clone(), failed.error));
        }
        Ok(Turn::Failed(errors, next))
    }

    /// Takes note of what a source had to say.
    fn failed(&self, at: usize, error: Error) -> Down {
        let source = &self.all[at];
        let again = error.again_after().filter(|_| self.patience.in_turns);
        let down = Down {
            until: again.and_then(|wait| Instant::now().checked_add(wait)),
            error: Arc::new(error),
        };
        // Without another one its error ends the pull.
        if self.all.len() > 1 && down.error.is_source_down() {
            source.set_down(down.clone());
        }
        if at + 1 < self.all.len() {
            let text = chain(&down.error);
            tracing::warn!(source = source.name, error = text, "source failed");
            (self.tell)(&json!({"event": "sourceFailed", "source": source.name, "error": text}));
        }
        down
    }
}

/// What came of asking all sources.
enum Turn<T> {
    Content(T),
    /// What each said, and when it may be another thing.
    Failed(Vec<(String, Arc<Error>)>, Option<Instant>),
}

impl NamedRegistry {
    fn is_down(&self) -> Option<Down> {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |down: &mut Down| down.until.is_some_and(|until| until <= Instant::now());
        drop(down.take_if(is_over));
        down.clone()
    }

    fn set_down(&self, new: Down) {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        *down = Some(new);
    }
}
