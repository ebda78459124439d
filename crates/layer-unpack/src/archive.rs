//! The entries of a tar archive (ustar, PAX and GNU long names), one after another.
//!
//! The `tar` crate reads single headers. Walking from one header to the next is this module's own
//! code, for two reasons: the records between headers must be bounded, and an entry must be skipped
//! by the same size that it is unpacked with.

use std::io::{self, BufRead, Read};

use tar::{EntryType, Header};

use super::archive_error::ArchiveError;
use super::chunks::read_full;
use super::number;
use super::pax::{self, Records, Time};
use super::sparse::{self, Sparse, SparseRecords};

/// How many entries a layer may have; the largest known images have a few hundred thousand.
pub const MAX_ENTRIES: u64 = 4_000_000;

/// The longest path or link target: Linux's PATH_MAX without the final zero.
pub const MAX_PATH_BYTES: usize = 4095;

/// The most bytes of PAX records of one entry. Linux keeps at most 64 KiB of extended attributes in
/// a value.
pub const MAX_PAX_BYTES: u64 = 1 << 20;

/// The largest numbers of a device that Linux keeps: what is larger would become another device.
const MAX_MAJOR: u32 = (1 << 12) - 1;
const MAX_MINOR: u32 = (1 << 20) - 1;

const BLOCK_BYTES: usize = 512;

/// Where a header has its type.
const TYPE_AT: usize = 156;

/// One entry. Its path is unchecked: it is what the archive says.
#[derive(Debug)]
pub struct Entry {
    /// Name, any bytes.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits with set-uid, set-gid and sticky.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last modification.
    pub mtime: Time,
    /// Extended attributes.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
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

/// An archive being read. As a [`Read`] it gives the content of the entry returned last.
#[derive(Debug)]
pub struct Archive<R> {
    source: R,
    /// Content of the current entry not yet read.
    remaining: u64,
    /// Bytes between the end of that content and the next header.
    padding: u64,
    entries: u64,
    max_entries: u64,
}

/// What precedes an entry and concerns it.
#[derive(Default)]
struct Preface {
    records: Option<Records>,
    long_path: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl<R: Read> Archive<R> {
    /// Reads an archive from its first byte. A layer may have [`MAX_ENTRIES`].
    pub fn new(source: R, max_entries: u64) -> Self {
        Self {
            source,
            remaining: 0,
            padding: 0,
            entries: 0,
            max_entries,
        }
    }

    /// How many headers came so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The next entry; what was not read of the one before is skipped.
    ///
    /// # Errors
    ///
    /// [`ArchiveError`]; nothing more can be read then.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ArchiveError> {
        let mut preface = Preface::default();
        loop {
            self.skip_content()?;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            let broken = ArchiveError::Header(self.entries);
            let size = header.entry_size().map_err(|_| broken)?;
            match header.entry_type() {
                EntryType::XHeader => {
                    let text = self.text(size, MAX_PAX_BYTES, "an extended header")?;
                    preface.records = Some(pax::parse(&text)?);
                }
                // Only comments are ever written there, and a size that concerned all entries would
                // be absurd.
                EntryType::XGlobalHeader => {
                    self.text(size, MAX_PAX_BYTES, "a global header")?;
                }
                EntryType::GNULongName => preface.long_path = Some(self.long_name(size)?),
                EntryType::GNULongLink => preface.long_link = Some(self.long_name(size)?),
                _ => return self.entry(&header, size, preface).map(Some),
            }
        }
    }

    fn entry(
        &mut self,
        header: &Header,
        size: u64,
        preface: Preface,
    ) -> Result<Entry, ArchiveError> {
        let at = self.entries;
        let broken = || ArchiveError::Header(at);
        let records = preface.records.unwrap_or_default();
        // Where several say how it is called, the one holds that Go's reader takes, so that what a
        // scanner saw is made.
        let path = (records.sparse.name.clone())
            .or(preface.long_path)
            .or(records.path)
            .unwrap_or_else(|| header.path_bytes().into_owned());
        let link = preface.long_link.or(records.link_path);
        let link = link
            .or_else(|| header.link_name_bytes().map(|link| link.into_owned()))
            .unwrap_or_default();
        let limit = MAX_PATH_BYTES as u64;
        ArchiveError::check("the length of a path", path.len() as u64, limit)?;
        ArchiveError::check("the length of a link", link.len() as u64, limit)?;
        let kind = entry_kind(header, &path, link, at)?;
        let size = match header.entry_type() {
            // Some tools write how large the directory was, and no tool expects content there.
            EntryType::Directory => 0,
            _ => records.size.unwrap_or(size),
        };
        // Tools disagree whether other kinds have content that is to be skipped, so none may claim
        // any.
        if kind != EntryKind::File && size != 0 {
            return Err(broken());
        }
        self.expect_content(size);
        let holes = self.holes(header, records.sparse)?;
        if kind != EntryKind::File && holes.is_some() {
            return Err(broken());
        }
        let fields = header.as_old();
        let mtime = match records.mtime {
            Some(mtime) => mtime,
            None => Time {
                seconds: number::field(&fields.mtime).ok_or_else(broken)?,
                nanoseconds: 0,
            },
        };
        let mode = number::field(&fields.mode).and_then(|mode| u32::try_from(mode).ok());
        let owner = |record: Option<u64>, field: &[u8]| {
            let field = || number::field(field).and_then(|id| u64::try_from(id).ok());
            let id = record.or_else(field).and_then(|id| u32::try_from(id).ok());
            // The largest number means "leave it" to the kernel.
            id.filter(|id| *id != u32::MAX).ok_or_else(broken)
        };
        Ok(Entry {
            path,
            kind,
            mode: mode.ok_or_else(broken)? & 0o7777,
            uid: owner(records.uid, &fields.uid)?,
            gid: owner(records.gid, &fields.gid)?,
            mtime,
            xattrs: records.xattrs,
            holes,
        })
    }

