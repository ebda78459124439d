//! An encrypted and authenticated file system on the disk that the host gives a guest for images.
//!
//! The host may keep, lose and change every sector of the disk. Nothing on it is believed: it is
//! known by its magic and formatted anew in each boot, with a key that nobody else ever has. What
//! the host changes is noticed when it is read. Not here: who uses the file system (`imagepuller`).
//!
//! The entry is [`prepare`].
//! - `find`: which disk it is. `volume`: encrypted and authenticated by `cryptsetup`, with `table`:
//!   what the kernel says of it. `filesystem`: the file system on it.
//! - `record`: what was done in this boot. `tool`: how programs are run.
//! - [`Error`]: why there is none.

mod error;
mod filesystem;
mod find;
mod record;
mod table;
mod tool;
mod volume;

use std::path::Path;

pub use error::Error;
use record::{Known, Record};

/// Mounts the guest's scratch disk at `place`, once in each boot; says whether there is one. Blocks
/// for seconds, and for as long as the host does not answer.
///
/// Which disk it is has to be known before a container runs, for a container can write the magic
/// on a volume of its own. So this looks for one once in a boot: what came of it stands in a file
/// beside `place`, which is in memory, and later calls go by that.
///
/// # Errors
///
/// Any [`Error`]; later calls in this boot fail with the same words.
pub fn prepare(place: &Path) -> Result<bool, Error> {
    let record = Record::of(place);
    match record.read()? {
        Some(Known::None) => return Ok(false),
        Some(Known::Mounted) if filesystem::is_mounted(place) => return Ok(true),
        Some(Known::Mounted) => return Err(Error::Gone),
        Some(Known::Failed(reason)) => return Err(Error::Earlier(reason)),
        None => record.begin()?,
    }
    let made = make(place);
    record.end(&made)?;
    made
}

fn make(place: &Path) -> Result<bool, Error> {
    let Some(disk) = find::only(Path::new("/sys/block"), Path::new("/dev"))? else {
        return Ok(false);
    };
    tracing::info!(disk = disk.name, "making the scratch disk");
    let mapping = volume::open(&disk)?;
    filesystem::make(&mapping, place).inspect_err(|_| volume::close())?;
    Ok(true)
}
