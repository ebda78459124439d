//! The run at boot. The types make the order:
//!
//! - `Closed`: the deny-all policy is on disk, before anything is read but the image's settings. It
//!   stays there whatever becomes of this process.
//! - `Closed::verify` reads the evidence, gives up every right that it does not need, and only
//!   then looks at disks. It places nothing. It ends in an error, or in
//! - `Accepted`, which alone can `Accepted::open` the guest.
//!
//! An error goes to `Closed::refuse`: the policy's text, the error files, the log and the exit
//! code come from that one value. So does a panic, which is a bug, and a disk that does not answer.

use std::time::{Duration, Instant};

use config_image::{Image, Magic};
use foreign_text::hex;
use initdata::{Algorithm, Document, Field};
use rustix::time::{ClockId, clock_gettime};

use crate::agent::{Agent, Copy, Known};
use crate::disks::{Disk, Scan, search};
use crate::error::{Class, Error, refused, sentence};
use crate::insecure::{self, Insecure};
use crate::journal::Journal;
use crate::paths::Paths;
use crate::policy::{self, DefaultPolicy};
use crate::settings::{ALLOW_UNVERIFIED, EXPECT, Settings, TARGETS, Target, Words};
use crate::swap::Swap;
use crate::{bug, evidence, sandbox, watch};

/// The name below `/run` of the directory with what is verified.
const MEASURED: &str = "measured-cfg";

/// What a process takes, at most, besides the time that disks have: to begin, to be ended, to place
/// results.
const END: Duration = Duration::from_secs(5);

/// What tests of the library choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the kernel's interfaces and the results are.
    pub paths: Paths,
    /// Whether loop devices are disks.
    pub include_loop: bool,
    /// Whether rights are given up before the first disk is read. For good, and for the calling
    /// thread: only a library's test leaves it out.
    pub sandbox: bool,
}

/// Verifies initdata, then copies the configurations, in a process that is watched; the exit code.
pub fn run(options: &Options, journal: &mut Journal<'_>) -> u8 {
    let closed = match Closed::begin(options, journal) {
        Ok(closed) => closed,
        Err(error) => {
            journal.error(sentence(&error));
            return error.class().code();
        }
    };
    let limit = closed.settings.wait + closed.settings.patience;
    watch::begin(|| closed.work(|| evidence::field(&options.paths), journal))
        .and_then(|watched| watched.finish(limit, journal))
        .unwrap_or_else(|error| closed.refuse(&error, Disks::Unread, journal))
}

/// [`run`] in this process, in a machine whose evidence the caller chooses: for tests.
pub fn run_on(
    field: impl FnOnce() -> Result<Option<Field>, Error>,
    options: &Options,
    journal: &mut Journal<'_>,
) -> u8 {
    match Closed::begin(options, journal) {
        Ok(closed) => closed.work(field, journal),
        Err(error) => {
            journal.error(sentence(&error));
            error.class().code()
        }
    }
}

/// A guest that may run nothing.
struct Closed<'a> {
    options: &'a Options,
    start: Instant,
    /// What closing took of the processor, in ms; the copy of the process counts anew.
    at_work: f64,
    settings: Settings,
    /// What is wrong with the settings.
    mistake: Option<Error>,
    measured: Swap,
    agent: Agent,
    insecure: Insecure,
}

/// Whether disks can be read for a refusal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disks {
    Readable,
    Unread,
}

/// What initdata is held to.
enum Announced {
    /// What the host announced, as the TEE reports it.
    Field(Field),
    /// Nothing: there is no TEE, and an administrator allowed initdata all the same.
    Unverified,
    /// There is no TEE, and so there may be no initdata either.
    NoPlatform,
}

/// A document that is what the host announced, and where it was.
struct Verified {
    disk: String,
    image: Image,
    document: Document,
    /// Whether its digest was compared with evidence.
    by_evidence: bool,
}

/// A guest that may be opened: initdata is verified, or neither announced nor there.
struct Accepted<'a> {
    closed: &'a Closed<'a>,
    words: Words,
    scan: Scan,
    policy: DefaultPolicy,
    copy: Option<Copy>,
    verified: Option<Verified>,
}

