//! Work on disks, watched: whoever waits for a disk says so, and not for ever.
//!
//! A process whose read does not come back cannot even be killed. So the work is done by a copy of
//! this process, and what remains here looks at the clock.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use linux_sys::worker::{Place, Worker, start};

use crate::Error;
use crate::journal::Journal;

/// How long all disks together may take to answer, unless the command line says otherwise.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(30);

/// A disk that takes longer than one of these is named.
const TICK: Duration = Duration::from_millis(500);

/// What a process takes, at most, besides the time that disks have: to begin, to be ended, to place
/// results.
pub const END: Duration = Duration::from_secs(5);

/// How many slow disks are named: the host decides how many there are.
const MAX_NAMED: usize = 8;

/// Where this process notes what it does, if it is a watched one.
static PLACE: OnceLock<&'static Place> = OnceLock::new();

/// Notes, until it is dropped, that a disk is asked for something.
#[derive(Debug)]
pub struct Asked(());

/// Notes that the disk of this name is asked for something.
pub fn asks(disk: &str) -> Asked {
    note(disk);
    Asked(())
}

impl Asked {
    /// Notes that now the disk of this name is asked.
    pub fn next(&self, disk: &str) {
        note(disk);
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        note("");
    }
}

fn note(disk: &str) {
    if let Some(place) = PLACE.get() {
        place.set(disk);
    }
}

/// Work that is being done.
#[derive(Debug)]
pub struct Watched(Worker);

/// What became of work that may go on for ever.
#[derive(Debug)]
pub enum Attended {
    /// It has ended; what it came to.
    Ended(Vec<u8>),
    /// It goes on waiting for the disk of this name.
    Stalled(String),
}

impl AsFd for Watched {
    /// Readable when the process is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Begins `work`, in a process of its own.
///
/// # Errors
///
/// [`Error::Worker`].
pub fn begin(work: impl FnOnce() -> Vec<u8>) -> Result<Watched, Error> {
    let worker = start(|place| {
        let _ = PLACE.set(place);
        work()
    });
    worker.map(Watched).map_err(Error::Worker)
}

impl Watched {
    /// What the work comes to, which must not take longer than `limit`; nothing if it crashed.
    ///
    /// # Errors
    ///
    /// [`Error::Disk`], [`Error::Worker`]: then nobody works any more, but for a read that is left
    /// behind.
    pub fn finish(mut self, limit: Duration, journal: &mut Journal<'_>) -> Result<Vec<u8>, Error> {
        let end = Instant::now() + limit;
        let mut last = String::new();
        let mut named = Vec::new();
        let answer = loop {
            match self.0.wait(TICK) {
                Ok(Some(answer)) => break Ok(answer),
                Ok(None) => {}
                Err(error) => break Err(Error::Worker(error)),
            }
            let disk = self.0.place().get();
            if Instant::now() >= end {
                break Err(Error::Disk { disk, limit });
            }
            if !disk.is_empty() && disk == last && !named.contains(&disk) && named.len() < MAX_NAMED
            {
                journal.warn(format_args!("{disk}: waiting for the disk to answer"));
                named.push(disk.clone());
            }
            last = disk;
        };
        self.0.end();
        answer
    }

    /// Waits until the work has ended, or one question to a disk takes longer than `limit`; how
    /// many there are does not matter.
    ///
    /// # Errors
    ///
    /// [`Error::Worker`].
    pub fn attend(&mut self, limit: Duration) -> Result<Attended, Error> {
        let place = self.0.place();
        let (mut count, mut since) = (place.count(), Instant::now());
        loop {
            let answer = self.0.wait(limit / 4).map_err(Error::Worker)?;
            if let Some(answer) = answer {
                return Ok(Attended::Ended(answer));
            }
            let (now, disk) = (place.count(), place.get());
            if now != count || disk.is_empty() {
                (count, since) = (now, Instant::now());
            } else if since.elapsed() >= limit {
                return Ok(Attended::Stalled(disk));
            }
        }
    }

    /// Kills the process, which stays where it waits for a disk.
    pub fn kill(&self) {
        self.0.kill();
    }

    /// Takes note of a process that has ended; one that has not is killed.
    pub fn end(self) {
        self.0.end();
    }
}
