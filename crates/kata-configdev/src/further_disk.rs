//! `[disks]`: further magics, each with a file of the node that guests get on a disk of its own.
//!
//! What a guest makes of it says its image (`/etc/initdata-processor.toml`); a guest that knows
//! nothing of a magic leaves the disk alone.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use config_image::{EncodeError, MAX_DOCUMENT_BYTES, Magic};
use serde::{Serialize, Serializer};
use zeroize::Zeroizing;

use crate::host_file::{FileError, FileFault, HostFile};
use crate::settings::Settings;
use crate::{capacity, disk};

/// The most of them. A guest's settings take 16; each is a device of the VM. Free to change.
pub const MAX_DISKS: usize = 8;

/// The longest serial that virtio-blk has room for.
const MAX_SERIAL_BYTES: usize = 20;

/// A magic that is none of this project's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FurtherMagic(Magic);

/// The text is no [`FurtherMagic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMagic {
    /// It is no magic.
    #[error("a magic is eight visible ASCII characters")]
    NoMagic,
    /// It is initdata's or the image puller's.
    #[error("this magic has a fixed meaning; initdata and imgpullr are no further disks")]
    Reserved,
}

impl FurtherMagic {
    /// The magic.
    #[must_use]
    pub const fn get(self) -> Magic {
        self.0
    }
}

impl FromStr for FurtherMagic {
    type Err = InvalidMagic;

    fn from_str(text: &str) -> Result<Self, InvalidMagic> {
        let bytes = text.as_bytes().try_into();
        let magic = bytes.ok().and_then(|bytes| Magic::new(bytes).ok());
        match magic.ok_or(InvalidMagic::NoMagic)? {
            Magic::INITDATA | Magic::IMAGEPULLER => Err(InvalidMagic::Reserved),
            magic => Ok(Self(magic)),
        }
    }
}

impl fmt::Display for FurtherMagic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for FurtherMagic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One of the table's entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FurtherDisk {
    /// The file of the node, an absolute path.
    pub source: PathBuf,
    /// The device's serial, and its id for QEMU.
    pub serial: String,
    /// The longest file that is taken, in bytes.
    pub max_bytes: usize,
}

/// Why there is no disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FurtherDiskError {
    /// The file cannot be read, is too long, or not the administrator's.
    #[error("fill the disk \"{0}\": read {1}")]
    Source(FurtherMagic, FileError),
    /// The file does not fit into an image.
    #[error("fill the disk \"{magic}\" from {}: {fault}", path.display())]
    Pack {
        /// The disk.
        magic: FurtherMagic,
        /// The file.
        path: PathBuf,
        /// The broken limit.
        fault: EncodeError,
    },
}

impl FurtherDiskError {
    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Source(_, error) => match error.fault {
                FileFault::TooLong(_) => "shorten it, or raise max-bytes of the disk",
                _ => error.remedy(),
            },
            Self::Pack { .. } => "shorten it: an image has room for 1 MiB after compression",
        }
    }
}

impl FurtherDisk {
    /// The disk of `magic`; without `serial` the magic itself is the serial.
    ///
    /// # Errors
    ///
    /// The broken rule, behind its key.
    pub fn new(
        magic: FurtherMagic,
        source: PathBuf,
        serial: Option<String>,
        max_bytes: Option<usize>,
    ) -> Result<Self, String> {
        let serial = serial.unwrap_or_else(|| magic.to_string());
        // As QEMU wants an id; and those that are taken.
        let is_id = serial.starts_with(|first: char| first.is_ascii_alphabetic())
            && serial.len() <= MAX_SERIAL_BYTES
            && serial.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !is_id || [disk::NAME, "initdata"].contains(&serial.as_str()) {
            return Err("serial: expected at most 20 letters, digits, \".\", \"_\" or \"-\", a \
                letter first, and not initdata or imagepuller; without one the magic itself \
                must be so"
                .into());
        }
        let max_bytes = max_bytes.unwrap_or(MAX_DOCUMENT_BYTES);
        if !(1..=MAX_DOCUMENT_BYTES).contains(&max_bytes) {
            return Err(format!("max-bytes: not between 1 and {MAX_DOCUMENT_BYTES}"));
        }
        Ok(Self { source, serial, max_bytes })
    }

    /// The file's content. Only root's own file is read, as with documents: the guest believes what
    /// its node says.
    ///
    /// # Errors
    ///
    /// [`FurtherDiskError::Source`].
    pub fn read(&self, magic: FurtherMagic) -> Result<Zeroizing<Vec<u8>>, FurtherDiskError> {
        HostFile::open(&self.source)
            .and_then(HostFile::require_administered)
            .and_then(|file| file.read(self.max_bytes))
            .map_err(|fault| FurtherDiskError::Source(magic, fault.at(&self.source)))
    }

    /// The image of the file, with the room that `settings` reserve.
    ///
    /// # Errors
    ///
    /// [`FurtherDiskError`].
    pub fn pack(
        &self,
        magic: FurtherMagic,
        settings: &Settings,
    ) -> Result<Zeroizing<Vec<u8>>, FurtherDiskError> {
        let image = pack(magic, &self.source, &self.read(magic)?)?;
        let size = capacity::size(settings.capacity, settings.transport, image.len());
        Ok(capacity::pad(image, size))
    }
}

/// The image of `content`, which is the file `source`.
///
/// # Errors
///
/// [`FurtherDiskError::Pack`].
pub fn pack(
    magic: FurtherMagic,
    source: &Path,
    content: &[u8],
) -> Result<Zeroizing<Vec<u8>>, FurtherDiskError> {
    config_image::encode(magic.get(), content).map_err(|fault| FurtherDiskError::Pack {
        magic,
        path: source.to_owned(),
        fault,
    })
}
