//! The steps, in their order.

use std::time::{Duration, Instant};

use config_image::{Image, Magic};

use crate::digest::{Algorithm, Field, hex};
use crate::disk::{self, Disk, Scan};
use crate::evidence::{self, Evidence, EvidenceError};
use crate::initdata::Document;
use crate::insecure;
use crate::journal::Journal;
use crate::kernel_parameter::{ALLOW_UNVERIFIED, unverified_allowed};
use crate::measured;
use crate::paths::Paths;
use crate::{Error, printable, refusal};

/// What to do it with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the kernel's interfaces and the results are.
    pub paths: Paths,
    /// Whether loop devices are disks.
    pub include_loop: bool,
}

/// What became of initdata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initdata {
    /// None was announced, and there is none: `measured-cfg` is empty.
    Absent,
    /// `measured-cfg` holds the entries.
    Placed {
        /// How many.
        entries: usize,
        /// Whether the digest was compared with evidence.
        verified: bool,
    },
}

/// What became of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// No disk, or an empty document.
    Absent,
    /// `insecure-cfg/imagepuller.toml` holds it.
    Placed {
        /// Its size in bytes.
        size: usize,
    },
}

/// What became of both.
#[derive(Debug)]
pub struct Outcome {
    /// Initdata. An error here stands in the deny-all policy.
    pub initdata: Result<Initdata, Error>,
    /// The configuration. An error here stands in `imagepuller.error`.
    pub configuration: Result<Configuration, Error>,
    /// What could not be written although it had to be: a refusal that nobody will read.
    pub unwritten: Vec<Error>,
}

impl Outcome {
    /// 0; 65 with `strict` if something was refused; 70 if a refusal could not be put in place, or after a panic.
    #[must_use]
    pub fn exit_code(&self, strict: bool) -> u8 {
        let panicked = matches!(self.initdata, Err(Error::Internal { .. }));
        if panicked || !self.unwritten.is_empty() {
            70
        } else if strict && (self.initdata.is_err() || self.configuration.is_err()) {
            65
        } else {
            0
        }
    }
}

/// Verifies initdata, then copies the configuration, on the platform that this machine is.
///
/// A panic, which is a bug, ends like refused initdata: without a policy the guest would be open.
pub fn run(options: &Options, journal: &mut Journal<'_>) -> Outcome {
    let work =
        |journal: &mut Journal<'_>| steps(evidence::platform(&options.paths), options, journal);
    refusal::contain(&options.paths, journal, work)
}

/// [`run`] on a platform of the caller's choice.
pub fn run_on(
    platform: Result<Option<Box<dyn Evidence>>, EvidenceError>,
    options: &Options,
    journal: &mut Journal<'_>,
) -> Outcome {
    let work = |journal: &mut Journal<'_>| steps(platform, options, journal);
    refusal::contain(&options.paths, journal, work)
}

fn steps(
    platform: Result<Option<Box<dyn Evidence>>, EvidenceError>,
    options: &Options,
    journal: &mut Journal<'_>,
) -> Outcome {
    let start = Instant::now();
    let scan = disk::scan(&options.paths, options.include_loop, journal);
    let scanned = start.elapsed();
    // A failed walk is told once, as initdata's error; the configuration then is refused because of that.
    let (scan, initdata) = match scan {
        Ok(scan) => {
            let initdata = initdata(&scan, platform, &options.paths, journal);
            (scan, initdata)
        }
        Err(error) => (Scan::default(), Err(error)),
    };
    let mut unwritten = Vec::new();
    if let Err(error) = &initdata {
        unwritten.extend(refusal::initdata(error, &options.paths, journal).err());
    }
    let verified = start.elapsed();

    let configuration = match &initdata {
        Ok(_) => configuration(&scan, &options.paths, journal),
        Err(error) => Err(refusal::follows(error)),
    };
    if let Err(error) = &configuration {
        if initdata.is_ok() {
            journal.error(format_args!("configuration refused: {}", error.line()));
        }
        unwritten.extend(refusal::configuration(error, &options.paths, journal).err());
    }
    let end = start.elapsed();
    let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
    journal.info(format_args!(
        "finished after {:.2} ms: disks {:.2}, initdata {:.2}, configuration {:.2}",
        ms(end),
        ms(scanned),
        ms(verified - scanned),
        ms(end - verified)
    ));
    Outcome {
        initdata,
        configuration,
        unwritten,
    }
}

