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

/// How long after one look at the work the next one comes.
const TICK: Duration = Duration::from_millis(100);

/// A disk at which the work stands for so long is named. Where many are read at the same time, the
/// slowest is noted a little later than it is asked, and all that takes half a second is meant.
const LONG: Duration = Duration::from_millis(300);

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

/// The disks that take long.
#[derive(Debug, Default)]
struct Slow {
    /// Where the work stands, and since when.
    last: Option<(String, Instant)>,
    named: Vec<String>,
}

impl Slow {
    /// Whether `disk`, at which the work stands `now`, is to be named.
    fn is_news(&mut self, disk: &str, now: Instant) -> bool {
        let since = match &self.last {
            Some((last, since)) if last == disk => *since,
            _ => {
                self.last = Some((disk.to_owned(), now));
                now
            }
        };
        let is_known = disk.is_empty() || self.named.iter().any(|named| named == disk);
        let is_news = now - since >= LONG && !is_known && self.named.len() < MAX_NAMED;
        if is_news {
            self.named.push(disk.to_owned());
        }
        is_news
    }
}

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
        let mut slow = Slow::default();
        let answer = loop {
            match self.0.wait(TICK) {
                Ok(Some(answer)) => break Ok(answer),
                Ok(None) => {}
                Err(error) => break Err(Error::Worker(error)),
            }
            let (disk, now) = (self.0.place().get(), Instant::now());
            if now >= end {
                break Err(Error::Disk { disk, limit });
            }
            if slow.is_news(&disk, now) {
                journal.warn(format_args!("{disk}: waiting for the disk to answer"));
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that took between half a second and a whole one was named or not, as the moments of
    /// the looks fell.
    #[test]
    fn whatever_takes_half_a_second_is_named_once() {
        let start = Instant::now();
        // What a look finds at this number of milliseconds; noted 100 after the question.
        let named = |from: u64, to: u64, offset: u64| {
            let mut slow = Slow::default();
            let moments = (1..20).map(|look| look * TICK.as_millis() as u64 + offset);
            let found = moments.filter(|at| {
                let disk = if (from + 100..to).contains(at) { "vda" } else { "" };
                slow.is_news(disk, start + Duration::from_millis(*at))
            });
            found.count()
        };
        for offset in [0, 1, 50, 99] {
            for from in [0, 30, 250, 499] {
                assert_eq!(named(from, from + 501, offset), 1, "{from} {offset}");
                assert_eq!(named(from, from + 1400, offset), 1, "{from} {offset}");
                assert_eq!(named(from, from + 350, offset), 0, "{from} {offset}");
            }
        }
        // The host decides how many there are.
        let mut slow = Slow::default();
        let count = (0..100).filter(|look| {
            let disk = format!("vd{}", look / 5);
            slow.is_news(&disk, start + *look * TICK)
        });
        assert_eq!(count.count(), MAX_NAMED);
    }
}
