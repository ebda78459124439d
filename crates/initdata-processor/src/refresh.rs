//! Reading a configuration disk again in a running guest: rotated credentials.

use std::thread::sleep;
use std::time::{Duration, Instant};

use config_image::Image;
use process_sandbox::files::Grant;

use crate::disk::{self, Disk};
use crate::insecure::{self, Insecure};
use crate::journal::Journal;
use crate::origin::Origins;
use crate::outcome::Verdict;
use crate::paths::Paths;
use crate::report::Report;
use crate::settings::{Settings, Target};
use crate::watch::{self as process, asks};
use crate::{Error, bug, sandbox, verify};
use supervise::supervise;

mod supervise;
mod watch;

/// The system calls that waiting for others takes.
const WATCH_CALLS: &[libc::c_long] = &[libc::SYS_accept4, libc::SYS_flock];

/// How long a disk is read again that makes no sense: the host may be rewriting it just now.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long another run or refresh is waited for: longer than any takes with its usual limits.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);

/// How long the host is given between two reads.
const PAUSE: Duration = Duration::from_millis(70);

/// The options of a refresh.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the kernel's interfaces and the results are.
    pub paths: Paths,
    /// What people call the file, such as `imagepuller`.
    pub name: String,
    /// Whether loop devices are disks.
    pub include_loop: bool,
    /// How long the disk may take to answer.
    pub patience: Duration,
    /// Whether rights are given up before the first disk is read; see [`crate::Options::sandbox`].
    pub sandbox: bool,
}

/// What became of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// The disk says what the file says.
    Unchanged,
    /// The file was replaced.
    Replaced,
    /// The disk holds an empty document now: the file was removed.
    Removed,
}

impl Refreshed {
    /// One word, for scripts.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Replaced => "replaced",
            Self::Removed => "removed",
        }
    }
}

/// Reads the disk anew, not from the page cache, and replaces the file if it differs, in a process
/// that is watched. The summary is [`Refreshed::word`], and empty after an error.
///
/// After an error, which is logged, the file is unchanged: credentials that still work are worth
/// more than none, and a host that spoils the disk could as well have left it alone. A refusal of
/// initdata stays.
pub fn refresh(options: &Options, journal: &mut Journal<'_>) -> Verdict {
    watched(options, journal).unwrap_or_else(|error| verdict(Err(error), journal))
}

fn watched(options: &Options, journal: &mut Journal<'_>) -> Result<Verdict, Error> {
    let mut report = Report::start();
    let (refresher, settings) = Refresher::open(options, journal)?;
    report.phase("preparation");
    let work = || {
        let refreshed = bug::contain(|| {
            refresher.enter_sandbox(&settings, journal)?;
            let refreshed = refresher.locked(journal)?;
            report.phase("disk");
            report.finish(journal);
            Ok(refreshed)
        });
        let refreshed = refreshed.unwrap_or_else(|place| Err(Error::Internal(place)));
        verdict(refreshed, journal).to_bytes()
    };
    let answer = process::begin(work)?.finish(options.patience, journal)?;
    Verdict::from_bytes(&answer)
}

fn verdict(refreshed: Result<Refreshed, Error>, journal: &mut Journal<'_>) -> Verdict {
    match refreshed {
        Ok(refreshed) => Verdict { code: 0, summary: refreshed.word().to_owned() },
        Err(error) => {
            journal.error(error.line());
            Verdict { code: exit_code(&error), summary: String::new() }
        }
    }
}

/// 64 for an unknown name, 65 for a refusal, 69 without a disk that answers, 70 for a result that
/// cannot be written, for a lock that does not become free and for a bug.
fn exit_code(error: &Error) -> u8 {
    match error {
        Error::UnknownName { .. } => 64,
        Error::NoDisk(_) | Error::DiskGone(..) | Error::Disk { .. } => 69,
        Error::Write(..)
        | Error::Watch(_)
        | Error::Busy(_)
        | Error::Worker(_)
        | Error::Internal(_) => 70,
        _ => 65,
    }
}

/// Refreshes whenever the disk says something else, somebody asks, or five minutes are over; ends
/// with an error only, which is logged: its exit code.
///
/// Where there is nothing to watch that is [`Error::NoDisk`] or [`Error::RefreshRefused`].
pub fn watch(options: &Options, journal: &mut Journal<'_>) -> u8 {
    let watched: Result<Result<u8, Error>, String> = bug::contain(|| {
        let (refresher, settings) = Refresher::open(options, journal)?;
        refresher.insecure.unlock();
        let listener = watch::listen(&options.paths.run, &options.name, settings.owner)?;
        supervise(&refresher, &settings, &listener, journal)
    });
    let watched = watched.unwrap_or_else(|place| Err(Error::Internal(place)));
    watched.unwrap_or_else(|error| verdict(Err(error), journal).code)
}

