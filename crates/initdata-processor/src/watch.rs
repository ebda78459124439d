//! Work on disks, watched: whoever waits for a disk says so, and not for ever.
//!
//! A process whose read does not come back cannot even be killed. So the work is done by a copy of
//! this process, and what remains here looks at the clock, and at a page of memory in which the
//! copy notes which disk it asks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use linux_sys::worker::{Ended, Worker, start};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::error::{Error, refused};
use crate::journal::Journal;

/// How long after one look at the work the next one comes. A disk at which the work stands at two
/// of them is named: so all that takes twice as long is.
const TICK: Duration = Duration::from_millis(250);

/// How many slow disks are named: the host decides how many there are.
const MAX_NAMED: usize = 8;

/// Room for a disk's name.
const NAME_BYTES: usize = 32;

/// A name and a number.
const NOTE_BYTES: usize = NAME_BYTES + 8;

/// Where the copy notes what it asks; nothing where nobody watches.
static NOTE: OnceLock<File> = OnceLock::new();

/// How often something was noted: what is asked twice is not what does not answer.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Notes, until it is dropped, that a disk is asked for something.
#[derive(Debug)]
pub struct Asked(());

/// Notes that the disk of this name is asked for something.
pub fn asks(disk: &str) -> Asked {
    note(disk);
    Asked(())
}

impl Drop for Asked {
    fn drop(&mut self) {
        note("");
    }
}

/// Notes that the disk of this name is asked; none, where it is empty.
pub fn note(disk: &str) {
    if let Some(note) = NOTE.get() {
        let mut bytes = [0; NOTE_BYTES];
        bytes.iter_mut().zip(disk.bytes().take(NAME_BYTES)).for_each(|(to, from)| *to = from);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        bytes[NAME_BYTES..].copy_from_slice(&count.to_ne_bytes());
        let _ = note.write_all_at(&bytes, 0);
    }
}

/// Which disk is asked, as a process says it that is not believed, and the number of the question.
fn noted() -> (String, [u8; 8]) {
    let mut bytes = [0; NOTE_BYTES];
    if let Some(note) = NOTE.get() {
        let _ = note.read_exact_at(&mut bytes, 0);
    }
    let (name, count) = bytes.split_at(NAME_BYTES);
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    (String::from_utf8_lossy(name).into_owned(), count.try_into().unwrap_or_default())
}

/// Work that is being done.
#[derive(Debug)]
pub struct Watched(Worker);

/// Begins `work`, in a process of its own.
///
/// # Errors
///
/// The process cannot be made.
pub fn begin(work: impl FnOnce() -> u8) -> Result<Watched, Error> {
    let note = memfd_create(c"disk", MemfdFlags::CLOEXEC).map_err(|errno| apart(errno.into()))?;
    let _ = NOTE.set(note.into());
    start(work).map(Watched).map_err(apart)
}

fn apart(source: io::Error) -> Error {
    refused("look at the disks, in a process of its own").because(source)
}

impl Watched {
    /// The exit code of the work, which must not take longer than `limit`.
    ///
    /// # Errors
    ///
    /// It takes longer, or crashed: then nobody works any more, but for a read that is left behind.
    pub fn finish(mut self, limit: Duration, journal: &mut Journal<'_>) -> Result<u8, Error> {
        let end = Instant::now() + limit;
        let mut slow = Slow::default();
        loop {
            match self.0.wait(TICK) {
                Ok(Some(Ended::Code(code))) => return Ok(code),
                Ok(Some(Ended::Crashed)) => return Err(apart(io::ErrorKind::UnexpectedEof.into())),
                Ok(None) => {}
                Err(error) => {
                    self.0.kill();
                    return Err(apart(error));
                }
            }
            let (disk, question) = noted();
            if Instant::now() >= end {
                self.0.kill();
                return Err(late(&disk, limit));
            }
            if slow.is_news(&disk, question) {
                journal.warn(format_args!("{disk}: waiting for the disk to answer"));
            }
        }
    }
}

fn late(disk: &str, limit: Duration) -> Error {
    let doing = match disk {
        "" => "finish in time".to_owned(),
        disk => format!("read disk {disk}: it does not answer in time"),
    };
    refused(format!("{doing}, {} s", limit.as_secs()))
}

/// The disks that take long.
#[derive(Debug, Default)]
struct Slow {
    /// The question at which the work stood at the last look.
    last: [u8; 8],
    named: Vec<String>,
}

impl Slow {
    /// Whether `disk`, at which the work stands now, is to be named.
    fn is_news(&mut self, disk: &str, question: [u8; 8]) -> bool {
        let is_slow = !disk.is_empty() && self.last == question;
        self.last = question;
        let is_news = is_slow
            && self.named.len() < MAX_NAMED
            && !self.named.iter().any(|named| named == disk);
        if is_news {
            self.named.push(disk.to_owned());
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_at_which_the_work_stands_is_named_once() {
        let mut slow = Slow::default();
        // At one look after the other: the disk, and the number of the question. The first three
        // are three questions to one fast disk.
        let looks = [
            ("vda", 1),
            ("vda", 2),
            ("vda", 3),
            ("", 4),
            ("", 4),
            ("vdb", 5),
            ("vdb", 5),
            ("vdb", 5),
            ("vdb", 6),
            ("vdb", 6),
            ("vda", 7),
            ("vda", 7),
        ];
        let is_news = |(disk, question): &(&str, u8)| slow.is_news(disk, [*question; 8]);
        let named: Vec<_> = looks.into_iter().filter(is_news).map(|(disk, _)| disk).collect();
        assert_eq!(named, ["vdb", "vda"]);
        // The host decides how many there are.
        let mut slow = Slow::default();
        let count = (0..100).filter(|look| slow.is_news(&format!("vd{}", look / 2), [look / 2; 8]));
        let count = count.count();
        assert_eq!(count, MAX_NAMED);
    }
}
