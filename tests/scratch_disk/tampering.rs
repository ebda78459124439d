//! What a host can do to sectors behind the guest's back.

use anyhow::{Context, Result, ensure};

use super::host::{DiskFile, SECTOR};

/// How many sectors of the volume the guest writes, from its beginning on.
pub const SECTORS: usize = 64;

/// The bytes that authenticate a sector.
const TAG: usize = 32;

/// The guest writes one content, then another, to the same sectors. Its host keeps both states.
#[derive(Debug, Default)]
pub struct Host {
    states: Vec<Vec<u8>>,
}

/// Steps, and how many sectors the guest then reads as `old`, as `new`, as an error and otherwise.
/// Last: what nobody can notice who trusts only what is on the disk.
pub const STEPS: [(&str, &str); 8] = [
    ("nothing", "old 0 new 64 error 0 other 0"),
    ("flip", "old 0 new 0 error 64 other 0"),
    ("swap-sectors", "old 0 new 0 error 64 other 0"),
    ("swap-sectors-and-tags", "old 0 new 0 error 64 other 0"),
    ("old-sectors", "old 0 new 0 error 64 other 0"),
    ("old-tags", "old 0 new 0 error 64 other 0"),
    ("one-old-sector-and-tag", "old 1 new 63 error 0 other 0"),
    ("all-old", "old 64 new 0 error 0 other 0"),
];

impl Host {
    /// Does a step to the disk.
    pub fn step(&mut self, name: &str, disk: &DiskFile) -> Result<()> {
        if name == "remember" {
            self.states.push(disk.read()?);
            return Ok(());
        }
        let [old, new] = self.states.as_slice() else {
            anyhow::bail!("two states are needed");
        };
        let changed = super::host::changed(old, new)?;
        // The tags of so few sectors are in one sector, and it comes before them.
        ensure!(
            changed.len() == SECTORS + 1,
            "{} sectors changed",
            changed.len()
        );
        let (tags, data) = changed.split_first().context("nothing changed")?;
        let sector = |state: &[u8], number: usize| state[number * SECTOR..][..SECTOR].to_vec();
        let tag_at = |number: usize| {
            // Where the tag of the first sector is in its sector.
            let (one, other) = (sector(old, *tags), sector(new, *tags));
            let first = one.iter().zip(&other).position(|(one, other)| one != other);
            first.map(|first| tags * SECTOR + first / TAG * TAG + number * TAG)
        };
        // As the guest wrote it last, but for what is done below.
        for &number in &changed {
            disk.write(number * SECTOR, &sector(new, number))?;
        }
        let pairs = (0..SECTORS).map(|number| (number, number ^ 1));
        match name {
            "nothing" => {}
            "flip" => {
                for &number in data {
                    let mut bytes = sector(new, number);
                    bytes[number % SECTOR] ^= 1;
                    disk.write(number * SECTOR, &bytes)?;
                }
            }
            "swap-sectors" | "swap-sectors-and-tags" => {
                for (here, there) in pairs {
                    disk.write(data[here] * SECTOR, &sector(new, data[there]))?;
                    if name == "swap-sectors-and-tags" {
                        let from = tag_at(there).context("no tags")?;
                        disk.write(tag_at(here).context("no tags")?, &new[from..from + TAG])?;
                    }
                }
            }
            "old-sectors" | "all-old" | "old-tags" => {
                let which = match name {
                    "old-sectors" => data,
                    "old-tags" => &changed[..1],
                    _ => &changed,
                };
                for &number in which {
                    disk.write(number * SECTOR, &sector(old, number))?;
                }
            }
            "one-old-sector-and-tag" => {
                let tag = tag_at(7).context("no tags")?;
                disk.write(tag, &old[tag..tag + TAG])?;
                disk.write(data[7] * SECTOR, &sector(old, data[7]))?;
            }
            other => anyhow::bail!("no step {other}"),
        }
        Ok(())
    }
}
