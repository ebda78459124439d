//! The disk's content, and what of it was read.

use std::ops::Range;

use linux_sys::locked::Locked;

use crate::Error;

/// Bytes of a sector: the unit of addresses on the wire, whatever block size a guest uses.
pub const SECTOR_BYTES: u64 = 512;

/// The largest image: 16 MiB.
///
/// Configuration images have a megabyte at most. The limit bounds the locked memory, and raising it
/// breaks nothing.
pub const MAX_IMAGE_BYTES: usize = 16 << 20;

/// An image in locked memory, zeroed when it goes dark or is dropped.
#[derive(Debug)]
pub struct Disk {
    image: Locked,
    sectors: Vec<Sector>,
    unread: usize,
    is_dark: bool,
}

/// What happened to one sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sector {
    Unread,
    Read,
    /// Zeroes up to the end of the disk, which nobody has to read.
    Room,
}

impl Disk {
    /// Takes a copy of `image`. The caller still has to wipe the original.
    ///
    /// # Errors
    ///
    /// Where `image` is empty, longer than [`MAX_IMAGE_BYTES`], no whole number of sectors, or
    /// cannot be locked.
    pub fn new(image: &[u8]) -> Result<Self, Error> {
        if image.is_empty()
            || image.len() > MAX_IMAGE_BYTES
            || !(image.len() as u64).is_multiple_of(SECTOR_BYTES)
        {
            return Err(Error::ImageSize { bytes: image.len() });
        }
        let sector_bytes = SECTOR_BYTES as usize;
        let last = image.iter().rposition(|byte| *byte != 0);
        let unread = last.map_or(0, |last| last / sector_bytes + 1);
        let mut sectors = vec![Sector::Unread; unread];
        sectors.resize(image.len() / sector_bytes, Sector::Room);
        let locked = Locked::copy_of(image);
        let image = locked.map_err(|source| Error::Lock { bytes: image.len(), source })?;
        Ok(Self { image, sectors, unread, is_dark: false })
    }

    /// Its size in sectors.
    #[must_use]
    pub fn capacity_sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    /// Whether every sector up to the last that is not zero was read at least once.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.unread == 0
    }

    /// Whether the content is gone.
    #[must_use]
    pub const fn is_dark(&self) -> bool {
        self.is_dark
    }

    /// Zeroes the content for good; every later read is refused.
    pub fn darken(&mut self) {
        self.is_dark = true;
        self.image.wipe();
    }

    /// The content of `bytes` bytes from `sector` on, both as the guest says.
    ///
    /// Nothing where the disk is dark, or where the range is no whole number of sectors within it.
    pub(crate) fn read(&self, sector: u64, bytes: u64) -> Option<&[u8]> {
        if self.is_dark {
            return None;
        }
        let range = self.range(sector, bytes)?;
        self.image.get(range.start * SECTOR_BYTES as usize..range.end * SECTOR_BYTES as usize)
    }

    /// Notes that the guest has got `bytes` bytes from `sector` on.
    pub(crate) fn mark_read(&mut self, sector: u64, bytes: u64) {
        let Some(sectors) = self.range(sector, bytes).and_then(|range| self.sectors.get_mut(range))
        else {
            return;
        };
        for sector in sectors {
            if *sector == Sector::Unread {
                *sector = Sector::Read;
                self.unread -= 1;
            }
        }
    }

    /// The sectors of a range that lies on the disk.
    fn range(&self, sector: u64, bytes: u64) -> Option<Range<usize>> {
        if !bytes.is_multiple_of(SECTOR_BYTES) {
            return None;
        }
        let end = sector.checked_add(bytes / SECTOR_BYTES)?;
        if end > self.capacity_sectors() {
            return None;
        }
        Some(usize::try_from(sector).ok()?..usize::try_from(end).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with zeroes at its end was once never complete, so it never went dark: a guest
    /// reads no further than it must.
    #[test]
    fn room_at_the_end_need_not_be_read() {
        let mut image = vec![0; 128 * 512];
        image[..600].fill(7);
        let mut disk = Disk::new(&image).unwrap();
        disk.mark_read(0, 512);
        assert!(!disk.is_complete());
        disk.mark_read(1, 512);
        assert!(disk.is_complete());
        assert_eq!(disk.read(0, 128 * 512).unwrap(), image);
    }

    #[test]
    fn only_whole_sectors_within_the_limit_are_an_image() {
        for bytes in [0, 1, 511, 513, MAX_IMAGE_BYTES + 512] {
            assert!(matches!(
                Disk::new(&vec![0; bytes]),
                Err(Error::ImageSize { bytes: b }) if b == bytes
            ));
        }
        assert_eq!(Disk::new(&[0; 1024]).unwrap().capacity_sectors(), 2);
    }

    #[test]
    fn reads_stay_on_the_disk() {
        let image: Vec<u8> = (0..1024_u32).map(|n| (n / 512) as u8 + 1).collect();
        let disk = Disk::new(&image).unwrap();
        assert_eq!(disk.read(0, 1024).unwrap(), image);
        assert_eq!(disk.read(1, 512).unwrap(), &image[512..]);
        assert_eq!(disk.read(2, 0).unwrap(), b"");
        for (sector, bytes) in [
            (0, 1),
            (0, 1536),
            (2, 512),
            (3, 0),
            (u64::MAX, 512),
            (u64::MAX / 512, 512),
            (0, u64::MAX - 511),
            (1 << 55, 0),
        ] {
            assert!(disk.read(sector, bytes).is_none(), "{sector} {bytes}");
        }
    }

    #[test]
    fn complete_means_every_sector() {
        let mut disk = Disk::new(&[1; 2048]).unwrap();
        for (sector, bytes, complete) in
            [(0, 512, false), (0, 512, false), (2, 1024, false), (9, 512, false), (1, 512, true)]
        {
            disk.mark_read(sector, bytes);
            assert_eq!(disk.is_complete(), complete, "{sector}");
        }
    }

    #[test]
    fn a_dark_disk_gives_nothing_and_holds_nothing() {
        let mut disk = Disk::new(&[1; 512]).unwrap();
        disk.darken();
        assert!(disk.is_dark());
        assert!(disk.read(0, 512).is_none());
        assert!(disk.image.iter().all(|byte| *byte == 0));
    }
}
