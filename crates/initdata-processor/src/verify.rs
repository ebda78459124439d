//! Initdata against what the host announced.

use config_image::{Image, Magic, ReadAt};
use foreign_text::hex;
use initdata::Document;
use initdata::{Algorithm, Field};

use crate::Error;
use crate::default_policy::DefaultPolicy;
use crate::disk::{Disk, Scan};
use crate::evidence::Evidence;
use crate::journal::Journal;
use crate::kernel_parameter::{ALLOW_UNVERIFIED, unverified_allowed};
use crate::measured::{self, Measured};
use crate::outcome::Initdata;
use crate::paths::Paths;
use crate::watch::asks;

/// What the host announced; `None` without a TEE, where an administrator allowed that.
///
/// # Errors
///
/// [`Error::Evidence`], [`Error::NoPlatform`].
pub fn announced(
    platform: Option<Box<dyn Evidence>>,
    paths: &Paths,
    journal: &mut Journal<'_>,
) -> Result<Option<Field>, Error> {
    match platform {
        Some(evidence) => Ok(Some(evidence.field()?)),
        None if unverified_allowed(&paths.cmdline) => {
            journal.warn(format_args!(
                "no TEE, and {ALLOW_UNVERIFIED}: initdata is not verified"
            ));
            Ok(None)
        }
        None => Err(Error::NoPlatform),
    }
}

/// What is in place, and what it came from.
#[derive(Debug)]
pub struct Accepted {
    /// What is in place.
    pub initdata: Initdata,
    /// The disk's name and the document, where there is one.
    pub source: Option<(String, Image)>,
}

/// Puts initdata in place if there is one and it is the announced one; `policy` if it has none.
///
/// # Errors
///
/// Whatever is wrong with it; then nothing was written.
pub fn place(
    scan: &Scan,
    announced: Option<&Field>,
    measured: &Measured,
    policy: &DefaultPolicy,
    journal: &mut Journal<'_>,
) -> Result<Accepted, Error> {
    let Some(disk) = scan.only(Magic::INITDATA)? else {
        return absent(scan, announced, measured, policy, journal);
    };
    let image = decode(&disk.name, disk, disk.magic)?;
    let document = match announced {
        Some(field) => {
            let matched = verify(disk, &image, field)?;
            parse_verified(disk, &image, field, matched)?
        }
        None => parse(disk, &image)?,
    };
    for key in &document.unknown_keys {
        journal.warn(format_args!(
            "{}: the top-level key \"{key}\" has no meaning here",
            disk.name
        ));
    }
    let is_default = measured.place(&document, &image.document, policy)?;
    let entries = document.data.len();
    let verified = announced.is_some();
    journal.info(format_args!(
        "{}: initdata {}, {} bytes, {}, {entries} entries in {}",
        disk.name,
        if verified { "verified" } else { "NOT verified" },
        image.document.len(),
        document.algorithm,
        measured::DIRECTORY,
    ));
    if is_default {
        policy.tell(journal);
    }
    Ok(Accepted {
        initdata: Initdata::Placed { entries, verified },
        source: Some((disk.name.clone(), image)),
    })
}

/// No disk. That is an answer where nothing was announced, and an attack (or a fault) where
/// something was.
fn absent(
    scan: &Scan,
    announced: Option<&Field>,
    measured: &Measured,
    policy: &DefaultPolicy,
    journal: &mut Journal<'_>,
) -> Result<Accepted, Error> {
    if let Some(field) = announced
        && !field.is_zero()
    {
        return Err(Error::DiskMissing {
            field: field.name,
            unreadable: scan.unreadable(),
        });
    }
    measured.place_policy(&policy.text())?;
    journal.info("no initdata disk, and none was announced");
    policy.tell(journal);
    Ok(Accepted {
        initdata: Initdata::Absent,
        source: None,
    })
}

/// The image on a disk.
///
/// # Errors
///
/// [`Error::Image`].
pub fn decode(disk: &str, source: &impl ReadAt, magic: Magic) -> Result<Image, Error> {
    let _asks = asks(disk);
    config_image::decode(source, magic)
        .map_err(|source| Error::Image(disk.to_owned(), magic, source))
}

fn verify(disk: &Disk, image: &Image, field: &Field) -> Result<Algorithm, Error> {
    field.announces(&image.document).ok_or_else(|| {
        // The start of each is enough to tell documents apart, and leaves the reason readable.
        let digests = Algorithm::ALL.map(|algorithm| {
            let digest = algorithm.digest(&image.document);
            format!("{algorithm} {}...", hex::encode(&digest[..8]))
        });
        Error::Mismatch {
            disk: disk.name.clone(),
            field: field.name,
            expected: hex::encode(&field.bytes),
            found: digests.join(", "),
        }
    })
}

fn parse(disk: &Disk, image: &Image) -> Result<Document, Error> {
    Document::parse(&image.document).map_err(|refusal| Error::Document(disk.name.clone(), refusal))
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
