//! The entries of a tar archive (ustar, PAX and GNU long names), one after another.
//!
//! Headers are read with the `tar` crate; walking from one to the next is ours, because the records between them must be
//! bounded and the size that an entry is skipped by must be the one size that it is unpacked with.

use std::io::{self, Read};

use tar::{EntryType, Header};

use super::archive_error::ArchiveError;
use super::pax::{self, Records, Time};

/// How many entries a layer may have; the largest known images have a few hundred thousand.
pub const MAX_ENTRIES: u64 = 4_000_000;

/// The longest path or link target: Linux's PATH_MAX without the final zero.
pub const MAX_PATH_BYTES: usize = 4095;

/// The most bytes of PAX records of one entry. Linux keeps at most 64 KiB of extended attributes in a value.
const MAX_PAX_BYTES: u64 = 1 << 20;

const BLOCK_BYTES: usize = 512;

/// One entry, before any of it is believed: the path is what the archive says.
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
                // Only comments are ever written there, and a size that concerned all entries would be absurd.
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
        let path = records
            .path
            .or(preface.long_path)
            .unwrap_or_else(|| header.path_bytes().into_owned());
        let link = records.link_path.or(preface.long_link);
        let link = link
            .or_else(|| header.link_name_bytes().map(|link| link.into_owned()))
            .unwrap_or_default();
        for (what, text) in [
            ("the length of a path", &path),
            ("the length of a link", &link),
        ] {
            if text.len() > MAX_PATH_BYTES {
                return Err(ArchiveError::Limit {
                    what,
                    limit: MAX_PATH_BYTES as u64,
                });
            }
        }
        let kind = entry_kind(header, &path, link, at)?;
        let size = match header.entry_type() {
            // Some tools write how large the directory was, and no tool expects content there.
            EntryType::Directory => 0,
            _ => records.size.unwrap_or(size),
        };
        // Tools disagree whether other kinds have content that is to be skipped, so none may claim any.
        if kind != EntryKind::File && size != 0 {
            return Err(broken());
        }
        self.expect_content(size)?;
        let fields = header.as_old();
        let mtime = match records.mtime {
            Some(mtime) => mtime,
            None => Time {
                seconds: number(&fields.mtime).ok_or_else(broken)?,
                nanoseconds: 0,
            },
        };
        let mode = number(&fields.mode).and_then(|mode| u32::try_from(mode).ok());
        let owner = |record: Option<u64>, field: &[u8]| {
            let field = || number(field).and_then(|id| u64::try_from(id).ok());
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
        })
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
        if self.entries > self.max_entries {
            return Err(ArchiveError::Limit {
                what: "the number of entries",
                limit: self.max_entries,
            });
        }
        let header = Header::from_byte_slice(&block).clone();
        // The sum counts its own field as eight spaces.
        let sum = |range: &[u8]| range.iter().map(|&byte| u32::from(byte)).sum::<u32>();
        let expected = sum(&block[..148]) + 8 * u32::from(b' ') + sum(&block[156..]);
        match header.cksum() {
            Ok(found) if found == expected => Ok(Some(header)),
            _ => Err(ArchiveError::Header(self.entries)),
        }
    }

    fn expect_content(&mut self, size: u64) -> Result<(), ArchiveError> {
        let block = BLOCK_BYTES as u64;
        self.padding = (block - size % block) % block;
        self.remaining = size;
        Ok(())
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
        if size > limit {
            return Err(ArchiveError::Limit { what, limit });
        }
        self.expect_content(size)?;
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

/// Reads a number of a header in either form: octal digits among spaces and zero bytes, where none at all mean zero; or,
/// with the first bit set, the other bits as one number to the base of 256, in two's complement.
fn number(field: &[u8]) -> Option<i64> {
    let first = *field.first()?;
    if first & 0x80 == 0 {
        let end = field.iter().position(|&byte| byte == 0);
        let digits = field[..end.unwrap_or(field.len())].trim_ascii();
        let digits = std::str::from_utf8(digits).ok()?;
        if digits.is_empty() {
            return Some(0);
        }
        // The standard library takes a sign too.
        let is_octal = digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        return is_octal
            .then(|| i64::from_str_radix(digits, 8).ok())
            .flatten();
    }
    let sign = if first & 0x40 == 0 { 0 } else { 0xff };
    let mut value = i64::from((first ^ sign) & 0x7f);
    for byte in &field[1..] {
        value = value.checked_mul(256)? | i64::from(byte ^ sign);
    }
    Some(if sign == 0 { value } else { !value })
}

fn entry_kind(
    header: &Header,
    path: &[u8],
    link: Vec<u8>,
    at: u64,
) -> Result<EntryKind, ArchiveError> {
    let device = || {
        let major = header.device_major().ok().flatten();
        let minor = header.device_minor().ok().flatten();
        major.zip(minor).ok_or(ArchiveError::Header(at))
    };
    Ok(match header.entry_type() {
        // Before there was a type for directories, a slash at the end told them.
        EntryType::Regular if path.ends_with(b"/") => EntryKind::Directory,
        EntryType::Regular | EntryType::Continuous => EntryKind::File,
        EntryType::Link => EntryKind::HardLink(link),
        EntryType::Symlink => EntryKind::Symlink(link),
        EntryType::Directory => EntryKind::Directory,
        EntryType::Char => {
            device().map(|(major, minor)| EntryKind::CharacterDevice(major, minor))?
        }
        EntryType::Block => device().map(|(major, minor)| EntryKind::BlockDevice(major, minor))?,
        EntryType::Fifo => EntryKind::Fifo,
        EntryType::GNUSparse => return Err(ArchiveError::Sparse),
        other => {
            let path = String::from_utf8_lossy(path).into_owned();
            return Err(ArchiveError::Kind {
                path,
                kind: char::from(other.as_byte()),
            });
        }
    })
}

/// Fills a buffer as far as the source goes.
fn read_full(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_forms() {
        for (field, expected) in [
            (&b"0000755\0"[..], Some(0o755)),
            (b"  755 \0\0", Some(0o755)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"77777777", Some(0o77_777_777)),
            (b"12\0garbage", Some(0o12)),
            (b"000008\0\0", None),
            (b"-1\0\0\0\0\0\0", None),
            (b"1 2\0\0\0\0\0", None),
            (b"\x80\0\0\0\x80\0\0\0", Some(0x8000_0000)),
            (&[0xff; 12], Some(-1)),
            (
                b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0",
                Some(-256),
            ),
            (
                b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
                Some(i64::MAX),
            ),
            (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", None),
            (b"\xff\xff\xff\xff\x80\0\0\0\0\0\0\0", Some(i64::MIN)),
            (b"\xff\xff\xff\xff\x7f\0\0\0\0\0\0\0", None),
        ] {
            assert_eq!(number(field), expected, "{field:?}");
        }
    }
}