    /// The map of a file with holes. Reads the part of it that precedes the content.
    fn holes(
        &mut self,
        header: &Header,
        records: SparseRecords,
    ) -> Result<Option<Sparse>, ArchiveError> {
        if header.entry_type() == EntryType::GNUSparse {
            return sparse::old_gnu(header, &mut self.source, self.remaining).map(Some);
        }
        records.map(&mut self.source, &mut self.remaining)
    }

    /// The next header, or nothing at the end of the archive.
    fn header(&mut self) -> Result<Option<Header>, ArchiveError> {
        let mut block = [0; BLOCK_BYTES];
        match read_full(&mut self.source, &mut block).map_err(ArchiveError::read)? {
            0 => return Ok(None),
            BLOCK_BYTES => {}
            _ => return Err(ArchiveError::Truncated),
        }
        if block == [0; BLOCK_BYTES] {
            return Ok(None);
        }
        self.entries += 1;
        ArchiveError::check("the number of entries", self.entries, self.max_entries)?;
        let header = Header::from_byte_slice(&block).clone();
        // The sum counts its own field as eight spaces.
        let sum = |range: &[u8]| range.iter().map(|&byte| u32::from(byte)).sum::<u32>();
        let expected = sum(&block[..148]) + 8 * u32::from(b' ') + sum(&block[156..]);
        match header.cksum() {
            Ok(found) if found == expected => Ok(Some(header)),
            _ => Err(ArchiveError::Header(self.entries)),
        }
    }

    fn expect_content(&mut self, size: u64) {
        let block = BLOCK_BYTES as u64;
        self.padding = (block - size % block) % block;
        self.remaining = size;
    }

    fn skip_content(&mut self) -> Result<(), ArchiveError> {
        let left = self
            .remaining
            .checked_add(self.padding)
            .ok_or(ArchiveError::Truncated)?;
        (self.remaining, self.padding) = (0, 0);
        let skipped = io::copy(&mut self.source.by_ref().take(left), &mut io::sink())
            .map_err(ArchiveError::read)?;
        if skipped == left {
            Ok(())
        } else {
            Err(ArchiveError::Truncated)
        }
    }

    /// The content of a header that concerns the next entry.
    fn text(&mut self, size: u64, limit: u64, what: &'static str) -> Result<Vec<u8>, ArchiveError> {
        ArchiveError::check(what, size, limit)?;
        self.expect_content(size);
        let mut text = Vec::new();
        self.read_to_end(&mut text).map_err(ArchiveError::read)?;
        if text.len() as u64 == size {
            Ok(text)
        } else {
            Err(ArchiveError::Truncated)
        }
    }

    fn long_name(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        let mut name = self.text(size, MAX_PATH_BYTES as u64 + 1, "a long name")?;
        let end = name
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len());
        name.truncate(end);
        Ok(name)
    }
}

impl<R: Read> Read for Archive<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer
            .len()
            .min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(0);
        }
        let read = self.source.read(&mut buffer[..length])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.remaining -= read as u64;
        Ok(read)
    }
}

/// Gives the content out of the source's own buffer.
impl<R: BufRead> BufRead for Archive<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let remaining = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        if remaining == 0 {
            return Ok(&[]);
        }
        let found = self.source.fill_buf()?;
        if found.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(&found[..found.len().min(remaining)])
    }

    fn consume(&mut self, amount: usize) {
        self.source.consume(amount);
        self.remaining = self.remaining.saturating_sub(amount as u64);
    }
}

fn entry_kind(
    header: &Header,
    path: &[u8],
    link: Vec<u8>,
    at: u64,
) -> Result<EntryKind, ArchiveError> {
    let device = || {
        let number = |field: &[u8], max| {
            let number = number::count(field).and_then(|number| u32::try_from(number).ok());
            number.filter(|number| *number <= max)
        };
        // The fields are in the same place in both forms that have them.
        let fields = header
            .as_ustar()
            .map(|fields| (fields.dev_major, fields.dev_minor));
        let fields = fields.or_else(|| {
            let fields = header.as_gnu()?;
            Some((fields.dev_major, fields.dev_minor))
        });
        let (major, minor) = fields.ok_or(ArchiveError::Header(at))?;
        let numbers = number(&major, MAX_MAJOR).zip(number(&minor, MAX_MINOR));
        numbers.ok_or(ArchiveError::Header(at))
    };
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
            device().map(|(major, minor)| EntryKind::CharacterDevice(major, minor))?
        }
        EntryType::Block => device().map(|(major, minor)| EntryKind::BlockDevice(major, minor))?,
        EntryType::Fifo => EntryKind::Fifo,
        other => {
            let path = String::from_utf8_lossy(path).into_owned();
            return Err(ArchiveError::Kind {
                path,
                kind: char::from(other.as_byte()),
            });
        }
    })
}
