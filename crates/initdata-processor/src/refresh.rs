//! Reading a configuration disk again in a running guest: rotated credentials.

use std::thread::sleep;
use std::time::{Duration, Instant};

use config_image::{DecodeError, HeaderError, Image};

use crate::direct::Direct;
use crate::disk::{self, Disk};
use crate::insecure::{self, Insecure};
use crate::journal::Journal;
use crate::origin::Origins;
use crate::paths::Paths;
use crate::report::Report;
use crate::settings::{Settings, Target};
use crate::{Error, bug, sandbox, verify};

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
        Err(Error::Write(..) | Error::Internal(_)) => 70,
        Err(_) => 65,
    }
}

fn work(options: &Options, journal: &mut Journal<'_>) -> Result<Refreshed, Error> {
    let paths = &options.paths;
    let mut report = Report::start(paths);
    let settings = Settings::load(&paths.settings)
        .map_err(|source| Error::Settings(paths.settings.clone(), source))?;
    let target = settings
        .target(&options.name)
        .ok_or_else(|| Error::unknown_name(&options.name, &settings.names()))?;
    let insecure = Insecure::open(&paths.run, settings.owner)?;
    // A run at the same time could refuse what is placed here a moment later.
    insecure.lock()?;
    if insecure.is_refused() {
        return Err(Error::RefreshRefused);
    }
    let identity = Origins::make(&paths.run)?.read(target)?;
    let identity = identity.ok_or(Error::NoDisk(target.magic))?;
    if options.sandbox {
        let files = process_sandbox::files::Grant::Files;
        let results = vec![(insecure.directory(), files)];
        sandbox::enter(paths, &settings, results, journal)?;
    }
    report.phase("preparation");

    let disk = disk::again(paths, &identity, target.magic, options.include_loop)?;
    if !disk.is_read_only() {
        return Err(Error::Writable(disk.name));
    }
    report.phase("disk");
    let image = read(&disk, target, journal)?;
    report.phase("reading");
    let refreshed = replace(&insecure, target, &image.document)?;
    let size = image.document.len();
    journal.info(format_args!(
        "{}: {}/{} {}, {size} bytes",
        disk.name,
        insecure::DIRECTORY,
        target.file.as_str(),
        refreshed.word()
    ));
    report.finish(journal);
    Ok(refreshed)
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
