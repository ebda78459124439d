//! A run: the steps in their order.

use std::time::Duration;

use config_image::Image;

use crate::copy::Copy;
use crate::default_policy::DefaultPolicy;
use crate::evidence::{self, Evidence, EvidenceError};
use crate::find::Search;
use crate::journal::Journal;
use crate::measured::Layout;
use crate::outcome::{Configuration, Configured, Initdata, Outcome, Strict, Verdict};
use crate::paths::Paths;
use crate::refusal::Results;
use crate::report::Report;
use crate::settings::{AcceptedDisk, Settings, Target};
use crate::verify::{Accepted, Announced};
use crate::{Error, bug, disk, sandbox, verify, watch};

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the kernel's interfaces and the results are.
    pub paths: Paths,
    /// Whether loop devices are disks.
    pub include_loop: bool,
    /// Names of the disks without which the search waits.
    pub expect: Vec<String>,
    /// How long it waits.
    pub wait: Duration,
    /// How long all disks together may take to answer, besides.
    pub patience: Duration,
    /// Where verified files go besides `measured-cfg`.
    pub layout: Layout,
    /// Whether rights are given up before the first disk is read. For good, and for the calling
    /// thread: only a library's test leaves it out.
    pub sandbox: bool,
}

/// Verifies initdata, then copies the configurations, on the platform that this machine is, in a
/// process that is watched.
///
/// A panic, which is a bug, ends like refused initdata: without a policy the guest would be open.
/// So does a disk that does not answer.
pub fn run(options: &Options, strict: Strict, journal: &mut Journal<'_>) -> Verdict {
    let mut prepared = match Prepared::new(options, journal) {
        Ok(prepared) => prepared,
        Err(error) => return Outcome::failed(error).verdict(strict),
    };
    let platform = || evidence::platform(&options.paths);
    let work = || {
        let outcome = prepared.work(platform, options, journal);
        outcome.verdict(strict).to_bytes()
    };
    let verdict = watch::begin(work)
        .and_then(|watched| watched.finish(options.wait + options.patience, journal))
        .and_then(|answer| Verdict::from_bytes(&answer));
    verdict.unwrap_or_else(|error| {
        let outcome = prepared.results.refuse_unread(error, journal);
        outcome.verdict(strict)
    })
}

/// [`run`] on a platform of the caller's choice, in this process: for tests.
pub fn run_on(
    platform: impl FnOnce() -> Result<Option<Box<dyn Evidence>>, EvidenceError>,
    options: &Options,
    journal: &mut Journal<'_>,
) -> Outcome {
    match Prepared::new(options, journal) {
        Ok(mut prepared) => prepared.work(platform, options, journal),
        Err(error) => Outcome::failed(error),
    }
}

/// A guest that is closed, and in which the work can begin.
struct Prepared {
    settings: Settings,
    /// What is wrong with the settings.
    mistake: Option<Error>,
    results: Results,
    report: Report,
}

impl Prepared {
    fn new(options: &Options, journal: &mut Journal<'_>) -> Result<Self, Error> {
        let paths = &options.paths;
        let mut report = Report::start();
        let (settings, mistake) = match Settings::load(&paths.settings) {
            Ok(settings) => (settings, None),
            Err(source) => {
                let mistake = Error::Settings(paths.settings.clone(), source);
                (Settings::default(), Some(mistake))
            }
        };
        // As long as another run with these options may take.
        let patience = options.wait + options.patience + watch::END;
        let results = Results::prepare(paths, &settings, options.layout, patience, journal)?;
        report.phase("preparation");
        Ok(Self { settings, mistake, results, report })
    }

    fn work(
        &mut self,
        platform: impl FnOnce() -> Result<Option<Box<dyn Evidence>>, EvidenceError>,
        options: &Options,
        journal: &mut Journal<'_>,
    ) -> Outcome {
        let (settings, results, report) = (&self.settings, &self.results, &mut self.report);
        report.phase("worker");
        let mistake = self.mistake.take();
        let worked = bug::contain(|| {
            let platform = || match mistake {
                Some(mistake) => Err(mistake),
                None => Ok(platform()?),
            };
            steps(platform, options, settings, results, report, journal)
        });
        let outcome = worked.unwrap_or_else(|place| {
            // What was placed before the panic cannot be relied on.
            results.refuse_all(Error::Internal(place), journal)
        });
        report.finish(journal);
        outcome
    }
}

fn steps(
    platform: impl FnOnce() -> Result<Option<Box<dyn Evidence>>, Error>,
    options: &Options,
    settings: &Settings,
    results: &Results,
    report: &mut Report,
    journal: &mut Journal<'_>,
) -> Outcome {
    let placed = initdata(platform, options, settings, results, report, journal);
    let (initdata, search, scan) = match placed {
        Ok(placed) => placed,
        Err(error) => return results.refuse_all(error, journal),
    };
    report.phase("initdata");
    let mut outcome =
        Outcome { initdata: Ok(initdata), configurations: Vec::new(), unwritten: Vec::new() };
    for target in &settings.files {
        let result = configuration(target, options, &search, &scan, results, journal);
        if let Err(error) = &result {
            let refused = results.refuse(target, error, journal);
            outcome.unwritten.extend(refused.err());
        }
        outcome.configurations.push(Configured { name: target.name.clone(), result });
    }
    // Last: from then on a refusal finds no place any more.
    if let Ok(Initdata::Placed { .. }) = outcome.initdata
        && let Err(error) = results.measured.open()
    {
        return results.refuse_all(error, journal);
    }
    report.phase("configuration");
    outcome
}

