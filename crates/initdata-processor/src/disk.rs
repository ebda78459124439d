//! Which block devices are looked at, and which carry a magic.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use config_image::Magic;
use rustix::fs::{Mode, OFlags, makedev, open};

use crate::Error;
use crate::journal::Journal;
use crate::paths::Paths;

/// The most block devices looked at, partitions included.
///
/// The host attaches them, so their number needs a limit; no guest has a fraction of this. Not part of the format.
pub const MAX_BLOCK_DEVICES: usize = 1024;

/// A disk that carries a magic; held open, so that it stays the same disk.
#[derive(Debug)]
pub struct Disk {
    /// The kernel's name, such as `vdb`.
    pub name: String,
    /// What its first eight bytes say.
    pub magic: Magic,
    /// The disk, read-only.
    pub file: File,
}

/// What a walk over the block devices found.
#[derive(Debug, Default)]
pub struct Scan {
    /// The disks with one of the two magics, by name.
    pub disks: Vec<Disk>,
    /// How many disks could not be read.
    pub unreadable: usize,
}

impl Scan {
    /// The disk that carries `magic`, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::SeveralDisks`]: with "the first one wins" the host could choose.
    pub fn only(&self, magic: Magic) -> Result<Option<&Disk>, Error> {
        let found: Vec<&Disk> = self
            .disks
            .iter()
            .filter(|disk| disk.magic == magic)
            .collect();
        match found.as_slice() {
            [] => Ok(None),
            [disk] => Ok(Some(disk)),
            several => Err(Error::SeveralDisks {
                magic,
                names: several
                    .iter()
                    .map(|disk| disk.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
        }
    }
}

/// Why a block device was passed over.
#[derive(Debug, thiserror::Error)]
enum Skipped {
    #[error("a partition")]
    Partition,
    #[error("without hardware (loop, zram, device mapper or the like)")]
    Virtual,
    #[error("removable")]
    Removable,
    #[error("hidden, a path of another disk")]
    Hidden,
    #[error("empty")]
    Empty,
    #[error("expected the magic of a configuration image, found none")]
    NoMagic,
    #[error("expected a magic of this program, found \"{0}\"")]
    OtherMagic(Magic),
    #[error("read {0} in sysfs: {1}")]
    Attribute(&'static str, io::Error),
    #[error("open the device node: {0}")]
    Open(io::Error),
    #[error("expected the node of block device {expected}, found something else")]
    OtherNode { expected: String },
    #[error("read the first bytes: {0}")]
    Read(io::Error),
}

impl Skipped {
    /// Whether this could be a disk that we wanted.
    fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Attribute(..) | Self::Open(_) | Self::OtherNode { .. } | Self::Read(_)
        )
    }
}

/// Looks at the first bytes of every whole disk.
///
/// Disks are those with hardware behind them (virtio-blk, SCSI, NVMe, ...): no partitions, no loop devices unless
/// `include_loop`, nothing removable, hidden or empty. A disk that cannot be opened or read is reported and passed over.
/// All are looked at, since a second one with the same magic matters.
///
/// # Errors
///
/// [`Error::List`] and [`Error::TooManyDisks`].
pub fn scan(paths: &Paths, include_loop: bool, journal: &mut Journal<'_>) -> Result<Scan, Error> {
    let mut scan = Scan::default();
    for name in names(&paths.block_class)? {
        match examine(paths, &name, include_loop) {
            Ok(disk) => {
                journal.detail(format_args!("{name}: found the magic \"{}\"", disk.magic));
                scan.disks.push(disk);
            }
            Err(reason) if reason.is_fault() => {
                journal.warn(format_args!("{name}: passed over: {reason}"));
                scan.unreadable += 1;
            }
            Err(reason) => journal.detail(format_args!("{name}: passed over: {reason}")),
        }
    }
    Ok(scan)
}

/// The names of all block devices, sorted, so that logs of two boots compare.
fn names(block_class: &Path) -> Result<Vec<String>, Error> {
    let failed = |source| Error::List {
        path: block_class.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(block_class).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if names.len() == MAX_BLOCK_DEVICES {
            return Err(Error::TooManyDisks {
                limit: MAX_BLOCK_DEVICES,
            });
        }
        // The kernel's names are ASCII; another one could not be a disk.
        names.extend(name.into_string());
    }
    names.sort_unstable();
    Ok(names)
}

fn examine(paths: &Paths, name: &str, include_loop: bool) -> Result<Disk, Skipped> {
    let sysfs = paths.block_class.join(name);
    if sysfs.join("partition").exists() {
        return Err(Skipped::Partition);
    }
    // Only what has a parent device is hardware; this leaves out loop, ram, zram, nbd, dm and md by what they are.
    let is_loop = include_loop && name.starts_with("loop");
    if !is_loop && !sysfs.join("device").exists() {
        return Err(Skipped::Virtual);
    }
    if flag(&sysfs.join("hidden")) {
        return Err(Skipped::Hidden);
    }
    if flag(&sysfs.join("removable")) {
        return Err(Skipped::Removable);
    }
    let size = fs::read_to_string(sysfs.join("size"))
        .map_err(|error| Skipped::Attribute("size", error))?;
    if size.trim_end() == "0" {
        return Err(Skipped::Empty);
    }
    let number = match fs::read_to_string(sysfs.join("dev")) {
        Ok(text) => Some(text.trim_end().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Skipped::Attribute("dev", error)),
    };
    // The kernel writes '/' in a device's name as '!' in sysfs.
    let node = paths.dev.join(name.replace('!', "/"));
    // Non-blocking: whatever the node is, opening it must not wait.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file =
        File::from(open(&node, flags, Mode::empty()).map_err(|errno| Skipped::Open(errno.into()))?);
    let metadata = file.metadata().map_err(Skipped::Open)?;
    if !is_expected_node(&metadata, number.as_deref()) {
        return Err(Skipped::OtherNode {
            expected: number.unwrap_or_default(),
        });
    }
    match config_image::probe(&file).map_err(Skipped::Read)? {
        Some(magic @ (Magic::INITDATA | Magic::IMAGEPULLER)) => Ok(Disk {
            name: name.to_owned(),
            magic,
            file,
        }),
        Some(other) => Err(Skipped::OtherMagic(other)),
        None => Err(Skipped::NoMagic),
    }
}

/// Whether the node is the disk that sysfs describes. sysfs always gives a number; where a test's tree gives none,
/// a plain file stands for the disk.
fn is_expected_node(metadata: &fs::Metadata, number: Option<&str>) -> bool {
    match number {
        Some(number) => {
            metadata.file_type().is_block_device() && Some(metadata.rdev()) == device_number(number)
        }
        None => metadata.is_file(),
    }
}

/// `MAJOR:MINOR` as one number.
fn device_number(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Whether a sysfs attribute says yes; an attribute that a driver lacks says no.
fn flag(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.trim_end() == "1")
}
