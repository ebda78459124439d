//! One call: the time that it has, who waits for it, and what its end gives back.

use std::sync::Arc;
use std::time::Duration;

use registry_client::LastFailure;
use registry_client::patience::DEFAULT_TIME;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedRwLockReadGuard};
use ttrpc::r#async::TtrpcContext;

use crate::error::Error;
use crate::watch::Watch;

/// How much of a caller's deadline is kept for the answer, at most.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(1);

/// How long after one look at the last failure the next one comes.
const LOOK: Duration = Duration::from_secs(1);

/// How long after the last pull its memory is given back: threads that end with it have ended by
/// then.
const TRIM_DELAY: Duration = Duration::from_millis(500);

/// One call for an image, shared with the fetch that may go on after it.
#[derive(Clone)]
pub struct Call {
    pub watch: Arc<Watch>,
    pub time: Time,
    /// Told when the pull begins anew with another configuration: the fetch by the former one ends.
    pub anew: Arc<Notify>,
    pub _running: Arc<Running>,
}

impl Call {
    /// Waits until a failure stands after which is asked again, and which a configuration decides.
    pub async fn waits_for_config(&self) {
        while !self.watch.last.is_about_config() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// A caller that waits for its answer. Dropped without one, it hung up.
pub struct Attention(pub Option<Arc<Watch>>);

impl Attention {
    /// The caller gets the answer that it still waits for, or this error.
    pub fn answered(mut self, error: Option<&Error>) {
        if let Some(watch) = self.0.take()
            && matches!(error, Some(Error::Deadline { .. }))
        {
            watch.caller_gone("the caller's time is over");
        }
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        if let Some(watch) = &self.0 {
            watch.caller_gone("the caller hung up");
        }
    }
}

/// The time that a call has.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    pub given: Duration,
    /// Whether the caller said so.
    is_callers: bool,
}

impl Time {
    /// What the caller of `context` gave, or what holds where it gave none.
    pub fn of(context: &TtrpcContext) -> Self {
        let given = u64::try_from(context.timeout_nano).unwrap_or_default();
        let is_callers = given > 0;
        let given = match is_callers {
            true => Duration::from_nanos(given),
            false => DEFAULT_TIME,
        };
        Self { given, is_callers }
    }

    /// Gives up in time for the answer that it took too long: the caller's own timer has no words.
    pub async fn limit<T>(
        self,
        last: &LastFailure,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let timed = tokio::time::timeout(patience(self.given), last.of(work)).await;
        timed.unwrap_or_else(|_| {
            Err(Error::Deadline {
                seconds: self.given.as_secs(),
                is_callers: self.is_callers,
                last: last.text(),
            })
        })
    }
}

/// How long a call may take, so that there is time for an answer.
pub fn patience(deadline: Duration) -> Duration {
    deadline.saturating_sub(MAX_ANSWER_TIME.min(deadline / 10))
}

/// A call that is running. The last one gives memory back to the pod.
pub struct Running(pub Option<OwnedRwLockReadGuard<()>>);

impl Drop for Running {
    fn drop(&mut self) {
        let Some(busy) = self.0.take() else {
            return;
        };
        let lock = OwnedRwLockReadGuard::rwlock(&busy).clone();
        drop(busy);
        // While the program ends there may be no runtime any more, and nothing to give back.
        if let (Ok(_), Ok(runtime)) = (lock.try_write(), Handle::try_current()) {
            runtime.spawn(async {
                tokio::time::sleep(TRIM_DELAY).await;
                let _ = tokio::task::spawn_blocking(linux_sys::heap::trim).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn time(timeout_nano: i64) -> Time {
        Time::of(&TtrpcContext {
            mh: ttrpc::MessageHeader::default(),
            metadata: HashMap::new(),
            timeout_nano,
            connection_data: Arc::default(),
        })
    }

    /// Kata's agent waits for twenty minutes and may not say so.
    #[tokio::test(start_paused = true)]
    async fn without_a_deadline_a_call_has_twenty_minutes() {
        for (timeout_nano, seconds, words) in [
            (0, 1200, "the longest time of 1200 s passed"),
            (-1, 1200, "the longest time of 1200 s passed"),
            (4_000_000_000, 4, "the caller's deadline of 4 s passed"),
        ] {
            let time = time(timeout_nano);
            assert_eq!(time.given, Duration::from_secs(seconds));
            let begun = tokio::time::Instant::now();
            let last = LastFailure::default();
            let ended = time.limit(&last, std::future::pending::<Result<(), _>>());
            let error = ended.await.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert_eq!(begun.elapsed(), patience(time.given));
        }
    }

    #[test]
    fn a_deadline_leaves_time_for_the_answer() {
        for (deadline_ms, patience_ms) in [(1_200_000, 1_199_000), (10_000, 9_000), (2000, 1800)] {
            let deadline = Duration::from_millis(deadline_ms);
            assert_eq!(patience(deadline), Duration::from_millis(patience_ms));
        }
    }
}