impl<'a> Closed<'a> {
    /// Puts refusals in place, so that a process that is killed leaves a guest that runs nothing.
    /// Before that it waits for another run or refresh to end, but not longer than one may take.
    ///
    /// # Errors
    ///
    /// They cannot be put in place.
    fn begin(options: &'a Options, journal: &mut Journal<'_>) -> Result<Self, Error> {
        let (start, before) = (Instant::now(), processor_ms());
        let paths = &options.paths;
        let (settings, mistake) = match Settings::load(paths) {
            Ok(settings) => (settings, None),
            Err(mistake) => (Settings::default(), Some(mistake)),
        };
        let unfinished = sentence(&refused(
            "finish: initdata-processor was stopped before its end, or is still at work",
        ));
        // The lock before anything is touched: another run may be at work in all directories.
        let insecure = Insecure::make(&paths.run, settings.owner).and_then(|insecure| {
            insecure.lock(settings.wait + settings.patience + END, journal)?;
            Ok(insecure)
        });
        let measured = Swap::prepare(
            &paths.run,
            MEASURED,
            &[(policy::FILE, policy::policy(&unfinished).as_bytes())],
        )?;
        let mut agent = Agent::close(paths, settings.accepted_disk)?;
        let insecure = insecure.and_then(|insecure| {
            insecure.mark_refused()?;
            for target in &TARGETS {
                insecure.refuse(target, &unfinished)?;
                insecure.forget(target)?;
            }
            Ok(insecure)
        });
        match insecure {
            Ok(insecure) => {
                agent.put_back(&paths.dev);
                let at_work = processor_ms() - before;
                Ok(Self { options, start, at_work, settings, mistake, measured, agent, insecure })
            }
            Err(error) => {
                // A guest in which passwords may lie about must not run anything either.
                let text = policy::policy(&sentence(&error));
                measured.place(&[(policy::FILE, text.as_bytes())])?;
                Err(error)
            }
        }
    }

    /// Everything; the exit code.
    fn work(
        &self,
        field: impl FnOnce() -> Result<Option<Field>, Error>,
        journal: &mut Journal<'_>,
    ) -> u8 {
        let worked = bug::contain(|| self.verify(field, journal)?.open(journal));
        // What was placed before a panic cannot be relied on.
        let code = match worked.unwrap_or_else(|place| Err(bug::error(&place))) {
            Ok(code) => code,
            Err(error) => self.refuse(&error, Disks::Readable, journal),
        };
        let total = self.start.elapsed().as_secs_f64() * 1000.0;
        let at_work = self.at_work + processor_ms();
        journal.info(format_args!("finished after {total:.2} ms, {at_work:.2} ms of them at work"));
        code
    }

