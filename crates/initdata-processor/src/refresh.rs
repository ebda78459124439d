//! Reading the configuration disk again in a running guest, when the image puller asks: rotated
//! credentials, roots and proxies.

use std::convert::Infallible;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use config_image::Image;
use process_sandbox::files::Grant;
use rustix::fs::Mode;
use rustix::process::umask;

use crate::disks::{self, Disk};
use crate::error::{Class, Error, refused, sentence, unwritten};
use crate::insecure::{self, Insecure};
use crate::journal::Journal;
use crate::paths::Paths;
use crate::settings::{IMAGEPULLER, Owner, Settings};
use crate::{bug, sandbox};

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
    let Err(error) = served.unwrap_or_else(|place| Err(bug::error(&place)));
    journal.error(sentence(&error));
    error.class().code()
}

fn answer_all(options: &Options, journal: &mut Journal<'_>) -> Result<Infallible, Error> {
    let paths = &options.paths;
    let settings = Settings::load(paths)?;
    if !Insecure::is_there(&paths.run) {
        return Err(refused(format!(
            "refresh: {} does not exist: initdata-processor has not run in this guest",
            paths.run.join(insecure::DIRECTORY).display()
        )));
    }
    let insecure = Insecure::make(&paths.run, settings.owner)?;
    let refresher = Refresher { options, insecure };
    refresher.locked(journal, || refresher.origin())?;
    let listener = bind(&options.socket, settings.owner)
        .map_err(|source| unwritten(&options.socket, source))?;
    let results = vec![
        (refresher.insecure.directory(), Grant::Files),
        (refresher.insecure.notes(), Grant::Read),
    ];
    sandbox::enter(paths, settings.owner, results, None, SERVE_CALLS, journal)?;
    loop {
        let (client, _) = listener.accept().map_err(|source| {
            Error::new(Class::Failed, "wait for who asks for a refresh").because(source)
        })?;
        let word = refresher.refresh(journal).unwrap_or_else(|error| {
            journal.error(sentence(&error));
            "failed"
        });
        // By the call that the sandbox has. Whoever has gone away does not want to know.
        let _ = rustix::io::write(&client, word.as_bytes());
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
    insecure: Insecure,
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
            true => Err(refused(
                "refresh: initdata was refused, so no configuration is accepted in this guest",
            )),
            false => work(),
        };
        self.insecure.unlock();
        result
    }

    /// Which disk the boot found.
    fn origin(&self) -> Result<String, Error> {
        self.insecure.noted(&IMAGEPULLER)?.ok_or_else(|| {
            let text = format!(
                "refresh: at boot there was no read-only disk with the magic \"{}\", and others \
                 are not believed in a running guest",
                IMAGEPULLER.magic
            );
            Error::new(Class::NoDisk, text)
        })
    }

    /// One refresh; the word for it.
    fn refresh(&self, journal: &mut Journal<'_>) -> Result<&'static str, Error> {
        let origin = self.origin()?;
        let gone = |name: &str, why: &str| {
            let text =
                format!("refresh: {name}, which the boot found, cannot be used any more: {why}");
            Error::new(Class::NoDisk, text)
        };
        let disk = disks::again(&self.options.paths, &origin, self.options.include_loop)
            .map_err(|(name, why)| gone(&name, &why))?;
        if !disk.is_read_only() {
            return Err(refused(format!(
                "refresh: {} is writable now, so what it says may be a container's: the host must \
                 attach it read-only",
                disk.name
            )));
        }
        let Image { document, .. } = read(&disk, journal)?;
        let word = self.locked(journal, || match self.origin()? == origin {
            true => self.replace(&document),
            false => Err(gone(&disk.name, "another disk is in its place")),
        })?;
        let (directory, file, bytes) = (insecure::DIRECTORY, IMAGEPULLER.file, document.len());
        let text = format!("{}: {directory}/{file} {word}, {bytes} bytes", disk.name);
        match word {
            // Every pull that fails asks.
            "unchanged" => journal.detail(text),
            _ => journal.info(text),
        }
        Ok(word)
    }

    fn replace(&self, document: &[u8]) -> Result<&'static str, Error> {
        if self.insecure.holds(&IMAGEPULLER, document) {
            return Ok("unchanged");
        }
        if document.is_empty() {
            self.insecure.clear(&IMAGEPULLER)?;
            return Ok("removed");
        }
        self.insecure.store(&IMAGEPULLER, document)?;
        Ok("replaced")
    }
}

/// The image on the disk, read until it makes sense.
fn read(disk: &Disk, journal: &mut Journal<'_>) -> Result<Image, Error> {
    let end = Instant::now() + PATIENCE;
    let mut reads = 1;
    loop {
        match disk.decode() {
            Err(error) if Instant::now() < end => {
                journal.detail(format_args!("read {reads}: {}", sentence(&error)));
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
