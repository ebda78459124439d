//! Which block devices are looked at, and which carry a magic.

mod node;
mod scan;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config_image::{Magic, ReadAt};
use linux_sys::closing::close_all;
use linux_sys::first_sectors::{FirstSectors, SECTOR_BYTES};
use rustix::fs::{major, minor};

use crate::direct::Direct;
use crate::paths::Paths;
use crate::watch::asks;
use crate::{Error, names};
use node::{Directories, Node};

pub use scan::Scan;

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
        let sequence = node::number(&self.attributes.join("diskseq"));
        let sequence = sequence.as_deref().unwrap_or("-");
        let (major, minor) = (major(self.number), minor(self.number));
        format!("{} {major}:{minor} {sequence}", self.name)
    }

    /// Whether the kernel lets nobody write to it, no container either.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        node::flag(&self.attributes.join("ro"))
    }
}

/// How many disks with one magic are kept: two are a reason to refuse, more make a longer message.
const MAX_SAME: usize = 4;

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
    let mut names: Vec<&str> = names.lines().collect();
    // So that logs of two boots compare. Numbers are compared faster than text.
    names.sort_by_cached_key(|name| (beginning(name), *name));
    scan.passed_over.reserve(names.len());
    let directories =
        Directories::open(paths).map_err(|errno| Error::List(paths.dev.clone(), errno.into()))?;
    for batch in names.chunks(BATCH) {
        let mut nodes = Vec::with_capacity(batch.len());
        let asked = asks("");
        for name in batch {
            asked.next(name);
            match Node::open(&directories, name, include_loop) {
                Ok(node) => nodes.push((*name, node)),
                Err(reason) => scan.passed_over.push(((*name).to_owned(), reason)),
            }
        }
        drop(asked);
        let sectors = first_sectors(&nodes, reads);
        let asked = asks("");
        let mut others: Vec<OwnedFd> = Vec::with_capacity(nodes.len());
        for ((name, node), sector) in nodes.into_iter().zip(sectors) {
            asked.next(name);
            match node.judge(&directories, magics, sector) {
                Ok(carries) if scan.count(carries.magic) < MAX_SAME => {
                    scan.disks.push(node.disk(&directories, &carries, sector));
                }
                judged => {
                    others.push(node.into());
                    let reason = judged.err().map(|reason| (name.to_owned(), reason));
                    scan.passed_over.extend(reason);
                }
            }
        }
        close_all(others);
    }
    scan.passed_over.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(scan)
}

/// The first sector of each, where it can be read like this.
fn first_sectors<'a>(
    nodes: &[(&str, Node<'_>)],
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
        .and_then(|node| {
            let carries = node.judge(&directories, &[magic], None)?;
            Ok(node.disk(&directories, &carries, None))
        })
        .map_err(|reason| gone(reason.to_string()))?;
    if disk.identity() == identity {
        Ok(disk)
    } else {
        Err(gone("another disk is in its place".to_owned()))
    }
}

/// As a number that is larger where the text is, and the same only where 16 bytes are.
fn beginning(name: &str) -> u128 {
    let mut bytes = [0; 16];
    let length = name.len().min(bytes.len());
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    u128::from_be_bytes(bytes)
}

/// The names of all block devices but partitions, each on a line.
fn names(block: &Path) -> Result<String, Error> {
    let (mut names, mut count) = (String::with_capacity(1024), 0);
    let listed = File::open(block).and_then(|directory| {
        names::each(directory, |name, _| {
            count += 1;
            // The kernel's names are ASCII; another one could not be a disk.
            if let (1..=MAX_BLOCK_DEVICES, Ok(name)) = (count, name.to_str()) {
                names.push_str(name);
                names.push('\n');
            }
            Ok(())
        })
    });
    match listed {
        Ok(()) if count <= MAX_BLOCK_DEVICES => Ok(names),
        Ok(()) => Err(Error::TooManyDisks),
        Err(source) => Err(Error::List(block.to_owned(), source)),
    }
}