/// Everything about initdata: evidence, sandbox, search, decode, verify, parse, and only then
/// write.
fn initdata(
    platform: impl FnOnce() -> Result<Option<Box<dyn Evidence>>, Error>,
    options: &Options,
    settings: &Settings,
    results: &Results,
    report: &mut Report,
    journal: &mut Journal<'_>,
) -> Result<(Initdata, Search, disk::Scan), Error> {
    let paths = &options.paths;
    let ready = ready(platform, options, settings, journal);
    let policy = DefaultPolicy::load(paths, settings);
    let copy = match settings.accepted_disk {
        AcceptedDisk::Copy => Some(Copy::prepare(paths)),
        AcceptedDisk::Remove | AcceptedDisk::Keep => None,
    };
    report.phase("platform");
    if options.sandbox {
        let (grants, dev) = (results.grants(), results.dev());
        sandbox::enter(paths, settings, grants, dev, &[], journal)?;
    }
    report.phase("sandbox");

    // Only now: a refusal reads from disks too.
    let (mut search, announced) = ready?;
    let copy = copy.transpose()?;
    let scan = search.run(paths, journal)?;
    report.phase("disks");
    let accepted = verify::place(
        &scan,
        &announced,
        search.expects_initdata(),
        paths,
        &results.measured,
        &policy,
        journal,
    )?;
    leave(&accepted, &scan, settings.accepted_disk, copy, results, journal)?;
    results.insecure.mark_accepted()?;
    Ok((accepted.initdata, search, scan))
}

/// Leaves to an agent that looks for initdata itself what `disk` says, and nothing else.
fn leave(
    accepted: &Accepted,
    scan: &disk::Scan,
    disk: AcceptedDisk,
    copy: Option<Copy>,
    results: &Results,
    journal: &mut Journal<'_>,
) -> Result<(), Error> {
    let source = accepted.source.as_ref();
    let accepted = source.map(|(name, _)| name.as_str());
    // A disk that was read a moment ago is not read once more: it takes as long as the search.
    let known = |name: &str| match accepted == Some(name) {
        true => Some(disk != AcceptedDisk::Keep),
        false => scan.has_no_initdata(name).then_some(false),
    };
    results.withdraw_initdata(known, journal)?;
    match (copy, source) {
        (Some(copy), Some((_, image))) => copy.fill(&image.document),
        _ => Ok(()),
    }
}

/// What is looked for, and what the host announced: all that has to be known before the sandbox.
fn ready(
    platform: impl FnOnce() -> Result<Option<Box<dyn Evidence>>, Error>,
    options: &Options,
    settings: &Settings,
    journal: &mut Journal<'_>,
) -> Result<(Search, Announced), Error> {
    // From the platform's own firmware, not from the host's disks: before the sandbox, which has no
    // room for its ioctl.
    let platform = platform()?;
    let mut search =
        Search::new(&options.paths, settings, &options.expect, options.wait, options.include_loop)?;
    let announced = Announced::read(platform, &options.paths, journal)?;
    if announced.promise().is_some() {
        search.expect_initdata();
    }
    search.prepare(journal);
    Ok((search, announced))
}

/// Notes where a refresh may look, before anything is known about the image: a bad one can be
/// mended.
fn note_origin(
    target: &Target,
    disk: &disk::Disk,
    results: &Results,
    journal: &mut Journal<'_>,
) -> Result<(), Error> {
    if disk.is_read_only() {
        return results.origins.note(target, &disk.identity());
    }
    journal.warn(format_args!(
        "{}: writable: what it says now is the host's, what it says later may be a container's, so \
        {} is never refreshed; the host should attach the disk read-only",
        disk.name, target.name
    ));
    Ok(())
}

/// Everything about one configuration: decode and write.
fn configuration(
    target: &Target,
    options: &Options,
    search: &Search,
    scan: &disk::Scan,
    results: &Results,
    journal: &mut Journal<'_>,
) -> Result<Configuration, Error> {
    let insecure = &results.insecure;
    let Some(disk) = scan.only(target.magic)? else {
        search.may_miss(target, scan, &options.paths)?;
        insecure.clear(target)?;
        journal.info(format_args!(
            "{}: no disk ({} disks could not be read)",
            target.name,
            scan.unreadable()
        ));
        return Ok(Configuration::Absent);
    };
    note_origin(target, disk, results, journal)?;
    let Image { document, .. } = verify::decode(&disk.name, disk, target.magic)?;
    if document.is_empty() {
        insecure.clear(target)?;
        journal.info(format_args!("{}: empty configuration", disk.name));
        return Ok(Configuration::Absent);
    }
    insecure.store(target, &document)?;
    journal.info(format_args!(
        "{}: configuration, {} bytes, in {}/{}; not verified, by design",
        disk.name,
        document.len(),
        crate::insecure::DIRECTORY,
        target.file.as_str()
    ));
    Ok(Configuration::Placed { size: document.len() })
}
