//! The thread that removes a container's directories when its bundle is unmounted.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::error::Error;
use crate::store::Store;

/// How long after a mount went here it is looked for elsewhere again, at first; the time doubles.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest such time.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Looks after a store until dropped.
#[derive(Debug)]
pub struct Caretaker {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Caretaker {
    /// Starts with what an earlier service left, then waits for mounts to go.
    ///
    /// # Errors
    ///
    /// [`Error::File`] without `/proc`, and what the kernel says to a new thread.
    pub fn start(store: Arc<Store>) -> Result<Self, Error> {
        let path = "/proc/self/mountinfo";
        let mounts = File::open(path).map_err(Error::file("open", path))?;
        let failed = |error: io::Error| Error::file("look after", store.path())(error);
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let stop = Arc::new(stop);
        let (work, stopped) = (store.clone(), stop.clone());
        let thread = Builder::new()
            .name("caretaker".to_owned())
            .spawn(move || look_after(&work, &mounts, &stopped))
            .map_err(failed)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Caretaker {
    fn drop(&mut self) {
        if let Err(error) = rustix::io::write(&self.stop, &1u64.to_ne_bytes()) {
            tracing::warn!(%error, "cannot stop looking after the store");
            return;
        }
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("looking after the store ended in a panic");
        }
    }
}

fn look_after(store: &Store, mounts: &File, stop: &OwnedFd) {
    let mut wait = FIRST_WAIT;
    loop {
        let timeout = store.tidy().then_some(wait);
        let mut events = [PollFd::new(mounts, PollFlags::PRI), PollFd::new(stop, PollFlags::IN)];
        let timeout = timeout.and_then(|wait| Timespec::try_from(wait).ok());
        match poll(&mut events, timeout.as_ref()) {
            // Time passed and nothing happened.
            Ok(0) => wait = (wait * 2).min(MAX_WAIT),
            Ok(_) => wait = FIRST_WAIT,
            Err(Errno::INTR) => continue,
            Err(error) => {
                tracing::warn!(%error, "cannot wait for mounts to go");
                return;
            }
        }
        if !events[1].revents().is_empty() {
            return;
        }
    }
}
