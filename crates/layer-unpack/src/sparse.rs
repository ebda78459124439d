//! Files with holes, in the four forms that GNU tar has for them (its manual, "Storing Sparse
//! Files").
//!
//! Only the regions with data are in the archive, one after another, and a map says where they
//! belong. The map is in the header and blocks after it (old GNU), in PAX records (0.0 and 0.1), or
//! in front of the data (1.0).

use std::io::Read;

use tar::Header;

use super::archive_error::ArchiveError;
use super::number;

/// The most regions of data of a file. GNU tar writes one for each hole of at least a block; disk
/// images have thousands.
pub const MAX_REGIONS: usize = 1 << 16;

/// The largest file with holes, which is ext4's largest: the digits of its size cost nothing, so
/// something has to end them.
pub const MAX_SPARSE_BYTES: u64 = 16 << 40;

const BLOCK_BYTES: usize = 512;

/// Regions in a header of the old GNU form, and in a block after it.
const HEADER_REGIONS: usize = 4;
const BLOCK_REGIONS: usize = 21;

/// Bytes of a region there: offset and length.
const REGION_BYTES: usize = 24;

const UNREADABLE: ArchiveError = ArchiveError::Sparse("has a number that cannot be read");

/// Where the content of a file with holes belongs. Its regions follow one another, lie inside of
/// the size, and together are as long as the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sparse {
    size: u64,
    regions: Vec<Region>,
}

/// A part of a file that is no hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has, at least one.
    pub length: u64,
}

impl Sparse {
    /// Checks a map against the size of the file and the size of its content in the archive.
    fn new(size: u64, regions: Vec<Region>, stored: u64) -> Result<Self, ArchiveError> {
        ArchiveError::check("the size of a file with holes", size, MAX_SPARSE_BYTES)?;
        let (mut end, mut sum) = (0, 0u64);
        for region in &regions {
            if region.offset < end {
                return Err(ArchiveError::Sparse("has regions in a wrong order"));
            }
            let after = region.offset.checked_add(region.length);
            end = after
                .filter(|end| *end <= size)
                .ok_or(ArchiveError::Sparse("leads beyond the end of the file"))?;
            // Regions do not overlap, so their sum is not larger than the end of the last.
            sum += region.length;
        }
        if sum != stored {
            return Err(ArchiveError::Sparse("does not fit what is stored"));
        }
        Ok(Self { size, regions })
    }

    /// The size of the file, holes included.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The parts with content, in order.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }
}

/// Regions as they are collected: counted, and without the empty ones that mark the end of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Map(Vec<Region>);

impl Map {
    fn push(&mut self, offset: u64, length: u64) -> Result<(), ArchiveError> {
        if length == 0 {
            return Ok(());
        }
        check_regions(self.0.len() as u64 + 1)?;
        self.0.push(Region { offset, length });
        Ok(())
    }
}

fn check_regions(count: u64) -> Result<(), ArchiveError> {
    let what = "the number of regions of a file with holes";
    ArchiveError::check(what, count, MAX_REGIONS as u64)
}

/// What PAX records say about the holes of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SparseRecords {
    /// The name of the file; the entry's own then says that it is only a part.
    pub name: Option<Vec<u8>>,
    is_any: bool,
    major: Option<u64>,
    minor: Option<u64>,
    size: Option<u64>,
    blocks: Option<u64>,
    map: Map,
    /// An offset whose length is in the next record.
    offset: Option<u64>,
    pairs: u64,
}

impl SparseRecords {
    /// Whether there is any record about holes.
    pub fn is_any(&self) -> bool {
        self.is_any
    }

