//! The entries of a tar archive (ustar, PAX and GNU long names), one after another.
//!
//! The `tar` crate reads single headers. Walking from one header to the next is this module's own
//! code, for two reasons: the records between headers must be bounded, and an entry must be skipped
//! by the same size that it is unpacked with.
//!
//! The last entry may lack its padding, and the archive its end. umoci writes such archives; every
//! byte counts for the diff ID anyway.

use std::io::{self, Read};

use bytes::Bytes;
use tar::{EntryType, Header};

use super::archive_error::ArchiveError;
use super::chunks::{Share, read_full};
use super::entry::{self, Preface};
pub use super::entry::{Entry, EntryKind};
use super::number;
use super::pax;
use super::sparse::{self, Sparse, SparseRecords};

/// How many entries a layer may have; the largest known images have a few hundred thousand.
pub const MAX_ENTRIES: u64 = 4_000_000;

/// The longest path or link target: Linux's PATH_MAX without the final zero.
pub const MAX_PATH_BYTES: usize = 4095;

/// The most bytes of PAX records of one entry. Linux keeps at most 64 KiB of extended attributes in
/// a value.
pub const MAX_PAX_BYTES: u64 = 1 << 20;

const BLOCK_BYTES: usize = 512;

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
    /// How the header read last calls its entry, for messages.
    current: Vec<u8>,
    is_in_entry: bool,
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
            current: Vec::new(),
            is_in_entry: false,
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
    /// [`ArchiveError`], with the entry that it is about; nothing more can be read then.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ArchiveError> {
        let found = self.next();
        found.map_err(
            |error| {
                if self.is_in_entry { error.of(self.entries, &self.current) } else { error }
            },
        )
    }

    fn next(&mut self) -> Result<Option<Entry>, ArchiveError> {
        let mut preface = Preface::default();
        loop {
            self.skip_content()?;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            let size =
                header.entry_size().map_err(|_| ArchiveError::Header("its size cannot be read"))?;
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
        mut preface: Preface,
    ) -> Result<Entry, ArchiveError> {
        let mut records = preface.records.take().unwrap_or_default();
        let (path, link) = preface.names(&mut records, header)?;
        self.current.clone_from(&path);
        let kind = entry::kind(header, &path, link)?;
        let is_file = kind == EntryKind::File;
        let size = records.size.unwrap_or(size);
        // Some tools write how large a directory or the target of a link was. No content follows,
        // for Go's reader and for GNU tar; bsdtar looks what comes.
        self.expect_content(if is_file { size } else { 0 });
        let holes = self.holes(header, records.sparse, is_file)?;
        let fields = header.as_old();
        Ok(Entry {
            number: self.entries,
            path,
            kind,
            mode: entry::mode(&fields.mode)?,
            uid: entry::owner(records.uid, &fields.uid)?,
            gid: entry::owner(records.gid, &fields.gid)?,
            mtime: match records.mtime {
                Some(mtime) => mtime,
                None => entry::time(&fields.mtime)?,
            },
            xattrs: records.xattrs,
            stored: self.remaining,
            holes,
        })
    }

    /// The map of a file with holes. Reads the part of it that precedes the content.
    fn holes(
        &mut self,
        header: &Header,
        records: SparseRecords,
        is_file: bool,
    ) -> Result<Option<Sparse>, ArchiveError> {
        if header.entry_type() == EntryType::GNUSparse {
            return sparse::old_gnu(header, &mut self.source, self.remaining).map(Some);
        }
        if !is_file && records.is_any() {
            return Err(ArchiveError::Sparse("belongs to what is no file"));
        }
        records.map(&mut self.source, &mut self.remaining)
    }

    /// The next header, or nothing at the end of the archive.
    fn header(&mut self) -> Result<Option<Header>, ArchiveError> {
        self.is_in_entry = false;
        let mut block = [0; BLOCK_BYTES];
        match read_full(&mut self.source, &mut block).map_err(ArchiveError::read)? {
            0 => return Ok(None),
            BLOCK_BYTES => {}
            _ => return Err(ArchiveError::Header("the archive ends in a header")),
        }
        if block == [0; BLOCK_BYTES] {
            return Ok(None);
        }
        self.entries += 1;
        ArchiveError::check("the number of entries", self.entries, self.max_entries)?;
        let header = Header::from_byte_slice(&block).clone();
        self.current.clear();
        self.current.extend_from_slice(&header.path_bytes());
        self.is_in_entry = true;
        check_sum(&header)?;
        Ok(Some(header))
    }

    fn expect_content(&mut self, size: u64) {
        let block = BLOCK_BYTES as u64;
        self.padding = (block - size % block) % block;
        self.remaining = size;
    }

    fn skip_content(&mut self) -> Result<(), ArchiveError> {
        let (remaining, padding) = (self.remaining, self.padding);
        let left = remaining.checked_add(padding).ok_or(ArchiveError::Truncated)?;
        (self.remaining, self.padding) = (0, 0);
        let skipped = io::copy(&mut self.source.by_ref().take(left), &mut io::sink())
            .map_err(ArchiveError::read)?;
        // What is missing of the padding is missing at the end of the archive.
        if skipped >= remaining { Ok(()) } else { Err(ArchiveError::Truncated) }
    }

    /// The content of a header that concerns the next entry.
    fn text(&mut self, size: u64, limit: u64, what: &'static str) -> Result<Vec<u8>, ArchiveError> {
        ArchiveError::check(what, size, limit)?;
        self.expect_content(size);
        let mut text = Vec::new();
        self.read_to_end(&mut text).map_err(ArchiveError::read)?;
        if text.len() as u64 == size { Ok(text) } else { Err(ArchiveError::Truncated) }
    }

    fn long_name(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        let mut name = self.text(size, MAX_PATH_BYTES as u64 + 1, "a long name")?;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        name.truncate(end);
        Ok(name)
    }
}

impl<R: Read> Read for Archive<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
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

/// Gives the content in the source's own buffers.
impl<R: Share> Share for Archive<R> {
    fn share(&mut self, max: usize) -> io::Result<Bytes> {
        let remaining = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        if remaining == 0 {
            return Ok(Bytes::new());
        }
        let piece = self.source.share(max.min(remaining))?;
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.remaining -= piece.len() as u64;
        Ok(piece)
    }

    fn chunk(&self) -> u64 {
        self.source.chunk()
    }
}

/// Checks the header's own sum; its bytes may be signed numbers, as old programs summed.
fn check_sum(header: &Header) -> Result<(), ArchiveError> {
    let block = header.as_bytes();
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| i32::from(byte)).sum::<i32>();
    let signed_sum = |bytes: &[u8]| {
        let signed = bytes.iter().map(|&byte| i32::from(byte.cast_signed()));
        signed.sum::<i32>()
    };
    // The sum counts its own field as eight spaces.
    let (field, spaces) = (&block[148..156], 8 * i32::from(b' '));
    let unsigned = sum(block) - sum(field) + spaces;
    let signed = || signed_sum(block) - signed_sum(field) + spaces;
    let found = number::field(&header.as_old().cksum).and_then(|sum| i32::try_from(sum).ok());
    match found {
        Some(found) if found == unsigned || found == signed() => Ok(()),
        _ => Err(ArchiveError::Header("the sum of its header does not hold")),
    }
}
