//! Reading a configuration disk again in a running guest: rotated credentials.

use std::thread::sleep;
use std::time::{Duration, Instant};

use config_image::{DecodeError, HeaderError, Image};
use process_sandbox::files::Grant;

use crate::direct::Direct;
use crate::disk::{self, Disk};
use crate::insecure::{self, Insecure};
use crate::journal::Journal;
use crate::origin::Origins;
use crate::paths::Paths;
use crate::report::Report;
use crate::settings::{Settings, Target};
use crate::{Error, bug, sandbox, verify};

mod watch;

/// The system calls that waiting for others takes.
const WATCH_CALLS: &[libc::c_long] = &[libc::SYS_accept4, libc::SYS_flock];

/// How long a disk is read again that makes no sense: the host may be rewriting it just now.
const PATIENCE: Duration = Duration::from_secs(2);

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

/// Reads the disk anew, not from the page cache, and replaces the file if it differs.
///
/// # Errors
///
/// After an error the file is unchanged: credentials that still work are worth more than none, and
/// a host that spoils the disk could as well have left it alone. A refusal of initdata stays.
pub fn refresh(options: &Options, journal: &mut Journal<'_>) -> Result<Refreshed, Error> {
    bug::contain(|| work(options, journal))
        .unwrap_or_else(|place| Err(Error::Internal(place)))
        .inspect_err(|error| journal.error(error.line()))
}

/// The exit code for an outcome: 0, 64 for an unknown name, 65 for a refusal, 69 without a disk, 70
/// for a result that cannot be written and for a bug.
#[must_use]
pub fn exit_code(outcome: &Result<Refreshed, Error>) -> u8 {
    match outcome {
        Ok(_) => 0,
        Err(Error::UnknownName { .. }) => 64,
        Err(Error::NoDisk(_) | Error::DiskGone(..)) => 69,
        Err(Error::Write(..) | Error::Watch(_) | Error::Internal(_)) => 70,
        Err(_) => 65,
    }
}

fn work(options: &Options, journal: &mut Journal<'_>) -> Result<Refreshed, Error> {
    let mut report = Report::start();
    report.account(&options.paths);
    let (refresher, settings) = Refresher::open(options)?;
    refresher.lock_accepted()?;
    refresher.origin()?;
    if options.sandbox {
        refresher.enter_sandbox(&settings, journal)?;
    }
    report.phase("preparation");
    let refreshed = refresher.locked(journal)?;
    report.phase("disk");
    report.finish(journal);
    Ok(refreshed)
}

/// Refreshes whenever the disk says something else, somebody asks, or five minutes are over; ends
/// with an error only.
///
/// # Errors
///
/// Where there is nothing to watch: [`Error::NoDisk`], [`Error::RefreshRefused`]; and those of
/// preparing.
pub fn watch(options: &Options, journal: &mut Journal<'_>) -> Result<(), Error> {
    let work = |journal: &mut Journal<'_>| {
        let (refresher, settings) = Refresher::open(options)?;
        refresher.lock_accepted()?;
        refresher.origin()?;
        refresher.insecure.unlock();
        let listener = watch::listen(&options.paths.run, &options.name, settings.owner)?;
        if options.sandbox {
            refresher.enter_sandbox(&settings, journal)?;
        }
        watch::watch(&refresher, &listener, journal)
    };
    bug::contain(|| work(journal))
        .unwrap_or_else(|place| Err(Error::Internal(place)))
        .inspect_err(|error| journal.error(error.line()))
}

/// A file, and where it comes from.
struct Refresher {
    paths: Paths,
    target: Target,
    insecure: Insecure,
    origins: Origins,
    include_loop: bool,
}

impl Refresher {
    fn open(options: &Options) -> Result<(Self, Settings), Error> {
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
            paths,
        };
        Ok((refresher, settings))
    }

    /// Keeps runs out, one of which could refuse what is placed here a moment later.
    fn lock_accepted(&self) -> Result<(), Error> {
        self.insecure.lock()?;
        if self.insecure.is_refused() {
            return Err(Error::RefreshRefused);
        }
        Ok(())
    }

    fn enter_sandbox(&self, settings: &Settings, journal: &mut Journal<'_>) -> Result<(), Error> {
        let results = vec![
            (self.insecure.directory(), Grant::Files),
            (self.origins.directory(), Grant::Read),
        ];
        sandbox::enter(&self.paths, settings, results, WATCH_CALLS, journal)
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
        if disk.is_read_only() {
            Ok(disk)
        } else {
            Err(Error::Writable(disk.name))
        }
    }

    /// One refresh, with runs kept out.
    fn once(&self, journal: &mut Journal<'_>) -> Result<Refreshed, Error> {
        let result = self.lock_accepted().and_then(|()| self.locked(journal));
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
    let direct = Direct::open(&disk.node, &disk.file).map_err(|source| {
        let source = DecodeError::Header(HeaderError::Read(source));
        Error::Image(disk.name.clone(), target.magic, source)
    })?;
    let mut reads = 1;
    loop {
        match verify::decode(&disk.name, &direct, target.magic) {
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
