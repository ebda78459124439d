//! The disks: which block devices are looked at, which carry a magic, and the wait for those that
//! are expected and come late.
//!
//! Disks are those with hardware behind them (virtio-blk, SCSI, NVMe, ...): no partitions, no loop
//! devices unless asked for, nothing removable, hidden or empty. All are looked at, since a second
//! one with the same magic matters; so nothing depends on their order, and serials, which not every
//! device has, are only a hint. Each is read past the page cache, where a container could have left
//! what it wrote.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use config_image::{HEADER_BYTES, Image, Magic, ReadAt};
use rustix::fs::{CWD, Mode, OFlags, major, minor, openat, readlinkat};
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::error::{Error, refused};
use crate::journal::Journal;
use crate::names;
use crate::paths::Paths;
use crate::settings::{IMAGEPULLER, TARGETS};
use crate::watch::{asks, note};

/// The most block devices looked at, without partitions.
///
/// The host attaches them, so their number needs a limit; no guest has a fraction of this. Not part
/// of the format.
pub const MAX_BLOCK_DEVICES: usize = 1024;

/// How many disks with one magic are kept: two are a reason to refuse, more make a longer message.
const MAX_SAME: usize = 4;

/// How many unusable disks are named in the log unless it is verbose: the kernel's log takes ten
/// lines at a time, and the host must not be able to drown the verdict.
const MAX_TOLD: usize = 3;

/// How long after the first look the next one comes; each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The longest pause between two looks.
const LAST_PAUSE: Duration = Duration::from_millis(20);

/// What offset, length and memory of a direct read are multiples of: the largest sector of common
/// disks.
const BLOCK_BYTES: usize = 4096;

/// What sysfs calls devices without hardware: loop, zram, ram, device mapper, md, nbd. Multipath
/// NVMe is virtual too, but not a block device without hardware.
const VIRTUAL: &str = "devices/virtual/block";

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
    file: Direct,
}

impl Disk {
    /// What the kernel tells this disk apart by in this boot: its name, its device number and,
    /// since Linux 5.15, its place in the sequence of all disks that there ever were. A disk that
    /// is plugged in at the place of another differs in the last.
    #[must_use]
    pub fn identity(&self) -> String {
        let sequence = attribute(&self.attributes, "diskseq").unwrap_or_else(|| "-".to_owned());
        let (major, minor) = (major(self.number), minor(self.number));
        format!("{} {major}:{minor} {sequence}", self.name)
    }

    /// Whether the kernel lets nobody write to it, no container either.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        is_set(&self.attributes, "ro")
    }

    /// The image on it.
    ///
    /// # Errors
    ///
    /// It has the right magic and holds no usable image.
    pub fn decode(&self) -> Result<Image, Error> {
        let _asks = asks(&self.name);
        config_image::decode(&self.file, self.magic).map_err(|error| {
            refused(format!("use disk {} (\"{}\")", self.name, self.magic)).because(error)
        })
    }
}

/// Why a block device was passed over.
#[derive(Debug)]
struct Passed {
    name: String,
    reason: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It was read, and carries nothing that is looked for.
    Other,
    /// It is not a disk that counts.
    NoDisk,
    /// It could be a disk that is looked for.
    Fault,
}

/// What a look at all block devices found.
#[derive(Debug)]
pub struct Scan {
    /// The disks with one of the magics, by name; a few of each.
    disks: Vec<Disk>,
    /// The others, by name.
    passed: Vec<Passed>,
}

/// Looks at all disks, at once and then again after short pauses, until every expected one is there
/// or the time is over.
///
/// # Errors
///
/// The block devices cannot be listed, or there are too many.
pub fn search(
    paths: &Paths,
    wait: Duration,
    expected: &[Magic],
    include_loop: bool,
    journal: &mut Journal<'_>,
) -> Result<Scan, Error> {
    let start = Instant::now();
    let (mut looks, mut pause) = (1, FIRST_PAUSE);
    let scan = loop {
        let scan = Scan::of(paths, include_loop)?;
        let Some(missing) = expected.iter().find(|magic| !scan.has(**magic)) else {
            break scan;
        };
        let left = wait.saturating_sub(start.elapsed());
        if left.is_zero() {
            if !wait.is_zero() {
                journal.warn(format_args!(
                    "an expected disk with the magic \"{missing}\" did not appear within {} s",
                    wait.as_secs()
                ));
            }
            break scan;
        }
        sleep(pause.min(left));
        pause = LAST_PAUSE.min(2 * pause);
        looks += 1;
    };
    scan.tell(journal);
    if looks > 1 {
        let waited = start.elapsed().as_secs_f64() * 1000.0;
        let text = format!("waited {waited:.0} ms for late disks, looked {looks} times");
        journal.info(text);
    }
    Ok(scan)
}