    /// Everything about initdata, up to the last check.
    fn verify(
        &'a self,
        field: impl FnOnce() -> Result<Option<Field>, Error>,
        journal: &mut Journal<'_>,
    ) -> Result<Accepted<'a>, Error> {
        let paths = &self.options.paths;
        // Before the sandbox, which has no room for them: the platform's own firmware, the image's
        // policy, a device for a copy.
        let words = Words::load(paths);
        let allow_unverified = words.as_ref().is_ok_and(|words| words.allow_unverified);
        let announced = self.announced(field, allow_unverified, journal);
        let policy = DefaultPolicy::load(paths, &self.settings);
        let copy = self.agent.copy(paths);
        if self.options.sandbox {
            let mut grants = self.agent.grants();
            let home = self.measured.home();
            grants.extend(sandbox::results(home, &self.insecure));
            sandbox::enter(paths, self.settings.owner, grants, self.agent.dev(), &[], journal)?;
        }
        // Only now: a refusal reads from disks too.
        let (announced, copy, mut words) = (announced?, copy?, words?);
        let promise = announced.promise();
        words.expected.extend(promise.map(|_| Magic::INITDATA));
        let Closed { options, settings, .. } = self;
        let scan = search(paths, settings.wait, &words.expected, options.include_loop, journal)?;
        let verified = match scan.only(Magic::INITDATA)? {
            Some(disk) => Some(verify(disk, &announced)?),
            None if words.expected.contains(&Magic::INITDATA) => {
                let why = promise.map_or_else(
                    || format!("{EXPECT} names initdata"),
                    |field| format!("{} announces initdata", field.name),
                );
                return Err(refused(format!(
                    "find the initdata disk: {why}, but none of the disks carries the magic \
                     \"initdata\" ({} disks could not be read)",
                    scan.unreadable()
                )));
            }
            // No disk, and nobody was promised one. Without a TEE too: a real one shows its signs
            // to the kernel whatever the host does, and where there is none nothing was verified
            // for anybody. But its serial is the magic.
            None => {
                scan.require_none_called(&Magic::INITDATA.to_string(), paths)?;
                None
            }
        };
        Ok(Accepted { closed: self, words, scan, policy, copy, verified })
    }

    /// What the host announced.
    fn announced(
        &self,
        field: impl FnOnce() -> Result<Option<Field>, Error>,
        allow_unverified: bool,
        journal: &mut Journal<'_>,
    ) -> Result<Announced, Error> {
        if let Some(mistake) = &self.mistake {
            return Err(refused(mistake.chain()));
        }
        match field()? {
            Some(field) => Ok(Announced::Field(field)),
            None if allow_unverified => {
                journal
                    .warn(format_args!("no TEE, and {ALLOW_UNVERIFIED}: initdata is not verified"));
                Ok(Announced::Unverified)
            }
            None => Ok(Announced::NoPlatform),
        }
    }

    /// Refuses initdata and all configurations because of `error`, and leaves no disk with initdata
    /// to the agent; the exit code. A guest that may run nothing gets no password either.
    fn refuse(&self, error: &Error, disks: Disks, journal: &mut Journal<'_>) -> u8 {
        let reason = sentence(error);
        journal.error(format_args!("initdata refused: {reason}"));
        let mut code = error.class().code();
        let mut written = |result: Result<(), Error>, journal: &mut Journal<'_>| {
            if let Err(error) = &result {
                journal.error(sentence(error));
                code = Class::Failed.code();
            }
            result.is_ok()
        };
        // The policy first: it is what keeps the guest from running anything.
        let text = policy::policy(&reason);
        if written(self.measured.place(&[(policy::FILE, text.as_bytes())]), journal) {
            journal.info("deny-all policy in place: measured-cfg/policy.rego");
        }
        written(self.agent.refuse(), journal);
        written(self.insecure.mark_refused(), journal);
        let follows = format!("failed to start the guest: initdata was refused: {reason}");
        for target in &TARGETS {
            written(self.insecure.refuse(target, &follows), journal);
        }
        let withdrawn = match disks {
            Disks::Readable => self.agent.withdraw(|_| Known::Unread, journal),
            Disks::Unread => self.agent.withdraw_all(journal),
        };
        written(withdrawn, journal);
        code
    }
}

impl Announced {
    /// The field that announces initdata, if it does.
    fn promise(&self) -> Option<&Field> {
        match self {
            Self::Field(field) if !field.is_zero() => Some(field),
            _ => None,
        }
    }
}

/// What this process took of the processor.
fn processor_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// The document on `disk`, which must be the announced one. Its digest first: what does not fit is
/// not even parsed.
fn verify(disk: &Disk, announced: &Announced) -> Result<Verified, Error> {
    let name = &disk.name;
    let field = match announced {
        Announced::Field(field) => Some(field),
        Announced::Unverified => None,
        Announced::NoPlatform => {
            return Err(refused(format!(
                "verify initdata: found no sign of SNP or TDX; on a machine without a TEE the \
                 kernel parameter {ALLOW_UNVERIFIED} accepts unverified initdata"
            )));
        }
    };
    let image = disk.decode()?;
    let fits = |field: &Field| {
        field.announces(&image.document).ok_or_else(|| {
            // The start of each is enough to tell documents apart, and leaves the reason readable.
            let digests = Algorithm::ALL.map(|algorithm| {
                let digest = algorithm.digest(&image.document);
                format!("{algorithm} {}...", hex::encode(&digest[..8]))
            });
            refused(format!(
                "verify initdata from disk {name}: expected the digest in {}, {}, found a document \
                 with {}",
                field.name,
                hex::encode(&field.bytes),
                digests.join(", ")
            ))
        })
    };
    let matched = field.map(fits).transpose()?;
    let document = Document::parse(&image.document)
        .map_err(|fault| refused(format!("parse initdata from disk {name}")).because(fault))?;
    // The document's own word must fit the algorithm by which it was verified.
    if let (Some(field), Some(matched)) = (field, matched)
        && document.algorithm != matched
    {
        return Err(refused(format!(
            "verify initdata from disk {name}: the document names {}, but {} holds its {matched} \
             digest",
            document.algorithm, field.name
        )));
    }
    Ok(Verified { disk: name.clone(), image, document, by_evidence: field.is_some() })
}