    /// Takes one record; `key` is without its prefix.
    pub fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), ArchiveError> {
        self.is_any = true;
        let number = || number::decimal(value).ok_or(UNREADABLE);
        match key {
            b"major" => self.major = Some(number()?),
            b"minor" => self.minor = Some(number()?),
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.size = Some(number()?),
            b"numblocks" => self.blocks = Some(number()?),
            b"offset" if self.offset.is_none() => self.offset = Some(number()?),
            b"numbytes" => {
                let offset = self
                    .offset
                    .take()
                    .ok_or(ArchiveError::Sparse("has a length without an offset"))?;
                self.pair(offset, number()?)?;
            }
            b"map" => self.whole_map(value)?,
            _ => return Err(ArchiveError::Sparse("has a record of an unknown kind")),
        }
        Ok(())
    }

    fn pair(&mut self, offset: u64, length: u64) -> Result<(), ArchiveError> {
        self.pairs += 1;
        self.map.push(offset, length)
    }

    fn whole_map(&mut self, value: &[u8]) -> Result<(), ArchiveError> {
        (self.map, self.pairs) = (Map::default(), 0);
        let mut numbers = value.split(|&byte| byte == b',').map(number::decimal);
        while let Some(offset) = numbers.next() {
            match offset.zip(numbers.next().flatten()) {
                Some((offset, length)) => self.pair(offset, length)?,
                None => return Err(UNREADABLE),
            }
        }
        Ok(())
    }

    /// The map that the records speak of, if they do. `stored` is how much content is left, and is
    /// less by the map where that comes first in it.
    pub fn map(
        self,
        source: &mut impl Read,
        stored: &mut u64,
    ) -> Result<Option<Sparse>, ArchiveError> {
        if !self.is_any {
            return Ok(None);
        }
        let size = self.size.ok_or(ArchiveError::Sparse("has no size"))?;
        let map = match (self.major, self.minor) {
            (None, None) | (Some(0), Some(0 | 1)) => {
                if self.offset.is_some() || self.blocks.is_some_and(|count| count != self.pairs) {
                    return Err(ArchiveError::Sparse("has another number of regions"));
                }
                self.map
            }
            (Some(1), Some(0)) => read_map(source, stored)?,
            _ => return Err(ArchiveError::Sparse("is of an unknown version")),
        };
        Sparse::new(size, map.0, *stored).map(Some)
    }
}

/// Reads the map in front of the content: lines with a number each, first how many pairs follow, in
/// whole blocks.
fn read_map(source: &mut impl Read, stored: &mut u64) -> Result<Map, ArchiveError> {
    let mut lines = Lines { source, stored, block: [0; BLOCK_BYTES], at: BLOCK_BYTES };
    let count = lines.number()?;
    check_regions(count)?;
    let mut map = Map::default();
    for _ in 0..count {
        let (offset, length) = (lines.number()?, lines.number()?);
        map.push(offset, length)?;
    }
    Ok(map)
}

struct Lines<'a, R> {
    source: &'a mut R,
    stored: &'a mut u64,
    block: [u8; BLOCK_BYTES],
    at: usize,
}

impl<R: Read> Lines<'_, R> {
    fn number(&mut self) -> Result<u64, ArchiveError> {
        let mut digits = Vec::with_capacity(20);
        loop {
            if self.at == BLOCK_BYTES {
                let left = self.stored.checked_sub(BLOCK_BYTES as u64);
                *self.stored = left.ok_or(ArchiveError::Sparse("is cut off"))?;
                read_block(self.source, &mut self.block)?;
                self.at = 0;
            }
            let byte = self.block[self.at];
            self.at += 1;
            match byte {
                b'\n' => break,
                b'0'..=b'9' if digits.len() < 20 => digits.push(byte),
                _ => return Err(UNREADABLE),
            }
        }
        number::decimal(&digits).ok_or(UNREADABLE)
    }
}

/// The map of an entry of the old GNU form, whose further blocks are read here.
pub(crate) fn old_gnu(
    header: &Header,
    source: &mut impl Read,
    stored: u64,
) -> Result<Sparse, ArchiveError> {
    let header =
        header.as_gnu().ok_or(ArchiveError::Sparse("is in a header of another form"))?.as_header();
    let header = header.as_bytes();
    let (regions, rest) = header[386..].split_at(HEADER_REGIONS * REGION_BYTES);
    let (mut goes_on, size) = (rest[0] != 0, number::count(&rest[1..13]));
    let size = size.ok_or(UNREADABLE)?;
    let mut map = Map::default();
    old_regions(regions, &mut map)?;
    let mut block = [0; BLOCK_BYTES];
    let mut blocks = 0;
    while goes_on {
        // Also of blocks without any region there may not be more.
        blocks += 1;
        check_regions(blocks * BLOCK_REGIONS as u64)?;
        read_block(source, &mut block)?;
        let (regions, rest) = block.split_at(BLOCK_REGIONS * REGION_BYTES);
        old_regions(regions, &mut map)?;
        goes_on = rest[0] != 0;
    }
    Sparse::new(size, map.0, stored)
}

fn old_regions(regions: &[u8], map: &mut Map) -> Result<(), ArchiveError> {
    for region in regions.chunks_exact(REGION_BYTES) {
        // Those that are not used are empty.
        if region[0] == 0 && region[REGION_BYTES / 2] == 0 {
            break;
        }
        let (offset, length) = region.split_at(REGION_BYTES / 2);
        let pair = number::count(offset).zip(number::count(length));
        let (offset, length) = pair.ok_or(UNREADABLE)?;
        map.push(offset, length)?;
    }
    Ok(())
}

fn read_block(source: &mut impl Read, block: &mut [u8; BLOCK_BYTES]) -> Result<(), ArchiveError> {
    source.read_exact(block).map_err(ArchiveError::read)
}
