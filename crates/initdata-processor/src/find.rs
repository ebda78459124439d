//! The search for disks, and the wait for those that are expected and come late.

use std::time::{Duration, Instant};

use config_image::Magic;

use crate::disk::{self, Reads, Scan};
use crate::journal::Journal;
use crate::paths::Paths;
use crate::settings::{Settings, Target};
use crate::uevent::Uevents;
use crate::{Error, kernel_parameter};

/// How long an expected disk is waited for, unless the command line says otherwise.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(3);

/// The kernel parameter that names expected disks, separated by commas.
pub const EXPECT: &str = "configdev.expect=";

/// What people call the measured document's disk.
const INITDATA: &str = "initdata";

/// What is looked for, and how long.
#[derive(Debug)]
pub struct Search {
    /// The magics that mean something.
    wanted: Vec<Magic>,
    /// Those without which the search waits.
    expected: Vec<Magic>,
    wait: Duration,
    include_loop: bool,
    /// There before the first look, so that no announcement is missed.
    events: Option<Uevents>,
    reads: Reads,
}

impl Search {
    /// A search for initdata and for the disks in `settings`.
    ///
    /// Expected are those that `names` and the kernel parameter [`EXPECT`] name.
    ///
    /// # Errors
    ///
    /// [`Error::CommandLine`], [`Error::UnknownName`].
    pub fn new(
        paths: &Paths,
        settings: &Settings,
        names: &[String],
        wait: Duration,
        include_loop: bool,
    ) -> Result<Self, Error> {
        let mut wanted = vec![Magic::INITDATA];
        wanted.extend(settings.files.iter().map(|target| target.magic));
        // Nobody knows what one that cannot be read expects.
        let by_parameter = kernel_parameter::values(&paths.cmdline, EXPECT)
            .map_err(|source| Error::CommandLine(paths.cmdline.clone(), source))?;
        let by_parameter =
            by_parameter.iter().flat_map(|value| value.split(',')).filter(|name| !name.is_empty());
        let expected = names
            .iter()
            .map(String::as_str)
            .chain(by_parameter)
            .map(|name| magic(settings, name))
            .collect::<Result<_, _>>()?;
        Ok(Self { wanted, expected, wait, include_loop, events: None, reads: Reads::prepare() })
    }

    /// Expects initdata too: the evidence announces it.
    pub fn expect_initdata(&mut self) {
        self.expected.push(Magic::INITDATA);
    }

    /// Whether the guest does not go on without initdata.
    #[must_use]
    pub fn expects_initdata(&self) -> bool {
        self.expected.contains(&Magic::INITDATA)
    }

    /// Refuses to do without the configuration `target`, which no disk in `scan` carries, where it
    /// is expected, or where a disk has its name or its magic for a serial: nobody may take it for
    /// one that the host did not mean to give.
    ///
    /// # Errors
    ///
    /// [`Error::PassedOver`], [`Error::ConfigurationMissing`].
    pub fn may_miss(&self, target: &Target, scan: &Scan, paths: &Paths) -> Result<(), Error> {
        // The puller's disk has the name; the host may also call it by the magic.
        for serial in [target.name.clone(), target.magic.to_string()] {
            scan.require_none_called(&serial, paths)?;
        }
        if self.expected.contains(&target.magic) {
            return Err(Error::ConfigurationMissing {
                magic: target.magic,
                seconds: self.wait.as_secs(),
                unreadable: scan.unreadable(),
            });
        }
        Ok(())
    }

    /// Takes what waiting needs, before the sandbox closes.
    pub fn prepare(&mut self, journal: &mut Journal<'_>) {
        if self.expected.is_empty() || self.wait.is_zero() {
            return;
        }
        match Uevents::open() {
            Ok(events) => self.events = Some(events),
            Err(error) => journal.warn(format_args!(
                "cannot listen to the kernel's announcements of devices, so late disks are not \
                waited for: {error}"
            )),
        }
    }

    /// Looks at all disks, again whenever one comes or changes, until every expected one is there
    /// or the time is over.
    ///
    /// # Errors
    ///
    /// Those of [`disk::scan`].
    pub fn run(&mut self, paths: &Paths, journal: &mut Journal<'_>) -> Result<Scan, Error> {
        let start = Instant::now();
        let deadline = start + self.wait;
        let mut looks = 1;
        let scan = loop {
            let scan = disk::scan(paths, &self.wanted, self.include_loop, &mut self.reads)?;
            let is_missing = |magic: &&Magic| !scan.has(**magic);
            let missing = self.expected.iter().find(is_missing);
            let (Some(missing), Some(events)) = (missing, &self.events) else {
                break scan;
            };
            match events.wait(deadline) {
                Ok(true) => looks += 1,
                Ok(false) => {
                    journal.warn(format_args!(
                        "an expected disk with the magic \"{missing}\" did not appear within {} s",
                        self.wait.as_secs()
                    ));
                    break scan;
                }
                Err(error) => {
                    journal.warn(format_args!("waiting for late disks ended: {error}"));
                    break scan;
                }
            }
        };
        scan.tell(journal);
        if looks > 1 {
            journal.info(format_args!(
                "waited {:.0} ms for late disks, looked {looks} times",
                start.elapsed().as_secs_f64() * 1000.0
            ));
        }
        Ok(scan)
    }
}

fn magic(settings: &Settings, name: &str) -> Result<Magic, Error> {
    if name == INITDATA {
        return Ok(Magic::INITDATA);
    }
    let target = settings.target(name);
    target.map(|target| target.magic).ok_or_else(|| {
        let known = [vec![INITDATA], settings.names()].concat();
        Error::unknown_name(name, &known)
    })
}
