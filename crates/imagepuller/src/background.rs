//! Work that goes on for a while after its caller is gone: the kubelet asks again for an image that
//! did not come in time.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::error::Error;

/// How many pulls go on without a caller at most, each with its connections and the layers that it
/// keeps from being removed. Of more, the first one ends.
const MAX_LEFT: usize = 8;

/// The work of calls.
#[derive(Clone, Debug)]
pub struct Background {
    /// How long work goes on without a caller.
    linger: Duration,
    left: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// Work whose caller waits. Dropping it leaves the work to itself.
struct Attended {
    /// Nothing once the work is done.
    task: Option<JoinHandle<()>>,
    background: Background,
}

impl Background {
    /// None yet.
    pub fn new(linger: Duration) -> Self {
        Self { linger, left: Arc::default() }
    }

    /// Does the work in a task of its own, and gives its result. Where this future is dropped, the
    /// work goes on, and ends after the time for that.
    ///
    /// # Errors
    ///
    /// Those of the work.
    pub async fn attend<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let (tell, result) = oneshot::channel();
        let task = tokio::spawn(async move {
            // What nobody takes is let go.
            let _ = tell.send(work.await);
        });
        let mut attended = Attended { task: Some(task), background: self.clone() };
        let result = result.await;
        attended.task = None;
        let ended = "the work of this call was ended to make room for another, or failed";
        result.unwrap_or_else(|_| Err(Error::Internal(ended.to_owned())))
    }

    /// Ends all work without a caller, and waits until it holds nothing any more. Gives whether
    /// there was any. Where this future is dropped, the work has been told to end.
    pub async fn end(&self) -> bool {
        let mut running = std::mem::take(&mut *self.left());
        running.retain(|task| !task.is_finished());
        for task in &running {
            task.abort();
        }
        let has_ended = !running.is_empty();
        for task in running {
            // However it ended.
            let _ = task.await;
        }
        has_ended
    }

    fn leave(&self, task: JoinHandle<()>) {
        let mut left = self.left();
        left.retain(|task| !task.is_finished());
        if self.linger.is_zero() || task.is_finished() {
            return task.abort();
        }
        if left.len() >= MAX_LEFT {
            left.remove(0).abort();
        }
        let (linger, end) = (self.linger, task.abort_handle());
        left.push(task);
        tokio::spawn(async move {
            tokio::time::sleep(linger).await;
            end.abort();
        });
    }

    fn left(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            self.background.leave(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Work that counts while it is there.
    async fn work(running: Arc<AtomicUsize>) -> Result<(), Error> {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        running.fetch_add(1, Ordering::SeqCst);
        let _counted = Counted(running);
        std::future::pending().await
    }

    async fn leave(background: &Background, running: &Arc<AtomicUsize>) {
        let short = Duration::from_millis(1);
        let attended = background.attend(work(running.clone()));
        assert!(tokio::time::timeout(short, attended).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_ends_in_time_and_is_not_too_much() {
        let settle = || tokio::time::sleep(Duration::from_millis(1));
        let background = Background::new(Duration::from_secs(300));
        let running = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 * MAX_LEFT {
            leave(&background, &running).await;
        }
        settle().await;
        assert_eq!(running.load(Ordering::SeqCst), MAX_LEFT);
        tokio::time::sleep(Duration::from_secs(299)).await;
        assert_eq!(running.load(Ordering::SeqCst), MAX_LEFT);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(running.load(Ordering::SeqCst), 0);
        assert!(!background.end().await);

        leave(&background, &running).await;
        assert!(background.end().await);
        // Whoever asks for room next has what it held.
        assert_eq!(running.load(Ordering::SeqCst), 0);
        assert_eq!(background.attend(async { Ok(7) }).await.unwrap(), 7);

        // Nothing goes on where that is not wanted.
        leave(&Background::new(Duration::ZERO), &running).await;
        settle().await;
        assert_eq!(running.load(Ordering::SeqCst), 0);
    }
}
