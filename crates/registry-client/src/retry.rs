//! Asking again: exponential backoff with full jitter, within a budget, and every failure
//! remembered.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::attempt::Attempt;
use crate::error::Error;
use crate::failure::{Again, Failure};
use crate::patience::Patience;

/// How often it is said what is waited for.
const SAID_EVERY: Duration = Duration::from_secs(60);

tokio::task_local! {
    static LAST: LastFailure;
}

/// The last failure of some work that is asked for again, for whoever ends that work before the
/// last attempt is made.
#[derive(Clone, Debug, Default)]
pub struct LastFailure(Arc<Mutex<Last>>);

#[derive(Debug, Default)]
struct Last {
    failure: Option<Noted>,
    /// Other work that this one waits for.
    followed: Vec<LastFailure>,
}

/// A failure after which is asked again.
#[derive(Clone, Debug)]
struct Noted {
    text: String,
    is_about_config: bool,
}

impl LastFailure {
    /// Does the work, and keeps what fails on the way.
    pub async fn of<T>(&self, work: impl Future<Output = T>) -> T {
        LAST.scope(self.clone(), work).await
    }

    /// The same, for a task of its own.
    pub async fn of_owned<T>(self, work: impl Future<Output = T>) -> T {
        self.of(work).await
    }

    /// That of the work that is being done; one that nobody asks for where nobody does.
    pub fn current() -> Self {
        LAST.try_with(Self::clone).unwrap_or_default()
    }

    /// The work that is being done waits for other work, as long as this is held.
    pub fn follow(other: &Self) -> Followed {
        let by = LAST.try_with(Self::clone).ok();
        let by = by.filter(|by| !Arc::ptr_eq(&by.0, &other.0));
        if let Some(by) = &by {
            by.lock().followed.push(other.clone());
        }
        Followed { by, other: other.clone() }
    }

    /// The failure that nothing came after, if there was one, of the work or of what it waits for.
    pub fn text(&self) -> Option<String> {
        self.find().map(|noted| noted.text)
    }

    /// Whether there is one that a configuration decides: [`Error::is_about_config`].
    pub fn is_about_config(&self) -> bool {
        self.find().is_some_and(|noted| noted.is_about_config)
    }

    fn find(&self) -> Option<Noted> {
        let (own, followed) = {
            let last = self.lock();
            (last.failure.clone(), last.followed.clone())
        };
        // Theirs alone: two pulls may wait for each other's layers.
        let theirs = || followed.iter().find_map(|other| other.lock().failure.clone());
        own.or_else(theirs)
    }

    fn lock(&self) -> MutexGuard<'_, Last> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a failure of the work that is being done, or that something came.
    pub(crate) fn note(failure: Option<&Error>) {
        let noted = |error: &Error| Noted {
            text: error.to_string(),
            is_about_config: error.is_about_config(),
        };
        let note = |last: &Self| last.lock().failure = failure.map(noted);
        // Nobody may want to know.
        let _ = LAST.try_with(note);
    }
}

/// Other work that some work waits for. Once dropped, what failed there is no longer waited for.
#[derive(Debug)]
#[must_use = "what is waited for ends with it"]
pub struct Followed {
    by: Option<LastFailure>,
    other: LastFailure,
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Some(by) = &self.by {
            let followed = &mut by.lock().followed;
            // Once only: the work may wait for two things of the other one.
            let is_it = |one: &LastFailure| Arc::ptr_eq(&one.0, &self.other.0);
            if let Some(at) = followed.iter().position(is_it) {
                followed.swap_remove(at);
            }
        }
    }
}

/// The attempts at one thing.
#[derive(Debug)]
pub struct Attempts {
    patience: Patience,
    budget: Duration,
    /// How often a failure after progress is forgiven.
    forgiven: u32,
    failures: Vec<Attempt>,
    /// Since the last progress.
    in_a_row: u32,
    last_progress: Instant,
    /// When it was last said what is waited for.
    said: Option<Instant>,
}

impl Attempts {
    /// None yet. `budget` is how long they may take without progress.
    pub fn new(patience: &Patience, budget: Duration) -> Self {
        Self {
            patience: *patience,
            budget,
            forgiven: patience.resumptions,
            failures: Vec::new(),
            in_a_row: 0,
            last_progress: Instant::now(),
            said: None,
        }
    }

