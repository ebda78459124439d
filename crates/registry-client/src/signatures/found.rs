//! What a search for signatures has found, and what its places may still bring.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use image_policy::Signature;
use image_policy::places::{Listed, MAX_PLACE_BYTES, MAX_SIGNATURES};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::error::Error;

/// How many requests of one place are under way: a place that hangs holds none of another's.
const AT_ONCE: usize = 8;

/// One place, and what it may still bring.
pub(super) struct Place<'f> {
    found: &'f Found,
    number: usize,
    name: &'static str,
    turns: Semaphore,
    signatures: AtomicUsize,
    bytes: AtomicUsize,
    left_out: AtomicUsize,
}

impl<'f> Place<'f> {
    pub(super) fn new(found: &'f Found, number: usize, name: &'static str) -> Self {
        Self {
            found,
            number,
            name,
            turns: Semaphore::new(AT_ONCE),
            signatures: AtomicUsize::new(MAX_SIGNATURES),
            bytes: AtomicUsize::new(MAX_PLACE_BYTES),
            left_out: AtomicUsize::new(0),
        }
    }

    /// The leave to ask for something; always given in the end.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// Says how many of so many signatures may be fetched.
    pub(super) fn take(&self, wanted: usize) -> usize {
        spend(&self.signatures, |left| left.min(wanted))
    }

    /// Whether it has brought as much as is kept.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) == 0
    }

    /// So many more signatures are not looked at.
    pub(super) fn leave_out(&self, count: usize) {
        self.left_out.fetch_add(count, Ordering::Relaxed);
    }
}

/// Takes from what is left as much as a rule says, and says how much that is.
fn spend(left: &AtomicUsize, rule: impl Fn(usize) -> usize) -> usize {
    let mut spent = 0;
    // Never fails, as there always is a next value.
    let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        spent = rule(left).min(left);
        Some(left - spent)
    });
    spent
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let left_out = *self.left_out.get_mut();
        if left_out > 0 {
            self.found.lock().left_out += left_out;
            tracing::warn!(
                left_out,
                "there are more signatures at {} than are looked at",
                self.name
            );
        }
    }
}

/// What was found so far.
#[derive(Default)]
pub(super) struct Found {
    state: Mutex<State>,
    /// Told of everything that comes.
    news: Notify,
}

#[derive(Default)]
struct State {
    /// Each with its place in the lists.
    signatures: Vec<([usize; 3], Signature)>,
    /// The first.
    failure: Option<Error>,
    /// Whether a place has said all.
    is_one_done: bool,
    /// How many signatures are not looked at.
    left_out: usize,
}

impl Found {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something came.
    pub(super) fn news(&self) {
        self.news.notify_one();
    }

    /// A place has said all.
    pub(super) fn done(&self) {
        self.lock().is_one_done = true;
        self.news();
    }

    /// Comes back once nothing has come for so long, after a place has said all or there is a
    /// signature.
    pub(super) async fn no_news(&self, patience: Duration) {
        loop {
            let news = self.news.notified();
            let is_alive = {
                let state = self.lock();
                state.is_one_done || !state.signatures.is_empty()
            };
            if !is_alive {
                news.await;
            } else if timeout(patience, news).await.is_err() {
                return;
            }
        }
    }

    /// Keeps a signature of so many bytes, if the place may bring so many.
    pub(super) fn add(
        &self,
        place: &Place<'_>,
        at: [usize; 2],
        bytes: usize,
        signature: impl FnOnce() -> Signature,
    ) {
        // The first that is too much ends it.
        if spend(&place.bytes, |left| left.min(bytes)) < bytes {
            place.leave_out(1);
            return;
        }
        let [list, number] = at;
        let at = [place.number, list, number];
        self.lock().signatures.push((at, signature()));
        self.news();
    }

    /// Takes note that something did not come.
    pub(super) fn fail(&self, place: &Place<'_>, error: Error) {
        let mut state = self.lock();
        if state.failure.is_none() {
            tracing::warn!(%error, "not every signature came from {}", place.name);
        }
        state.failure.get_or_insert(error);
    }

    /// The signatures in the order of the lists, and how many more there are. `late` is why some are
    /// missing that might have come.
    pub(super) fn finish(self, late: Option<Error>) -> Result<Listed<Signature>, Error> {
        let state = self.state.into_inner();
        let State { mut signatures, failure, left_out, .. } =
            state.unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &late {
            tracing::warn!(%error, "not every signature came");
        }
        if let Some(error) = failure.or(late)
            && signatures.is_empty()
        {
            return Err(error);
        }
        signatures.sort_by_key(|(at, _)| *at);
        let signatures = signatures.into_iter();
        Ok(Listed { kept: signatures.map(|(_, signature)| signature).collect(), left_out })
    }
}
