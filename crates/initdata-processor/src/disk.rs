//! Which block devices are looked at, and which carry a magic.

mod node;

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config_image::{Magic, ReadAt};
use linux_sys::first_sectors::{FirstSectors, SECTOR_BYTES};
use rustix::fs::{major, minor};

use crate::Error;
use crate::direct::Direct;
use crate::journal::Journal;
use crate::paths::Paths;
use crate::watch::asks;
use node::{Directories, Node};

/// The most block devices looked at, without partitions.
///
/// The host attaches them, so their number needs a limit; no guest has a fraction of this. Not part
/// of the format.
pub const MAX_BLOCK_DEVICES: usize = 1024;

/// A disk that carries a magic; held open, so that it stays the same disk.
#[derive(Debug)]
pub struct Disk {
    /// The kernel's name, such as `vdb`.
    pub name: String,
    /// What its first eight bytes say.
    pub magic: Magic,
    /// Its device number.
    number: u64,
    /// Its directory in sysfs.
    attributes: PathBuf,
    /// The disk, read-only.
    file: Direct,
    /// What it said first, where that was kept: it is not read once more.
    first: Option<[u8; SECTOR_BYTES]>,
}

impl ReadAt for Disk {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let known = self.first.as_ref().and_then(|first| {
            let start = usize::try_from(offset).ok()?;
            first.get(start..start.checked_add(buffer.len())?)
        });
        match known {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => self.file.read_exact_at(buffer, offset)?,
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

impl Disk {
    /// What the kernel tells this disk apart by in this boot: its name, its device number and,
    /// since Linux 5.15, its place in the sequence of all disks that there ever were. A disk that
    /// is plugged in at the place of another differs in the last.
    #[must_use]
    pub fn identity(&self) -> String {
        let sequence = fs::read_to_string(self.attributes.join("diskseq"));
        let sequence = sequence.as_deref().map_or("-", str::trim_end);
        let (major, minor) = (major(self.number), minor(self.number));
        format!("{} {major}:{minor} {sequence}", self.name)
    }

    /// Whether the kernel lets nobody write to it, no container either.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        node::flag(&self.attributes.join("ro"))
    }
}

/// What a walk over the block devices found.
#[derive(Debug, Default)]
pub struct Scan {
    /// The disks with one of the wanted magics, by name; a few of each.
    pub disks: Vec<Disk>,
    /// The others, by name, and why.
    passed_over: Vec<(String, Skipped)>,
}

impl Scan {
    /// Whether a disk carries `magic`.
    #[must_use]
    pub fn has(&self, magic: Magic) -> bool {
        self.count(magic) > 0
    }

    fn count(&self, magic: Magic) -> usize {
        let disks = self.disks.iter();
        disks.filter(|disk| disk.magic == magic).count()
    }

    /// How many disks could not be read.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        let faults = self.passed_over.iter();
        faults.filter(|(_, reason)| reason.is_fault()).count()
    }

    /// Whether the disk called `name` was read, and is not initdata.
    #[must_use]
    pub fn has_no_initdata(&self, name: &str) -> bool {
        let passed_over = &self.passed_over;
        // By name, as they were looked at.
        let place = passed_over.binary_search_by(|(other, _)| other.as_str().cmp(name));
        place.is_ok_and(|place| {
            let reason = &passed_over[place].1;
            matches!(reason, Skipped::NoMagic | Skipped::OtherMagic(_))
        })
    }

    /// The first disk that was passed over and whose serial is `serial`, and why it was. sysfs is
    /// asked for serials only here: they are a hint.
    #[must_use]
    pub fn passed_over(&self, serial: &str, paths: &Paths) -> Option<(String, String)> {
        let is_it = |name: &str| {
            let text = fs::read_to_string(paths.block.join(name).join("serial"));
            text.is_ok_and(|text| text.trim() == serial)
        };
        let mut disks = self.passed_over.iter();
        let (name, reason) = disks.find(|(name, _)| is_it(name))?;
        Some((name.clone(), reason.to_string()))
    }