impl Accepted<'_> {
    /// Leaves the agent its policy and what it may find of initdata, and the image puller its
    /// configuration; the exit code.
    ///
    /// # Errors
    ///
    /// Something cannot be put in place: then the caller refuses, which replaces all of it.
    fn open(self, journal: &mut Journal<'_>) -> Result<u8, Error> {
        let Closed { measured, agent, insecure, .. } = self.closed;
        let accepted = self.verified.as_ref().map(|verified| verified.disk.as_str());
        // A disk that was read a moment ago is not read once more: it takes as long as the search.
        let known = |name: &str| match accepted == Some(name) {
            true if agent.keeps_accepted() => Known::Stays,
            true => Known::Goes,
            false if self.scan.has_no_initdata(name) => Known::Stays,
            false => Known::Unread,
        };
        agent.withdraw(known, journal)?;
        match &self.verified {
            Some(verified) => self.place(verified, journal)?,
            None => {
                journal.info("no initdata disk, and none was announced");
                let text = self.policy.text(journal);
                measured.place(&[(policy::FILE, text.as_bytes())])?;
            }
        }
        insecure.mark_accepted()?;
        let mut code = 0;
        for target in &TARGETS {
            if let Err(error) = self.configuration(target, journal) {
                let reason = sentence(&error);
                journal.error(format_args!("{} refused: {reason}", target.name));
                if let Err(error) = insecure.refuse(target, &reason) {
                    journal.error(sentence(&error));
                    code = Class::Failed.code();
                }
            }
        }
        // Last: from then on a refusal finds no place any more.
        if self.verified.is_some() {
            agent.open()?;
        }
        Ok(code)
    }

    /// Puts verified initdata in place, and where it brings no policy the image's.
    fn place(&self, verified: &Verified, journal: &mut Journal<'_>) -> Result<(), Error> {
        let Closed { measured, agent, .. } = self.closed;
        let Verified { disk, image, document, by_evidence } = verified;
        for key in &document.unknown_keys {
            journal.warn(format_args!("{disk}: the top-level key \"{key}\" has no meaning here"));
        }
        agent.leave(document, &image.document, self.copy.as_ref())?;
        let entries = document.data.iter();
        let mut files: Vec<_> =
            entries.map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
        journal.info(format_args!(
            "{disk}: initdata {}, {} bytes, {}, {} entries in {MEASURED}",
            if *by_evidence { "verified" } else { "NOT verified" },
            image.document.len(),
            document.algorithm,
            files.len(),
        ));
        let default;
        if files.iter().all(|(name, _)| *name != policy::FILE) {
            default = self.policy.text(journal);
            files.push((policy::FILE, default.as_bytes()));
        }
        measured.place(&files)
    }

    /// Everything about one configuration: find, decode and write, and interpret nothing.
    fn configuration(&self, target: &Target, journal: &mut Journal<'_>) -> Result<(), Error> {
        let Closed { options, settings, insecure, .. } = self.closed;
        let Some(disk) = self.scan.only(target.magic)? else {
            // Nobody may take it for one that the host did not mean to give. The puller's disk has
            // the name; the host may also call it by the magic.
            for serial in [target.name, &target.magic.to_string()] {
                self.scan.require_none_called(serial, &options.paths)?;
            }
            let unreadable = self.scan.unreadable();
            if self.words.expected.contains(&target.magic) {
                let text = format!(
                    "find the expected configuration: no disk with the magic \"{}\" came within {} \
                     s ({unreadable} disks could not be read)",
                    target.magic,
                    settings.wait.as_secs()
                );
                return Err(refused(text).remedy("the host must attach it"));
            }
            insecure.clear(target)?;
            journal.info(format_args!(
                "{}: no disk ({unreadable} disks could not be read)",
                target.name
            ));
            return Ok(());
        };
        // Where a refresh may look, before anything is known about the image: a bad one can be
        // mended.
        if disk.is_read_only() {
            insecure.note(target, &disk.identity())?;
        } else {
            journal.warn(format_args!(
                "{}: writable: what it says now is the host's, what it says later may be a \
                 container's, so {} is never refreshed; the host should attach the disk read-only",
                disk.name, target.name
            ));
        }
        let Image { document, .. } = disk.decode()?;
        if document.is_empty() {
            insecure.clear(target)?;
            journal.info(format_args!("{}: empty configuration", disk.name));
            return Ok(());
        }
        insecure.store(target, &document)?;
        journal.info(format_args!(
            "{}: configuration, {} bytes, in {}/{}; not verified, by design",
            disk.name,
            document.len(),
            insecure::DIRECTORY,
            target.file
        ));
        Ok(())
    }
}
