//! The process that watches a disk, watched itself: a read that does not come back must hold
//! neither the lock nor those who ask.

use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::{Refresher, verdict, watch};
use crate::journal::Journal;
use crate::outcome::Verdict;
use crate::settings::Settings;
use crate::watch::{self as process, Attended, Watched};
use crate::{Error, bug};

/// What those hear who ask for a refresh that does not come about.
pub(super) const FAILED: &[u8] = b"failed";

/// [`watch::watch`] in a process of its own, and in another one whenever a disk that did not answer
/// does so after all; the exit code of one that ends by itself.
///
/// # Errors
///
/// [`Error::Worker`], [`Error::Watch`].
pub(super) fn supervise(
    refresher: &Refresher,
    settings: &Settings,
    listener: &UnixListener,
    journal: &mut Journal<'_>,
) -> Result<u8, Error> {
    loop {
        let work = || {
            let watched = bug::contain(|| {
                refresher.enter_sandbox(settings, journal)?;
                watch::watch(refresher, listener, journal)
            });
            verdict(watched.unwrap_or_else(|place| Err(Error::Internal(place))), journal).to_bytes()
        };
        let mut watched = process::begin(work)?;
        match watched.attend(refresher.patience)? {
            Attended::Ended(answer) => return Ok(Verdict::from_bytes(&answer)?.code),
            Attended::Stalled(disk) => {
                watched.kill();
                // It shares the lock, and may have it.
                refresher.insecure.unlock();
                let limit = refresher.patience;
                journal.error(Error::Disk { disk, limit }.line());
                refuse_until_gone(watched, listener)?;
                journal.info("the disk has answered: watching it again");
            }
        }
    }
}

/// Answers those who ask until the killed process is gone: there is never more than one.
fn refuse_until_gone(watched: Watched, listener: &UnixListener) -> Result<(), Error> {
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(watched.as_fd(), PollFlags::IN),
            PollFd::new(listener, PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::Watch(errno.into())),
        }
        let is_gone = !ready[0].revents().is_empty();
        while let Ok(client) = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            let _ = rustix::io::write(&client, FAILED);
        }
        if is_gone {
            watched.end();
            return Ok(());
        }
    }
}