    /// Tells what became of each block device.
    pub fn tell(&self, journal: &mut Journal<'_>) {
        let mut told = 0;
        for (name, reason) in &self.passed_over {
            let text = format_args!("{name}: passed over: {reason}");
            if reason.is_fault() && told < MAX_TOLD {
                journal.warn(text);
                told += 1;
            } else {
                journal.detail(text);
            }
        }
        let untold = self.unreadable() - told;
        if untold > 0 {
            journal.warn(format_args!(
                "passed over: {untold} more disks that could not be read"
            ));
        }
        for disk in &self.disks {
            journal.detail(format_args!(
                "{}: offset 0: found the magic \"{}\"",
                disk.name, disk.magic
            ));
        }
    }

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

/// How many disks with one magic are kept: two are a reason to refuse, more make a longer message.
const MAX_SAME: usize = 4;

/// How many unusable disks are named in the log unless it is verbose: the kernel's log takes ten
/// lines at a time, and the host must not be able to drown the verdict.
const MAX_TOLD: usize = 3;

/// How many disks are open at the same time, so that their first sectors are read at the same time.
const BATCH: usize = 128;

/// How long all of them have before the slowest is the one that is waited for.
const TICK: Duration = Duration::from_millis(100);

/// Reads of many disks at the same time.
#[derive(Debug)]
pub struct Reads(Option<FirstSectors>);

impl Reads {
    /// Takes what that takes, before the sandbox closes. In a kernel that cannot do it the disks
    /// are read one after the other.
    #[must_use]
    pub fn prepare() -> Self {
        Self(FirstSectors::new(BATCH).ok())
    }
}

/// Why a block device was passed over.
#[derive(Debug, thiserror::Error)]
enum Skipped {
    #[error("without hardware (loop, zram, device mapper or the like)")]
    Virtual,
    #[error("it carries a magic, but is removable")]
    Removable,
    #[error("hidden, a path of another disk")]
    Hidden,
    #[error("empty")]
    Empty,
    #[error("offset 0: expected a magic, found none")]
    NoMagic,
    #[error("offset 0: expected a magic of this program, found \"{0}\"")]
    OtherMagic(Magic),
    #[error("find the device in sysfs: {0}")]
    Link(io::Error),
    #[error("open the device node: {0}")]
    Open(io::Error),
    #[error("expected the node of {expected}, found block device {found}")]
    OtherNode { expected: String, found: String },
    #[error("offset 0: read the first sector: {0}")]
    Read(io::Error),
}

impl Skipped {
    /// Whether this could be a disk that we wanted.
    fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Link(_)
                | Self::Open(_)
                | Self::OtherNode { .. }
                | Self::Read(_)
                | Self::Removable
        )
    }
}

/// Looks at the first bytes of every whole disk.
///
/// Disks are those with hardware behind them (virtio-blk, SCSI, NVMe, ...): no partitions, no loop
/// devices unless `include_loop`, nothing removable, hidden or empty. A disk that cannot be opened
/// or read, or that vanishes meanwhile, is passed over. All are looked at, since a second one with
/// the same magic matters; so nothing depends on their order, and serials, which not every device
/// has, are not asked for.
///
/// A question to sysfs costs as much as reading a sector, so only about what carries a magic, or
/// cannot be read, one is asked.
///
/// # Errors
///
/// [`Error::List`] and [`Error::TooManyDisks`].
pub fn scan(
    paths: &Paths,
    magics: &[Magic],
    include_loop: bool,
    reads: &mut Reads,
) -> Result<Scan, Error> {
    let mut scan = Scan::default();
    let names = names(&paths.block)?;
    let directories =
        Directories::open(paths).map_err(|errno| Error::List(paths.dev.clone(), errno.into()))?;
    for batch in names.chunks(BATCH) {
        let mut nodes = Vec::with_capacity(batch.len());
        for name in batch {
            let _asks = asks(name);
            match Node::open(&directories, name, include_loop) {
                Ok(node) => nodes.push((name, node)),
                Err(reason) => scan.passed_over.push((name.clone(), reason)),
            }
        }
        let sectors = first_sectors(&nodes, reads);
        for ((name, node), sector) in nodes.into_iter().zip(sectors) {
            let _asks = asks(name);
            match node.disk(&directories, magics, sector) {
                Ok(disk) if scan.count(disk.magic) < MAX_SAME => scan.disks.push(disk),
                Ok(_) => {}
                Err(reason) => scan.passed_over.push((name.clone(), reason)),
            }
        }
    }
    scan.passed_over.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(scan)
}

/// The first sector of each, where it can be read like this.
fn first_sectors<'a>(
    nodes: &[(&String, Node)],
    reads: &'a mut Reads,
) -> Vec<Option<&'a [u8; SECTOR_BYTES]>> {
    let Some(reads) = &mut reads.0 else {
        return vec![None; nodes.len()];
    };
    let disks: Vec<_> = nodes.iter().map(|(_, node)| node.as_fd()).collect();
    let mut asked = None;
    reads.read(&disks, TICK, |slowest| {
        // The other one's mark goes first.
        asked = None;
        asked = nodes.get(slowest).map(|(name, _)| asks(name));
    })
}

/// The disk that [`Disk::identity`] calls `identity`, if it is there and carries `magic`.
///
/// # Errors
///
/// [`Error::List`], [`Error::DiskGone`].
pub fn again(
    paths: &Paths,
    identity: &str,
    magic: Magic,
    include_loop: bool,
) -> Result<Disk, Error> {
    let directories =
        Directories::open(paths).map_err(|errno| Error::List(paths.dev.clone(), errno.into()))?;
    let name = identity.split(' ').next().unwrap_or_default();
    let _asks = asks(name);
    let gone = |reason: String| Error::DiskGone(name.to_owned(), reason);
    let disk = Node::open(&directories, name, include_loop)
        .and_then(|node| node.disk(&directories, &[magic], None))
        .map_err(|reason| gone(reason.to_string()))?;
    if disk.identity() == identity {
        Ok(disk)
    } else {
        Err(gone("another disk is in its place".to_owned()))
    }
}

/// The names of all block devices but partitions, sorted, so that logs of two boots compare.
fn names(block: &Path) -> Result<Vec<String>, Error> {
    let failed = |source| Error::List(block.to_owned(), source);
    let mut names = Vec::new();
    for entry in fs::read_dir(block).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if names.len() == MAX_BLOCK_DEVICES {
            return Err(Error::TooManyDisks);
        }
        // The kernel's names are ASCII; another one could not be a disk.
        names.extend(name.into_string());
    }
    names.sort_unstable();
    Ok(names)
}
