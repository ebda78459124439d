//! One device node: which disk it is, and what its first bytes say.

use std::borrow::Cow;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use config_image::{HEADER_BYTES, Magic, ReadAt};
use linux_sys::first_sectors::SECTOR_BYTES;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, major, minor, openat, readlinkat};
use rustix::io::{Errno, read};

use super::{Disk, Skipped};
use crate::direct::Direct;
use crate::paths::Paths;

/// What sysfs calls devices without hardware: loop, zram, ram, device mapper, md, nbd. Multipath
/// NVMe is virtual too, but not a block device without hardware.
const VIRTUAL: &[u8] = b"devices/virtual/block/";

/// Room for a link in sysfs, so that it is read at once.
const LINK_BYTES: usize = 256;

/// Room for a number of 64 bits and the line's end.
const MAX_NUMBER_BYTES: usize = 32;

/// Where nodes and their directories in sysfs are, open, so that each look-up is a short one.
pub(super) struct Directories<'a> {
    paths: &'a Paths,
    dev: OwnedFd,
    /// Missing in a kernel without any block device.
    numbers: Option<OwnedFd>,
}

impl<'a> Directories<'a> {
    pub(super) fn open(paths: &'a Paths) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &Path| openat(CWD, path, flags, Mode::empty());
        Ok(Self { paths, dev: open(&paths.dev)?, numbers: open(&paths.numbers).ok() })
    }

    fn attribute(&self, name: &str, attribute: &str) -> PathBuf {
        self.paths.block.join(name).join(attribute)
    }

    /// Where in the tree of devices the open node is. A plain file, which stands for a disk in
    /// tests, is where its name is.
    fn place(&self, name: &str, stat: &Stat) -> Result<CString, Skipped> {
        let buffer = Vec::with_capacity(LINK_BYTES);
        let link = match FileType::from_raw_mode(stat.st_mode) {
            FileType::BlockDevice => {
                let numbers = self.numbers.as_ref().ok_or(Errno::NOENT);
                let number = format!("{}:{}", major(stat.st_rdev), minor(stat.st_rdev));
                numbers.and_then(|numbers| readlinkat(numbers, number, buffer))
            }
            _ => readlinkat(CWD, self.paths.block.join(name), buffer),
        };
        link.map_err(|errno| Skipped::Link(errno.into()))
    }
}

/// What a disk carries, and its device number.
pub(super) struct Carries {
    pub(super) magic: Magic,
    number: u64,
}

/// A block device, open.
pub(super) struct Node<'name> {
    name: &'name str,
    file: Direct,
    /// Whether it counts without hardware too.
    is_disk: bool,
}

impl From<Node<'_>> for OwnedFd {
    fn from(node: Node<'_>) -> Self {
        node.file.into()
    }
}

impl AsFd for Node<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl<'name> Node<'name> {
    /// Opens the device that sysfs calls `name`, which can be read then without any harm.
    pub(super) fn open(
        directories: &Directories<'_>,
        name: &'name str,
        include_loop: bool,
    ) -> Result<Self, Skipped> {
        let file = match Direct::open(&directories.dev, &node(name)) {
            Ok(file) => file,
            // Paths of a multipath disk have no node.
            Err(_) if flag(&directories.attribute(name, "hidden")) => return Err(Skipped::Hidden),
            Err(errno) => return Err(Skipped::Open(errno.into())),
        };
        let node = Self { name, file, is_disk: include_loop && name.starts_with("loop") };
        // A character device could do something when it is read.
        if !node.file.is_direct() {
            node.stat(directories)?;
        }
        Ok(node)
    }

    /// What the kernel tells about the node, which is a disk's.
    fn stat(&self, directories: &Directories<'_>) -> Result<Stat, Skipped> {
        let stat = self.file.stat();
        let stat = stat.map_err(|errno| Skipped::Open(errno.into()))?;
        let is_disk = match FileType::from_raw_mode(stat.st_mode) {
            FileType::BlockDevice => true,
            FileType::RegularFile => !directories.attribute(self.name, "dev").exists(),
            _ => false,
        };
        match is_disk {
            true => Ok(stat),
            false => {
                Err(Skipped::OtherNode { expected: self.name.to_owned(), found: "none".to_owned() })
            }
        }
    }