/// A file, and where it comes from.
struct Refresher {
    paths: Paths,
    target: Target,
    insecure: Insecure,
    origins: Origins,
    include_loop: bool,
    /// Whether [`Refresher::enter_sandbox`] does anything.
    sandbox: bool,
    /// How long a disk may take to answer.
    patience: Duration,
}

impl Refresher {
    /// With the lock, in a guest where initdata was accepted and the boot found a disk.
    fn open(options: &Options, journal: &mut Journal<'_>) -> Result<(Self, Settings), Error> {
        let paths = options.paths.clone();
        let settings = Settings::load(&paths.settings)
            .map_err(|source| Error::Settings(paths.settings.clone(), source))?;
        let target = settings
            .target(&options.name)
            .ok_or_else(|| Error::unknown_name(&options.name, &settings.names()))?
            .clone();
        let refresher = Self {
            target,
            insecure: Insecure::open(&paths.run, settings.owner)?,
            origins: Origins::make(&paths.run)?,
            include_loop: options.include_loop,
            sandbox: options.sandbox,
            patience: options.patience,
            paths,
        };
        refresher.lock_accepted(journal)?;
        refresher.origin()?;
        Ok((refresher, settings))
    }

    /// Keeps runs out, one of which could refuse what is placed here a moment later.
    fn lock_accepted(&self, journal: &mut Journal<'_>) -> Result<(), Error> {
        self.insecure.lock(LOCK_PATIENCE, journal)?;
        if self.insecure.is_refused() {
            return Err(Error::RefreshRefused);
        }
        Ok(())
    }

    fn enter_sandbox(&self, settings: &Settings, journal: &mut Journal<'_>) -> Result<(), Error> {
        if !self.sandbox {
            return Ok(());
        }
        let results = vec![
            (self.insecure.directory(), Grant::Files),
            (self.origins.directory(), Grant::Read),
        ];
        sandbox::enter(&self.paths, settings, results, None, WATCH_CALLS, journal)
    }

    /// Which disk the file comes from.
    fn origin(&self) -> Result<String, Error> {
        let note = self.origins.read(&self.target)?;
        note.ok_or(Error::NoDisk(self.target.magic))
    }

    /// That disk.
    fn disk(&self) -> Result<Disk, Error> {
        let (magic, include_loop) = (self.target.magic, self.include_loop);
        let disk = disk::again(&self.paths, &self.origin()?, magic, include_loop)?;
        if disk.is_read_only() { Ok(disk) } else { Err(Error::Writable(disk.name)) }
    }

    /// One refresh, with runs kept out.
    fn once(&self, journal: &mut Journal<'_>) -> Result<Refreshed, Error> {
        let accepted = self.lock_accepted(journal);
        let result = accepted.and_then(|()| self.locked(journal));
        self.insecure.unlock();
        result
    }

    fn locked(&self, journal: &mut Journal<'_>) -> Result<Refreshed, Error> {
        let (disk, target) = (self.disk()?, &self.target);
        let image = read(&disk, target, journal)?;
        let refreshed = replace(&self.insecure, target, &image.document)?;
        let text = format!(
            "{}: {}/{} {}, {} bytes",
            disk.name,
            insecure::DIRECTORY,
            target.file.as_str(),
            refreshed.word(),
            image.document.len()
        );
        match refreshed {
            Refreshed::Unchanged => journal.detail(text),
            _ => journal.info(text),
        }
        Ok(refreshed)
    }
}

fn replace(insecure: &Insecure, target: &Target, document: &[u8]) -> Result<Refreshed, Error> {
    if insecure.holds(target, document) {
        return Ok(Refreshed::Unchanged);
    }
    if document.is_empty() {
        insecure.clear(target)?;
        return Ok(Refreshed::Removed);
    }
    insecure.store(target, document)?;
    Ok(Refreshed::Replaced)
}

/// The image on the disk, read until it makes sense.
fn read(disk: &Disk, target: &Target, journal: &mut Journal<'_>) -> Result<Image, Error> {
    let end = Instant::now() + PATIENCE;
    let _asks = asks(&disk.name);
    let mut reads = 1;
    loop {
        match verify::decode(&disk.name, disk, target.magic) {
            Err(error) if Instant::now() < end => {
                journal.detail(format_args!("read {reads}: {}", error.line()));
                reads += 1;
                sleep(PAUSE);
            }
            Ok(image) => {
                if reads > 1 {
                    journal.info(format_args!(
                        "{}: made sense at the {reads}. reading; the host was rewriting it",
                        disk.name
                    ));
                }
                return Ok(image);
            }
            Err(error) => return Err(error),
        }
    }
}
