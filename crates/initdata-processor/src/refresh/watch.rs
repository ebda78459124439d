//! Reading a configuration disk again as soon as it says something else, or somebody asks.
//!
//! No transport tells the guest that a disk's content is another: the kernel announces a new
//! capacity only, and the disk keeps its own. So the first sector is read, which an update changes
//! last. Who cannot wait for that asks over a socket, and is answered when the disk has been read.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config_image::{ReadAt, SECTOR_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::umask;

use super::supervise::FAILED;
use super::{Refreshed, Refresher};
use crate::disk::Disk;
use crate::journal::Journal;
use crate::settings::Owner;
use crate::watch::asks;
use crate::{Error, origin};

/// How long after one look at the first sector the next one comes.
const PAUSE: Timespec = Timespec { tv_sec: 3, tv_nsec: 0 };

/// How long after one look at the whole image the next one comes, for hosts that change a document
/// and leave the first sector as it is.
const WHOLE_AFTER: Duration = Duration::from_secs(300);

/// What the first sector says; `None` where it cannot be read.
type Sector = Option<[u8; SECTOR_BYTES]>;

/// Listens for those who ask, replacing the socket of an earlier watcher. Only `owner`, or root,
/// may connect.
pub(super) fn listen(run: &Path, name: &str, owner: Option<Owner>) -> Result<UnixListener, Error> {
    let path = run.join(origin::DIRECTORY).join(format!("{name}.socket"));
    bind(&path, owner).map_err(|source| Error::Write(path, source))
}

fn bind(path: &PathBuf, owner: Option<Owner>) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let before = umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    let listener = bound?;
    if let Some(Owner { user, group }) = owner {
        chown(path, Some(user), Some(group))?;
    }
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Refreshes for as long as the guest lives.
///
/// # Errors
///
/// Those of waiting, and nothing else. What is wrong with the disk is logged, once for each new
/// state of it.
pub(super) fn watch(
    refresher: &Refresher,
    listener: &UnixListener,
    journal: &mut Journal<'_>,
) -> Result<Refreshed, Error> {
    let mut disk = None;
    let mut seen = None;
    let mut whole_at = Instant::now();
    let mut asking = None;
    loop {
        // Before the whole image: what changes meanwhile is another sector at the next look.
        let sector = first_sector(refresher, &mut disk);
        if asking.is_some() || sector != seen || Instant::now() >= whole_at {
            seen = sector;
            whole_at = Instant::now() + WHOLE_AFTER;
            let word = match refresher.once(journal) {
                Ok(refreshed) => refreshed.word().as_bytes(),
                Err(error) => {
                    journal.error(error.line());
                    FAILED
                }
            };
            if let Some(client) = asking {
                // Who has gone away does not want to know.
                let _ = rustix::io::write(&client, word);
            }
        }
        match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&PAUSE)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::Watch(errno.into())),
        }
        asking = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok();
    }
}

/// Reads it from the disk, which stays open for the next time.
fn first_sector(refresher: &Refresher, disk: &mut Option<Disk>) -> Sector {
    if disk.is_none() {
        *disk = refresher.disk().ok();
    }
    let found = disk.as_ref()?;
    let _asks = asks(&found.name);
    let mut sector = [0; SECTOR_BYTES];
    match found.read_exact_at(&mut sector, 0) {
        Ok(()) => Some(sector),
        Err(_) => {
            *disk = None;
            None
        }
    }
}