    /// Gives them all the time that the pull has: what has begun is not left for another source.
    pub fn give_all_time(&mut self) {
        self.budget = self.patience.budget;
    }

    /// Asks until there is an answer, or until asking again is no use.
    pub async fn run<T, F: Future<Output = Result<T, Failure>>>(
        mut self,
        what: &str,
        host: &str,
        mut ask: impl FnMut() -> F,
    ) -> Result<T, Error> {
        loop {
            match self.within_budget(what, host, ask()).await {
                Ok(answer) => {
                    LastFailure::note(None);
                    return Ok(answer);
                }
                Err(failure) => self.failed(failure).await?,
            }
        }
    }

    /// One attempt, ended where the budget ends.
    pub async fn within_budget<T>(
        &self,
        what: &str,
        host: &str,
        attempt: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        timeout(self.left(), attempt).await.unwrap_or_else(|_| {
            let reason =
                format!("no {what} within the {} that this source is given", seconds(self.budget));
            Err(Failure::passing(Error::unreachable(host, "", &reason)))
        })
    }

    /// Something came, so the next failure is a first one.
    pub fn progress(&mut self) {
        self.in_a_row = 0;
        self.last_progress = Instant::now();
        self.said = None;
        LastFailure::note(None);
    }

    /// Takes note of a failure and waits for the time of the next attempt.
    ///
    /// # Errors
    ///
    /// All failures so far, if there is to be no next attempt.
    pub async fn failed(&mut self, failure: Failure) -> Result<(), Error> {
        let Failure { error, again, .. } = failure;
        LastFailure::note(Some(&error));
        if self.in_a_row == 0 && !self.failures.is_empty() {
            self.forgiven = self.forgiven.saturating_sub(1);
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        let left = self.left();
        let random = fastrand::f64();
        let jitter = self.patience.delay_limit(self.in_a_row).mul_f64(random);
        let is_enough = |attempts: u32| self.in_a_row >= attempts.max(1);
        let delay = match again {
            Again::Never => return Err(self.give_up(error)),
            _ if self.patience.attempts.is_some_and(is_enough) || self.forgiven == 0 => None,
            Again::Perhaps => Some(jitter).filter(|delay| *delay < left),
            // With some jitter too: everyone else was told the same time.
            Again::After(wait) if wait < left => Some((wait + jitter).min(left)),
            Again::After(wait) => {
                return Err(self.give_up(error.later(wait)));
            }
        };
        let Some(delay) = delay else {
            return Err(self.give_way(error));
        };
        self.say(&error, delay);
        self.remember(&error);
        sleep(delay).await;
        Ok(())
    }

    /// Says what is waited for: at first and each minute.
    fn say(&mut self, error: &Error, delay: Duration) {
        let (failed, delay_ms) = (self.in_a_row, delay.as_millis());
        if self.said.is_some_and(|said| said.elapsed() < SAID_EVERY) {
            tracing::debug!(%error, failed, delay_ms, "asking again");
            return;
        }
        self.said = Some(Instant::now());
        let waited_s = self.last_progress.elapsed().as_secs();
        tracing::info!(%error, failed, waited_s, delay_ms, "asking again");
    }

    /// How much of the budget is left.
    pub fn left(&self) -> Duration {
        self.budget.saturating_sub(self.last_progress.elapsed())
    }

    /// The same failure is kept once, with its count.
    fn remember(&mut self, error: &Error) {
        let (text, is_about_config) = (error.to_string(), error.is_about_config());
        let same = self.failures.iter().position(|known| known.text == text);
        let count = same.map_or(0, |at| self.failures.remove(at).count) + 1;
        self.failures.push(Attempt { text, is_about_config, count });
    }

    /// Something came that is no use by itself: the time starts anew, but not the count.
    pub fn alive(&mut self) {
        self.last_progress = Instant::now();
    }

    /// All failures so far, this one the last; another turn may do better.
    fn give_way(&mut self, error: Error) -> Error {
        let error = self.give_up(error);
        match self.patience.in_turns {
            true => error.for_now(),
            false => error,
        }
    }

    /// All failures so far, this one the last.
    pub fn give_up(&mut self, error: Error) -> Error {
        if self.failures.is_empty() {
            return error;
        }
        self.remember(&error);
        error.after(&std::mem::take(&mut self.failures))
    }
}

/// A duration as a person says it.
pub fn seconds(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests;
