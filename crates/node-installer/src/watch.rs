//! Passes whenever something changed.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use tracing::info;

use crate::node::Node;
use crate::{Error, HostPath, Options, Outcome, install, manifest, plan};

/// How long without an event until a pass is made all the same: for what no event tells of, such as
/// a mount that changed.
pub const RESCAN: Duration = Duration::from_secs(300);

/// How long it must be quiet after an event: a secret's mount changes in several steps.
const QUIET: Duration = Duration::from_millis(200);

/// How long quiet is waited for at most.
const MAX_UNQUIET: Duration = Duration::from_secs(2);

/// A stream that becomes readable when the process is asked to end, with SIGTERM or SIGINT.
///
/// # Errors
///
/// [`Error::Watch`].
pub fn termination() -> Result<UnixStream, Error> {
    let register = || -> io::Result<UnixStream> {
        let (asked, ask) = UnixStream::pair()?;
        pipe::register(SIGTERM, ask.try_clone()?)?;
        pipe::register(SIGINT, ask)?;
        Ok(asked)
    };
    register().map_err(Error::Watch)
}

/// Makes a pass now and whenever a secret, a directory of Kata, what is installed or one of the
/// directories `more` changed, until `stop` becomes readable.
///
/// After each pass `after` gets its outcome, may add to that, and gives the time until the next
/// pass at the latest. Then it is logged, where it is another one than the last. Problems do not
/// end this; the next change is waited for as usual.
///
/// The answer is the exit code of the program that asked for this: 0, as what is installed stays.
/// Where everything goes, because there are no sets, it is that of the last outcome, which is told
/// once more at the end.
///
/// # Errors
///
/// [`Error::Watch`] where not even `stop` can be waited for, and [`Error::DirectoryDeleted`], which
/// only new mounts help against. Nothing that was installed is removed. A kernel that has no
/// watches left is a problem like others: passes are made all the same, though only every five
/// minutes.
pub fn watch(
    options: &Options,
    more: &BTreeSet<PathBuf>,
    stop: impl AsFd,
    mut after: impl FnMut(&mut Outcome) -> Duration,
) -> Result<u8, Error> {
    let mut told = None;
    loop {
        // Before the pass: what changes while it runs is not missed.
        let (changes, unwatched) = Changes::watch(options, more);
        let mut outcome = install(options)
            .unwrap_or_else(|error| Outcome { problems: vec![error], ..Outcome::default() });
        outcome.problems.extend(unwatched.map(Error::Watch));
        let limit = after(&mut outcome).min(RESCAN);
        told = Some(tell(&outcome, told));
        let deleted = |problem: &Error| matches!(problem, Error::DirectoryDeleted { .. });
        if let Some(index) = outcome.problems.iter().position(deleted) {
            return Err(outcome.problems.swap_remove(index));
        }
        let stopped = changes.wait(stop.as_fd(), limit).map_err(Error::Watch)?;
        if stopped {
            return Ok(end(options, &outcome));
        }
    }
}

/// The last words, and the exit code.
fn end(options: &Options, outcome: &Outcome) -> u8 {
    if !options.sets.is_empty() {
        info!("asked to end; what is installed stays");
        return 0;
    }
    if outcome.problems.is_empty() {
        info!("asked to end; nothing that was installed is left");
    } else {
        info!("asked to end before everything could be removed");
        outcome.tell();
    }
    outcome.exit_code()
}

/// Logs the outcome of a pass unless it is that of the last one, whose lines are `before`; returns
/// the lines.
fn tell(outcome: &Outcome, before: Option<Vec<String>>) -> Vec<String> {
    let problems = outcome.problems.iter().flat_map(Error::lines);
    let others = outcome.warnings.iter().chain(&outcome.notes).cloned();
    let now = problems.chain(others).collect();
    if outcome.changes > 0 || before.as_ref() != Some(&now) {
        outcome.report();
    }
    now
}

/// The kernel's watch on everything that a pass depends on; `None` where it has none left.
struct Changes(Option<OwnedFd>);

impl Changes {
    /// Watches what can be watched; the error is why something cannot.
    fn watch(options: &Options, more: &BTreeSet<PathBuf>) -> (Self, Option<io::Error>) {
        let queue = match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(queue) => queue,
            Err(errno) => return (Self(None), Some(errno.into())),
        };
        let mut refused = None;
        for path in watched(options).union(more) {
            refused = refused.or(add(&queue, path).err());
        }
        (Self(Some(queue)), refused)
    }

    /// Waits for a change and then for quiet, or for `limit`; says whether `stop` became readable
    /// instead.
    fn wait(&self, stop: impl AsFd, limit: Duration) -> io::Result<bool> {
        let mut event = self.wait_once(stop.as_fd(), limit)?;
        let unquiet_since = Instant::now();
        while event == Event::Change && unquiet_since.elapsed() < MAX_UNQUIET {
            event = self.wait_once(stop.as_fd(), QUIET)?;
        }
        Ok(event == Event::Stop)
    }

    fn wait_once(&self, stop: impl AsFd, limit: Duration) -> io::Result<Event> {
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        let mut waiting = vec![PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)];
        waiting.extend(self.0.iter().map(|queue| PollFd::new(queue, PollFlags::IN)));
        match poll(&mut waiting, Some(&limit)) {
            Ok(0) => return Ok(Event::Nothing),
            Ok(_) => {}
            // The signal that ends the program also interrupts this; it is seen the next time.
            Err(Errno::INTR) => return Ok(Event::Change),
            Err(errno) => return Err(errno.into()),
        }
        if !waiting[0].revents().is_empty() {
            return Ok(Event::Stop);
        }
        // Which directory changed does not matter: a pass looks at everything.
        let mut events = [0; 4096];
        if let Some(queue) = &self.0 {
            while rustix::io::read(queue, &mut events).is_ok_and(|length| length > 0) {}
        }
        Ok(Event::Change)
    }
}

/// The directories that a pass depends on: of the secrets, of Kata and its QEMU, and of what is
/// installed, since somebody may change it.
fn watched(options: &Options) -> BTreeSet<PathBuf> {
    let on_node = |path: &HostPath| options.host.join(path.relative());
    let mut directories: BTreeSet<_> = [on_node(&options.prefix)].into();
    directories.extend(options.binaries.iter().map(on_node));
    if options.sets.is_empty()
        && let Ok(node) = Node::open(&options.host)
    {
        // What a removal could not remove may go by another hand.
        let left = manifest::listed(options, &node);
        let above = left.iter().filter_map(|path| path.split().0);
        directories.extend(above.map(|path| on_node(&path)));
    }
    for (name, set) in &options.sets {
        directories.extend(set.secrets());
        // Kata's main file is in the directory of the handler itself.
        directories.extend(set.handlers.iter().map(on_node));
        let mut installed = plan::paths(options, name, set);
        // The drop-ins beside the wrapper's settings count as well.
        installed.extend(set.settings_file.split().0.map(|above| above.join("config.d/any")));
        let above = installed.iter().filter_map(|path| path.split().0);
        directories.extend(above.map(|path| on_node(&path)));
    }
    directories
}

/// Watches the directory `path`, or as long as it is not there, the nearest one above it.
fn add(queue: &OwnedFd, path: &Path) -> io::Result<()> {
    let flags = WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVE
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR;
    let mut path = PathBuf::from(path);
    loop {
        match inotify::add_watch(queue, &path, flags) {
            Ok(_) => return Ok(()),
            Err(Errno::NOENT | Errno::NOTDIR) if path.pop() => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[derive(PartialEq, Eq)]
enum Event {
    Nothing,
    Change,
    Stop,
}