/// The disk that [`Disk::identity`] calls `identity`, if it is there and carries the image puller's
/// magic; otherwise its name, and why not.
pub fn again(paths: &Paths, identity: &str, include_loop: bool) -> Result<Disk, (String, String)> {
    let name = identity.split(' ').next().unwrap_or_default();
    let disk = match Looking::begin(paths, include_loop) {
        Ok(mut looking) => looking.at(name).map_err(|passed| passed.reason),
        Err(error) => Err(error.chain()),
    };
    match disk {
        Ok(disk) if disk.identity() == identity && disk.magic == IMAGEPULLER.magic => Ok(disk),
        Ok(_) => Err((name.to_owned(), "another disk is in its place".to_owned())),
        Err(reason) => Err((name.to_owned(), reason)),
    }
}

impl Scan {
    fn of(paths: &Paths, include_loop: bool) -> Result<Self, Error> {
        let mut scan = Self { disks: Vec::new(), passed: Vec::new() };
        let mut looking = Looking::begin(paths, include_loop)?;
        for name in list(&paths.block)? {
            note(&name);
            match looking.at(&name) {
                Ok(disk) if scan.count(disk.magic) < MAX_SAME => scan.disks.push(disk),
                Ok(_) => {}
                Err(passed) => scan.passed.push(passed),
            }
        }
        note("");
        Ok(scan)
    }

    fn count(&self, magic: Magic) -> usize {
        self.disks.iter().filter(|disk| disk.magic == magic).count()
    }

    fn has(&self, magic: Magic) -> bool {
        self.count(magic) > 0
    }

    /// How many disks could not be read.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        self.passed.iter().filter(|passed| passed.kind == Kind::Fault).count()
    }

    /// Whether the disk called `name` was read, and is not initdata.
    #[must_use]
    pub fn has_no_initdata(&self, name: &str) -> bool {
        let is_other = |disk: &Disk| disk.name == name && disk.magic != Magic::INITDATA;
        // By name, as they were looked at.
        let place = self.passed.binary_search_by(|passed| passed.name.as_str().cmp(name));
        self.disks.iter().any(is_other)
            || place.is_ok_and(|place| self.passed[place].kind == Kind::Other)
    }

    /// Requires that no disk whose serial is `serial` was passed over: who attached it meant it to
    /// be found. sysfs is asked for serials only here.
    ///
    /// # Errors
    ///
    /// A disk is `serial`'s by its serial, and not by its content.
    pub fn require_none_called(&self, serial: &str, paths: &Paths) -> Result<(), Error> {
        let is_it = |passed: &&Passed| {
            let text = fs::read_to_string(paths.block.join(&passed.name).join("serial"));
            text.is_ok_and(|text| text.trim() == serial)
        };
        self.passed.iter().find(is_it).map_or(Ok(()), |Passed { name, reason, .. }| {
            Err(refused(format!("use disk {name}, whose serial is \"{serial}\": {reason}")))
        })
    }

    /// The disk that carries `magic`, if there is one.
    ///
    /// # Errors
    ///
    /// Several do: with "the first one wins" the host could choose.
    pub fn only(&self, magic: Magic) -> Result<Option<&Disk>, Error> {
        let found: Vec<&Disk> = self.disks.iter().filter(|disk| disk.magic == magic).collect();
        if found.len() < 2 {
            return Ok(found.first().copied());
        }
        let names: Vec<_> = found.iter().map(|disk| disk.name.as_str()).collect();
        Err(refused(format!(
            "choose the \"{magic}\" disk: {} carry the same magic, and the host must attach one only",
            names.join(", ")
        )))
    }

    /// Tells what became of each block device.
    fn tell(&self, journal: &mut Journal<'_>) {
        let mut told = 0;
        for Passed { name, reason, kind } in &self.passed {
            let text = format_args!("{name}: passed over: {reason}");
            if *kind == Kind::Fault && told < MAX_TOLD {
                journal.warn(text);
                told += 1;
            } else {
                journal.detail(text);
            }
        }
        let untold = self.unreadable() - told;
        if untold > 0 {
            journal.warn(format_args!("passed over: {untold} more disks that could not be read"));
        }
        for Disk { name, magic, .. } in &self.disks {
            journal.detail(format_args!("{name}: offset 0: found the magic \"{magic}\""));
        }
    }
}

