//! One entry of an archive, made of its header and of the records before it.

use tar::{EntryType, Header};

use super::archive::MAX_PATH_BYTES;
use super::archive_error::ArchiveError;
use super::number;
use super::pax::{Records, Time, Xattr};
use super::sparse::Sparse;

/// The largest numbers of a device that Linux keeps: what is larger would become another device.
const MAX_MAJOR: u32 = (1 << 12) - 1;
const MAX_MINOR: u32 = (1 << 20) - 1;

/// Where a header has its type.
const TYPE_AT: usize = 156;

/// One entry. Its path is unchecked: it is what the archive says.
#[derive(Debug)]
pub struct Entry {
    /// Its place among the headers of the archive, from 1.
    pub number: u64,
    /// Name, any bytes.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits with set-uid, set-gid and sticky.
    pub mode: u32,
    /// Owner; none where the archive says -1, which leaves what a new file gets.
    pub uid: Option<u32>,
    /// Group, as the owner.
    pub gid: Option<u32>,
    /// Time of the last modification.
    pub mtime: Time,
    /// Extended attributes.
    pub xattrs: Vec<Xattr>,
    /// How many bytes of content follow in the archive.
    pub stored: u64,
    /// Of a file with holes, where its content belongs.
    pub holes: Option<Sparse>,
}

/// The kinds of entries.
#[derive(Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file; its content is read from the archive next.
    File,
    /// Another name of a file that came before.
    HardLink(Vec<u8>),
    /// A symbolic link.
    Symlink(Vec<u8>),
    /// A directory.
    Directory,
    /// A character device with major and minor number.
    CharacterDevice(u32, u32),
    /// A block device.
    BlockDevice(u32, u32),
    /// A named pipe.
    Fifo,
}

/// What precedes an entry and concerns it.
#[derive(Default)]
pub(crate) struct Preface {
    pub(crate) records: Option<Records>,
    pub(crate) long_path: Option<Vec<u8>>,
    pub(crate) long_link: Option<Vec<u8>>,
}

impl Preface {
    /// How the entry is called, and what it links to. Where several say it, the one holds that Go's
    /// reader takes, so that what a scanner saw is made.
    pub(crate) fn names(
        &mut self,
        records: &mut Records,
        header: &Header,
    ) -> Result<(Vec<u8>, Vec<u8>), ArchiveError> {
        let path = (records.sparse.name.clone())
            .or(self.long_path.take())
            .or(records.path.take())
            .unwrap_or_else(|| header.path_bytes().into_owned());
        let link = self.long_link.take().or(records.link_path.take());
        let link = link
            .or_else(|| header.link_name_bytes().map(|link| link.into_owned()))
            .unwrap_or_default();
        let limit = MAX_PATH_BYTES as u64;
        ArchiveError::check("the length of its path", path.len() as u64, limit)?;
        ArchiveError::check("the length of its link", link.len() as u64, limit)?;
        Ok((path, link))
    }
}

/// An owner or group, out of a record or else out of the header's field. The kernel's numbers have
/// 32 bits: negative ones are what they are in two's complement, and -1 means "leave it".
pub(crate) fn owner(record: Option<i64>, field: &[u8]) -> Result<Option<u32>, ArchiveError> {
    let unreadable = ArchiveError::Header("its owner or group cannot be read");
    let id = record.or_else(|| number::field(field)).ok_or(unreadable)?;
    if let Some(id) = u32::try_from(id).ok().filter(|id| *id != u32::MAX) {
        return Ok(Some(id));
    }
    if id == i64::from(u32::MAX) {
        return Ok(None);
    }
    // Cut to what the kernel has, anything else would become another owner, root among them.
    let id = i32::try_from(id).map_err(|_| {
        ArchiveError::Header("its owner or group is a number that Linux does not have")
    })?;
    Ok((id != -1).then_some(id.cast_unsigned()))
}

/// The time in a header's own field.
pub(crate) fn time(field: &[u8]) -> Result<Time, ArchiveError> {
    let seconds = number::field(field).ok_or(ArchiveError::Header("its time cannot be read"))?;
    Ok(Time { seconds, nanoseconds: 0 })
}

/// The mode in a header's own field.
pub(crate) fn mode(field: &[u8]) -> Result<u32, ArchiveError> {
    let mode = number::field(field).and_then(|mode| u32::try_from(mode).ok());
    Ok(mode.ok_or(ArchiveError::Header("its mode cannot be read"))? & 0o7777)
}

/// What an entry is.
pub(crate) fn kind(header: &Header, path: &[u8], link: Vec<u8>) -> Result<EntryKind, ArchiveError> {
    Ok(match header.entry_type() {
        // Before there were types, a slash at the end told directories.
        EntryType::Regular if path.ends_with(b"/") && header.as_bytes()[TYPE_AT] == 0 => {
            EntryKind::Directory
        }
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => EntryKind::File,
        EntryType::Link => EntryKind::HardLink(link),
        EntryType::Symlink => EntryKind::Symlink(link),
        EntryType::Directory => EntryKind::Directory,
        EntryType::Char => {
            let (major, minor) = device(header)?;
            EntryKind::CharacterDevice(major, minor)
        }
        EntryType::Block => {
            let (major, minor) = device(header)?;
            EntryKind::BlockDevice(major, minor)
        }
        EntryType::Fifo => EntryKind::Fifo,
        other => return Err(ArchiveError::Kind(char::from(other.as_byte()))),
    })
}

fn device(header: &Header) -> Result<(u32, u32), ArchiveError> {
    let number = |field: &[u8], max| {
        let number = number::count(field).and_then(|number| u32::try_from(number).ok());
        number.filter(|number| *number <= max)
    };
    // The fields are in the same place in both forms that have them.
    let fields = header.as_ustar().map(|fields| (fields.dev_major, fields.dev_minor));
    let fields = fields.or_else(|| {
        let fields = header.as_gnu()?;
        Some((fields.dev_major, fields.dev_minor))
    });
    let (major, minor) =
        fields.ok_or(ArchiveError::Header("its form has no place for a device"))?;
    let numbers = number(&major, MAX_MAJOR).zip(number(&minor, MAX_MINOR));
    numbers.ok_or(ArchiveError::Header("its device has numbers that Linux does not have"))
}