/// Everything about initdata: decode, verify, parse, and only then write.
fn initdata(
    scan: &Scan,
    platform: Result<Option<Box<dyn Evidence>>, EvidenceError>,
    paths: &Paths,
    journal: &mut Journal<'_>,
) -> Result<Initdata, Error> {
    let disk = scan.only(Magic::INITDATA)?;
    let announced = match platform? {
        Some(evidence) => Some(evidence.field()?),
        None if unverified_allowed(&paths.cmdline).unwrap_or(false) => {
            journal.warn(format_args!(
                "no TEE, and {ALLOW_UNVERIFIED}: initdata is not verified"
            ));
            None
        }
        None => return Err(Error::NoPlatform),
    };
    let Some(disk) = disk else {
        return absent(scan, announced.as_ref(), paths, journal);
    };
    let image = decode(disk)?;
    let (document, verified) = match &announced {
        Some(field) => {
            let matched = verify(disk, &image, field)?;
            (parse_verified(disk, &image, field, matched)?, true)
        }
        None => (parse(disk, &image)?, false),
    };
    for key in &document.unknown_keys {
        journal.warn(format_args!(
            "{}: the top-level key \"{key}\" has no meaning here",
            disk.name
        ));
    }
    measured::replace(
        &paths.run,
        document
            .data
            .iter()
            .map(|(name, content)| (name, content.as_bytes())),
    )?;
    let entries = document.data.len();
    journal.info(format_args!(
        "{}: initdata {}, {} bytes, {}, {entries} entries in {}",
        disk.name,
        if verified { "verified" } else { "NOT verified" },
        image.document.len(),
        document.algorithm,
        measured::DIRECTORY,
    ));
    Ok(Initdata::Placed { entries, verified })
}

/// No disk. That is an answer where nothing was announced, and an attack (or a fault) where something was.
fn absent(
    scan: &Scan,
    announced: Option<&Field>,
    paths: &Paths,
    journal: &mut Journal<'_>,
) -> Result<Initdata, Error> {
    if let Some(field) = announced
        && !field.is_zero()
    {
        return Err(Error::DiskMissing {
            field: field.name,
            skipped: scan.unreadable,
        });
    }
    measured::replace(&paths.run, [])?;
    journal.info("no initdata disk, and none was announced");
    Ok(Initdata::Absent)
}

fn decode(disk: &Disk) -> Result<Image, Error> {
    config_image::decode(&disk.file, disk.magic).map_err(|source| Error::Image {
        disk: disk.name.clone(),
        magic: disk.magic,
        source,
    })
}

fn verify(disk: &Disk, image: &Image, field: &Field) -> Result<Algorithm, Error> {
    field.announces(&image.document).ok_or_else(|| {
        // The start of each is enough to tell documents apart, and leaves the reason readable.
        let digests = Algorithm::ALL.map(|algorithm| {
            let digest = algorithm.digest(&image.document);
            format!("{algorithm} {}...", hex(&digest[..8]))
        });
        Error::Mismatch {
            disk: disk.name.clone(),
            field: field.name,
            expected: hex(&field.bytes),
            found: digests.join(", "),
        }
    })
}

fn parse(disk: &Disk, image: &Image) -> Result<Document, Error> {
    Document::parse(&image.document).map_err(|source| Error::Document {
        disk: disk.name.clone(),
        source,
    })
}

/// The document's own word must fit the algorithm by which it was verified.
fn parse_verified(
    disk: &Disk,
    image: &Image,
    field: &Field,
    matched: Algorithm,
) -> Result<Document, Error> {
    let document = parse(disk, image)?;
    if document.algorithm != matched {
        return Err(Error::OtherAlgorithm {
            disk: disk.name.clone(),
            field: field.name,
            named: document.algorithm,
            matched,
        });
    }
    Ok(document)
}

/// Everything about the configuration: decode and write.
fn configuration(
    scan: &Scan,
    paths: &Paths,
    journal: &mut Journal<'_>,
) -> Result<Configuration, Error> {
    let Some(disk) = scan.only(Magic::IMAGEPULLER)? else {
        insecure::clear(&paths.run)?;
        journal.info(format_args!(
            "no configuration disk ({} disks could not be read)",
            scan.unreadable
        ));
        return Ok(Configuration::Absent);
    };
    let image = decode(disk)?;
    if image.document.is_empty() {
        insecure::clear(&paths.run)?;
        journal.info(printable(&format!("{}: empty configuration", disk.name)));
        return Ok(Configuration::Absent);
    }
    insecure::store(&paths.run, &image.document)?;
    let size = image.document.len();
    journal.info(format_args!(
        "{}: configuration, {size} bytes, in {}/{}; not verified, by design",
        disk.name,
        insecure::DIRECTORY,
        insecure::FILE
    ));
    Ok(Configuration::Placed { size })
}