/// The names of all block devices but partitions, in an order that lets logs of two boots compare.
fn list(block: &Path) -> Result<Vec<String>, Error> {
    let (mut names, mut count) = (Vec::new(), 0);
    let listed = File::open(block).and_then(|directory| {
        names::each(directory, |name, _| {
            count += 1;
            // The kernel's names are ASCII; another one could not be a disk.
            if let (1..=MAX_BLOCK_DEVICES, Ok(name)) = (count, name.to_str()) {
                names.push(name.to_owned());
            }
            Ok(())
        })
    });
    listed.map_err(|source| {
        refused(format!("list the disks in {}", block.display())).because(source)
    })?;
    if count > MAX_BLOCK_DEVICES {
        let text = format!("list the disks: more than {MAX_BLOCK_DEVICES} block devices");
        return Err(refused(text));
    }
    names.sort_unstable();
    Ok(names)
}

/// What looking at disks takes.
struct Looking<'a> {
    paths: &'a Paths,
    /// The directory of the device nodes, open, so that each look-up is a short one.
    dev: File,
    include_loop: bool,
    block: Block,
}

impl<'a> Looking<'a> {
    fn begin(paths: &'a Paths, include_loop: bool) -> Result<Self, Error> {
        let dev = File::open(&paths.dev).map_err(|source| {
            refused(format!("list the disks in {}", paths.dev.display())).because(source)
        })?;
        Ok(Self { paths, dev, include_loop, block: Block([0; BLOCK_BYTES]) })
    }

    /// Looks at the first bytes of the device that sysfs calls `name`.
    ///
    /// A question to sysfs costs as much as reading a sector, so only about what carries a magic,
    /// or cannot be read, one is asked.
    fn at(&mut self, name: &str) -> Result<Disk, Passed> {
        let passed = |kind, reason: String| Passed { name: name.to_owned(), reason, kind };
        let attributes = self.paths.block.join(name);
        let is_disk = self.include_loop && name.starts_with("loop");
        // The kernel writes '/' in a device's name as '!' in sysfs.
        let file = match Direct::open(&self.dev, &name.replace('!', "/")) {
            Ok(file) => file,
            Err(_) if is_set(&attributes, "hidden") => {
                return Err(passed(Kind::NoDisk, "hidden, a path of another disk".to_owned()));
            }
            Err(error) => {
                return Err(passed(Kind::Fault, format!("open the device node: {error}")));
            }
        };
        // The node is the disk that was listed, and there is hardware behind it; its number.
        let identify = || {
            let number = file.number(&attributes).ok_or_else(|| {
                passed(Kind::Fault, format!("expected the node of {name}, found block device none"))
            })?;
            // A plain file, which stands for a disk in tests, is where its name is.
            let link = match number {
                0 => &attributes,
                _ => &self.paths.numbers.join(format!("{}:{}", major(number), minor(number))),
            };
            let place = readlinkat(CWD, link, Vec::new()).map_err(|errno| {
                let error = io::Error::from(errno);
                passed(Kind::Fault, format!("find the device in sysfs: {error}"))
            })?;
            let place = PathBuf::from(OsString::from_vec(place.into_bytes()));
            let from_root: PathBuf = place.iter().skip_while(|part| *part == "..").collect();
            if !is_disk && from_root.starts_with(VIRTUAL) {
                let reason = "without hardware (loop, zram, device mapper or the like)";
                return Err(passed(Kind::NoDisk, reason.to_owned()));
            }
            if place.file_name() != Some(name.as_ref()) {
                let found = place.display();
                let reason = format!("expected the node of {name}, found block device {found}");
                return Err(passed(Kind::Fault, reason));
            }
            Ok(number)
        };
        // A character device, which could do something when it is read, takes no direct reads.
        if !file.is_direct && file.number(&attributes).is_none() {
            identify()?;
        }
        let no_magic = || passed(Kind::Other, "offset 0: expected a magic, found none".to_owned());
        match file.fill(&mut self.block.0, HEADER_BYTES, 0) {
            Ok(()) => {}
            Err(error)
                if error.kind() == ErrorKind::UnexpectedEof && file.size().ok() != Some(0) =>
            {
                return Err(no_magic());
            }
            Err(error)
                if error.kind() == ErrorKind::UnexpectedEof
                    // A drive without a medium.
                    || Errno::from_io_error(&error) == Some(Errno::NOMEDIUM) =>
            {
                return Err(passed(Kind::NoDisk, "empty".to_owned()));
            }
            Err(error) => {
                identify()?;
                let reason = format!("offset 0: read the first sector: {error}");
                return Err(passed(Kind::Fault, reason));
            }
        }
        let Some(Ok(magic)) = self.block.0.first_chunk().map(|magic| Magic::new(*magic)) else {
            return Err(no_magic());
        };
        if magic != Magic::INITDATA && TARGETS.iter().all(|target| target.magic != magic) {
            let reason = format!("offset 0: expected a magic of this program, found \"{magic}\"");
            return Err(passed(Kind::Other, reason));
        }
        let number = identify()?;
        if is_set(&attributes, "removable") {
            let reason = "it carries a magic, but is removable";
            return Err(passed(Kind::Fault, reason.to_owned()));
        }
        Ok(Disk { name: name.to_owned(), magic, number, attributes, file })
    }
}

