//! Reading the configuration disk again in a running guest, when the image puller asks: rotated
//! credentials, roots and proxies.

use std::convert::Infallible;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use config_image::{Image, Magic};
use process_sandbox::files::Grant;
use rustix::fs::Mode;
use rustix::process::umask;

use crate::disk::{self, Disk};
use crate::insecure::{self, Insecure};
use crate::journal::Journal;
use crate::origin::Origins;
use crate::paths::Paths;
use crate::settings::{Owner, Settings, Target};
use crate::{Error, bug, sandbox, verify};

/// The system calls that serving takes, beyond those of the first run.
const SERVE_CALLS: &[libc::c_long] = &[libc::SYS_accept4, libc::SYS_flock];

/// How long a disk is read again that makes no sense: the host may be rewriting it just now.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the host is given between two reads.
const PAUSE: Duration = Duration::from_millis(70);

/// How long a run is waited for: longer than any takes with its usual limits.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);

/// The options of a refresh.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the kernel's interfaces and the results are.
    pub paths: Paths,
    /// Where to listen for questions.
    pub socket: PathBuf,
    /// Whether loop devices are disks.
    pub include_loop: bool,
}

/// Reads the disk anew for each connection, one after the other, and replaces the file if it
/// differs; the answer is one word: `replaced`, `unchanged`, `removed` or `failed`. Ends with an
/// error only, which is logged: its exit code.
///
/// After `failed`, whose reason is logged, the file is unchanged: credentials that still work are
/// worth more than none, and a host that spoils the disk could as well have left it alone. A read
/// that never comes back holds this process and nobody else: it has no lock, and the puller has a
/// limit of its own.
pub fn serve(options: &Options, journal: &mut Journal<'_>) -> u8 {
    let served = bug::contain(|| answer_all(options, journal));
    let Err(error) = served.unwrap_or_else(|place| Err(Error::Internal(place)));
    journal.error(error.line());
    match error {
        Error::Settings(..) | Error::NotRun(_) | Error::RefreshRefused => 65,
        Error::NoDisk(_) => 69,
        _ => 70,
    }
}

fn answer_all(options: &Options, journal: &mut Journal<'_>) -> Result<Infallible, Error> {
    let paths = &options.paths;
    let settings = Settings::load(&paths.settings)
        .map_err(|source| Error::Settings(paths.settings.clone(), source))?;
    let refresher = Refresher {
        options,
        target: settings.files.first().ok_or(Error::NoDisk(Magic::IMAGEPULLER))?,
        insecure: Insecure::open(&paths.run, settings.owner)?,
        origins: Origins::make(&paths.run)?,
    };
    refresher.locked(journal, || refresher.origin())?;
    let listener = bind(&options.socket, settings.owner)
        .map_err(|source| Error::Write(options.socket.clone(), source))?;
    let results = vec![
        (refresher.insecure.directory(), Grant::Files),
        (refresher.origins.directory(), Grant::Read),
    ];
    sandbox::enter(paths, &settings, results, None, SERVE_CALLS, journal)?;
    loop {
        let (mut client, _) = listener.accept().map_err(Error::Watch)?;
        let word = refresher.refresh(journal).unwrap_or_else(|error| {
            journal.error(error.line());
            "failed"
        });
        // Whoever has gone away does not want to know.
        let _ = client.write_all(word.as_bytes());
    }
}

/// Listens, in the place of an earlier process. Only `owner`, or root, may connect.
fn bind(path: &Path, owner: Option<Owner>) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let before = umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    if let Some(Owner { user, group }) = owner {
        chown(path, Some(user), Some(group))?;
    }
    bound
}

/// The file, and where it comes from.
struct Refresher<'a> {
    options: &'a Options,
    target: &'a Target,
    insecure: Insecure,
    origins: Origins,
}

impl Refresher<'_> {
    /// Does `work` in a guest where initdata was accepted, and keeps runs out meanwhile, one of
    /// which could refuse what is placed here a moment later.
    fn locked<T>(
        &self,
        journal: &mut Journal<'_>,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.insecure.lock(LOCK_PATIENCE, journal)?;
        let result = match self.insecure.is_refused() {
            true => Err(Error::RefreshRefused),
            false => work(),
        };
        self.insecure.unlock();
        result
    }

    /// Which disk the boot found.
    fn origin(&self) -> Result<String, Error> {
        self.origins.read(self.target)?.ok_or(Error::NoDisk(self.target.magic))
    }

    /// One refresh; the word for it.
    fn refresh(&self, journal: &mut Journal<'_>) -> Result<&'static str, Error> {
        let origin = self.origin()?;
        let Options { paths, include_loop, .. } = self.options;
        let disk = disk::again(paths, &origin, self.target.magic, *include_loop)?;
        if !disk.is_read_only() {
            return Err(Error::Writable(disk.name));
        }
        let Image { document, .. } = read(&disk, self.target.magic, journal)?;
        let word = self.locked(journal, || match self.origin()? == origin {
            true => self.replace(&document),
            false => {
                let reason = "another disk is in its place".to_owned();
                Err(Error::DiskGone(disk.name.clone(), reason))
            }
        })?;
        let file = self.target.file.as_str();
        let (directory, bytes) = (insecure::DIRECTORY, document.len());
        journal.info(format_args!("{}: {directory}/{file} {word}, {bytes} bytes", disk.name));
        Ok(word)
    }

    fn replace(&self, document: &[u8]) -> Result<&'static str, Error> {
        if self.insecure.holds(self.target, document) {
            return Ok("unchanged");
        }
        if document.is_empty() {
            self.insecure.clear(self.target)?;
            return Ok("removed");
        }
        self.insecure.store(self.target, document)?;
        Ok("replaced")
    }
}

/// The image on the disk, read until it makes sense.
fn read(disk: &Disk, magic: Magic, journal: &mut Journal<'_>) -> Result<Image, Error> {
    let end = Instant::now() + PATIENCE;
    let mut reads = 1;
    loop {
        match verify::decode(&disk.name, disk, magic) {
            Err(error) if Instant::now() < end => {
                journal.detail(format_args!("read {reads}: {}", error.line()));
                reads += 1;
                sleep(PAUSE);
            }
            Ok(image) if reads > 1 => {
                journal.info(format_args!(
                    "{}: made sense at the {reads}. reading; the host was rewriting it",
                    disk.name
                ));
                return Ok(image);
            }
            decoded => return decoded,
        }
    }
}