    /// What the disk carries, if it is one and that is one of `magics`. `sector` is its first one,
    /// where it was read already.
    ///
    /// sysfs is asked only about what could matter: most devices carry no magic.
    pub(super) fn judge(
        &self,
        directories: &Directories<'_>,
        magics: &[Magic],
        sector: Option<&[u8; SECTOR_BYTES]>,
    ) -> Result<Carries, Skipped> {
        let magic = match self.magic(sector) {
            Err(fault @ Skipped::Read(_)) => {
                self.identify(directories)?;
                return Err(fault);
            }
            other => other?,
        };
        if !magics.contains(&magic) {
            return Err(Skipped::OtherMagic(magic));
        }
        let stat = self.identify(directories)?;
        if flag(&directories.attribute(self.name, "removable")) {
            return Err(Skipped::Removable);
        }
        let number = stat.st_rdev;
        Ok(Carries { magic, number })
    }

    /// The disk that was judged.
    pub(super) fn disk(
        self,
        directories: &Directories<'_>,
        carries: &Carries,
        sector: Option<&[u8; SECTOR_BYTES]>,
    ) -> Disk {
        Disk {
            name: self.name.to_owned(),
            magic: carries.magic,
            number: carries.number,
            attributes: directories.paths.block.join(self.name),
            file: self.file,
            first: sector.copied(),
        }
    }

    /// What the first bytes say.
    fn magic(&self, sector: Option<&[u8; SECTOR_BYTES]>) -> Result<Magic, Skipped> {
        let mut header = [0; HEADER_BYTES];
        match sector {
            Some(sector) => header.copy_from_slice(&sector[..HEADER_BYTES]),
            None => self.read(&mut header)?,
        }
        match header.as_chunks::<8>().0 {
            [magic, _] => Magic::new(*magic).map_err(|_| Skipped::NoMagic),
            _ => Err(Skipped::NoMagic),
        }
    }

    /// Reads the first bytes of what is empty, shorter than a sector, has larger ones, or cannot be
    /// read.
    fn read(&self, header: &mut [u8]) -> Result<(), Skipped> {
        match self.file.read_exact_at(header, 0) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => match self.file.size() {
                Ok(0) => Err(Skipped::Empty),
                _ => Err(Skipped::NoMagic),
            },
            // A drive without a medium.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOMEDIUM) => {
                Err(Skipped::Empty)
            }
            other => other.map_err(Skipped::Read),
        }
    }

    /// Whether the node is the disk that was listed, and hardware.
    fn identify(&self, directories: &Directories<'_>) -> Result<Stat, Skipped> {
        let stat = self.stat(directories)?;
        let place = directories.place(self.name, &stat)?;
        let place = place.as_bytes();
        if !self.is_disk && from_root(place).starts_with(VIRTUAL) {
            return Err(Skipped::Virtual);
        }
        if place.rsplit(|byte| *byte == b'/').next() != Some(self.name.as_bytes()) {
            return Err(Skipped::OtherNode {
                expected: self.name.to_owned(),
                found: String::from_utf8_lossy(place).into_owned(),
            });
        }
        Ok(stat)
    }
}

/// A link in sysfs without its way up.
fn from_root(mut link: &[u8]) -> &[u8] {
    while let Some(rest) = link.strip_prefix(b"../") {
        link = rest;
    }
    link
}

/// The kernel writes '/' in a device's name as '!' in sysfs.
fn node(name: &str) -> Cow<'_, str> {
    match name.contains('!') {
        true => name.replace('!', "/").into(),
        false => name.into(),
    }
}

/// Whether a sysfs attribute is `1`; a missing attribute is not.
pub(super) fn flag(path: &Path) -> bool {
    number(path).is_ok_and(|text| text == "1")
}

/// A sysfs attribute that is a number, which one read gives whole.
pub(super) fn number(path: &Path) -> Result<String, Errno> {
    let attribute = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = [0; MAX_NUMBER_BYTES];
    let length = read(&attribute, &mut text)?;
    Ok(String::from_utf8_lossy(text[..length].trim_ascii_end()).into_owned())
}
