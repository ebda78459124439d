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

/// What initdata is held to.
#[derive(Debug)]
pub enum Announced {
    /// What the host announced, as the TEE reports it.
    Field(Field),
    /// Nothing: there is no TEE, and an administrator allowed initdata all the same.
    Unverified,
    /// There is no TEE, and so there may be no initdata either.
    NoPlatform,
}

impl Announced {
    /// Reads what the host announced.
    ///
    /// # Errors
    ///
    /// [`Error::Evidence`].
    pub fn read(
        platform: Option<Box<dyn Evidence>>,
        paths: &Paths,
        journal: &mut Journal<'_>,
    ) -> Result<Self, Error> {
        match platform {
            Some(evidence) => Ok(Self::Field(evidence.field()?)),
            None if unverified_allowed(&paths.cmdline) => {
                journal
                    .warn(format_args!("no TEE, and {ALLOW_UNVERIFIED}: initdata is not verified"));
                Ok(Self::Unverified)
            }
            None => Ok(Self::NoPlatform),
        }
    }

    /// The field that announces initdata, if it does.
    #[must_use]
    pub fn promise(&self) -> Option<&Field> {
        match self {
            Self::Field(field) => (!field.is_zero()).then_some(field),
            Self::Unverified | Self::NoPlatform => None,
        }
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
/// One that is `expected` has to be there.
///
/// # Errors
///
/// Whatever is wrong with it; then nothing was written.
pub fn place(
    scan: &Scan,
    announced: &Announced,
    expected: bool,
    paths: &Paths,
    measured: &Measured,
    policy: &DefaultPolicy,
    journal: &mut Journal<'_>,
) -> Result<Accepted, Error> {
    let Some(disk) = scan.only(Magic::INITDATA)? else {
        if expected {
            return Err(Error::DiskMissing {
                field: announced.promise().map(|field| field.name),
                unreadable: scan.unreadable(),
            });
        }
        // Its serial is the magic. Who attached it meant it to be found.
        scan.require_none_called(&Magic::INITDATA.to_string(), paths)?;
        return absent(measured, policy, journal);
    };
    if matches!(announced, Announced::NoPlatform) {
        return Err(Error::NoPlatform);
    }
    let image = decode(&disk.name, disk, disk.magic)?;
    let document = match announced {
        Announced::Field(field) => {
            let matched = verify(disk, &image, field)?;
            parse_verified(disk, &image, field, matched)?
        }
        Announced::Unverified | Announced::NoPlatform => parse(disk, &image)?,
    };
    for key in &document.unknown_keys {
        journal
            .warn(format_args!("{}: the top-level key \"{key}\" has no meaning here", disk.name));
    }
    let is_default = measured.place(&document, &image.document, policy)?;
    let entries = document.data.len();
    let verified = matches!(announced, Announced::Field(_));
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

/// No disk, and nobody was promised one. Without a TEE too: a real one shows its signs to the
/// kernel whatever the host does, and where there is none nothing was verified for anybody.
fn absent(
    measured: &Measured,
    policy: &DefaultPolicy,
    journal: &mut Journal<'_>,
) -> Result<Accepted, Error> {
    measured.place_policy(&policy.text())?;
    journal.info("no initdata disk, and none was announced");
    policy.tell(journal);
    Ok(Accepted { initdata: Initdata::Absent, source: None })
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
