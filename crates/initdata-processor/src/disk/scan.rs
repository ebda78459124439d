//! What a walk over the block devices found.

use std::fs;

use config_image::Magic;

use super::{Disk, Skipped};
use crate::Error;
use crate::journal::Journal;
use crate::paths::Paths;

/// How many unusable disks are named in the log unless it is verbose: the kernel's log takes ten
/// lines at a time, and the host must not be able to drown the verdict.
const MAX_TOLD: usize = 3;

/// What a walk over the block devices found.
#[derive(Debug, Default)]
pub struct Scan {
    /// The disks with one of the wanted magics, by name; a few of each.
    pub disks: Vec<Disk>,
    /// The others, by name, and why.
    pub(super) passed_over: Vec<(String, Skipped)>,
}

impl Scan {
    /// Whether a disk carries `magic`.
    #[must_use]
    pub fn has(&self, magic: Magic) -> bool {
        self.count(magic) > 0
    }

    pub(super) fn count(&self, magic: Magic) -> usize {
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
        let is_other = |disk: &Disk| disk.name == name && disk.magic != Magic::INITDATA;
        if self.disks.iter().any(is_other) {
            return true;
        }
        let passed_over = &self.passed_over;
        // By name, as they were looked at.
        let place = passed_over.binary_search_by(|(other, _)| other.as_str().cmp(name));
        place.is_ok_and(|place| {
            let reason = &passed_over[place].1;
            matches!(reason, Skipped::NoMagic | Skipped::OtherMagic(_))
        })
    }

    /// Requires that no disk whose serial is `serial` was passed over. sysfs is asked for serials
    /// only here: they are a hint.
    ///
    /// # Errors
    ///
    /// [`Error::PassedOver`].
    pub fn require_none_called(&self, serial: &str, paths: &Paths) -> Result<(), Error> {
        let is_it = |name: &str| {
            let text = fs::read_to_string(paths.block.join(name).join("serial"));
            text.is_ok_and(|text| text.trim() == serial)
        };
        let mut disks = self.passed_over.iter();
        let found = disks.find(|(name, _)| is_it(name));
        found.map_or(Ok(()), |(name, reason)| {
            Err(Error::PassedOver {
                disk: name.clone(),
                serial: serial.to_owned(),
                reason: reason.to_string(),
            })
        })
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
            journal.warn(format_args!("passed over: {untold} more disks that could not be read"));
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
        let found: Vec<&Disk> = self.disks.iter().filter(|disk| disk.magic == magic).collect();
        match found.as_slice() {
            [] => Ok(None),
            [disk] => Ok(Some(disk)),
            several => Err(Error::SeveralDisks {
                magic,
                names: several.iter().map(|disk| disk.name.as_str()).collect::<Vec<_>>().join(", "),
            }),
        }
    }
}