/// A sysfs attribute that is a number; `None` where there is none.
fn attribute(attributes: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(attributes.join(name)).ok()?;
    Some(text.trim_ascii_end().to_owned())
}

/// Whether a sysfs attribute is `1`; a missing one is not.
fn is_set(attributes: &Path, name: &str) -> bool {
    attribute(attributes, name).is_some_and(|text| text == "1")
}

/// The first bytes of a disk, where a direct read can put them. Most are no disk of ours, and none
/// holds a secret in its first bytes.
#[repr(C, align(4096))]
struct Block([u8; BLOCK_BYTES]);

/// A disk whose every read asks the device.
#[derive(Debug)]
struct Direct {
    file: File,
    /// Whether the kernel takes direct reads: it does so for block devices and plain files alone.
    is_direct: bool,
}

impl Direct {
    /// Opens the device node `name`, without waiting for anything.
    fn open(directory: impl AsFd, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let open = |flags| openat(&directory, name, flags, Mode::empty());
        let (file, is_direct) = match open(flags | OFlags::DIRECT) {
            // File systems in memory may know no direct reads, and need none: that is for plain
            // files in tests.
            Err(Errno::INVAL) => (open(flags)?, false),
            opened => (opened?, true),
        };
        Ok(Self { file: file.into(), is_direct })
    }

    /// Reads at least `wanted` bytes from `offset` on, which is a block's, into a window of blocks.
    fn fill(&self, window: &mut [u8], wanted: usize, offset: u64) -> io::Result<()> {
        let mut filled = 0;
        while filled < wanted {
            match self.file.read_at(&mut window[filled..], offset + filled as u64) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The device's number; 0 of a plain file where sysfs knows no number; `None` of all that is no
    /// disk.
    fn number(&self, attributes: &Path) -> Option<u64> {
        let metadata = self.file.metadata().ok()?;
        if metadata.file_type().is_block_device() {
            return Some(metadata.rdev());
        }
        (metadata.is_file() && !attributes.join("dev").exists()).then_some(0)
    }
}

impl ReadAt for Direct {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let skipped = (offset % BLOCK_BYTES as u64) as usize;
        let length = (skipped + buffer.len()).next_multiple_of(BLOCK_BYTES);
        let mut memory = Zeroizing::new(vec![0; length + BLOCK_BYTES]);
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        let window = memory.get_mut(start..start + length).ok_or(ErrorKind::OutOfMemory)?;
        self.fill(window, skipped + buffer.len(), offset - skipped as u64)?;
        buffer.copy_from_slice(&window[skipped..skipped + buffer.len()]);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_file_is_read_right() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let bytes: Vec<u8> = (0..10_752_u32).map(|number| (number % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let folder = File::open(directory.path()).unwrap();
        let direct = Direct::open(&folder, "disk").unwrap();
        assert_eq!(direct.size().unwrap(), 10_752);
        for (offset, length) in
            [(0, 16), (16, 500), (0, 10_752), (4095, 2), (4096, 4096), (10_751, 1), (10_752, 0)]
        {
            let mut buffer = vec![0; length];
            direct.read_exact_at(&mut buffer, offset).unwrap();
            assert_eq!(buffer, bytes[offset as usize..][..length], "{offset}");
        }
        let mut buffer = [0; 2];
        let error = direct.read_exact_at(&mut buffer, 10_751).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
