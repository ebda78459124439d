//! Which disk is the scratch disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use config_image::Magic;
use rustix::fs::{Mode, OFlags, major, minor, open};

use crate::error::Error;

/// The most block devices that are looked at; the host attaches them.
const MAX_DEVICES: usize = 1024;

/// How much of the disk has to be empty behind the magic: what comes before the volume's data.
pub(crate) const EMPTY_BYTES: usize = 1 << 20;

/// The scratch disk.
#[derive(Debug)]
pub(crate) struct Disk {
    /// The kernel's name, such as `vdb`.
    pub(crate) name: String,
    /// Its device node.
    pub(crate) node: PathBuf,
    /// Its numbers, as the kernel writes them: `254:16`.
    pub(crate) numbers: String,
}

/// The one disk with the magic, if there is one. All whole disks with hardware behind them are
/// looked at; one that cannot be read is passed over.
pub(crate) fn only(block: &Path, dev: &Path) -> Result<Option<Disk>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(block)
        .map_err(Error::file("list", block))?
        .take(MAX_DEVICES)
    {
        let entry = entry.map_err(Error::file("list", block))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Loop devices, device mapper and the like have none.
        if !entry.path().join("device").exists() {
            continue;
        }
        if let Some(disk) = look(&dev.join(&name), &name) {
            found.push((disk, entry.path()));
        }
    }
    found.sort_by(|(one, _), (other, _)| one.0.name.cmp(&other.0.name));
    if found.len() > 1 {
        let names: Vec<_> = found.iter().map(|(disk, _)| disk.0.name.as_str()).collect();
        return Err(Error::Several(names.join(", ")));
    }
    let Some(((disk, file), sysfs)) = found.pop() else {
        return Ok(None);
    };
    let ro = sysfs.join("ro");
    let ro = fs::read_to_string(&ro).map_err(Error::file("read", &ro))?;
    if ro.trim() != "0" {
        return Err(Error::ReadOnly(disk.name));
    }
    let is_empty = is_empty(&file).map_err(Error::file("read", &disk.node))?;
    is_empty
        .then_some(Some(disk))
        .ok_or_else(|| Error::NotEmpty(name_of(&sysfs)))
}

fn name_of(sysfs: &Path) -> String {
    let name = sysfs.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The disk behind a node, if it has the magic.
fn look(node: &Path, name: &str) -> Option<(Disk, File)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(node, flags, Mode::empty()).ok()?);
    let metadata = file.metadata().ok()?;
    let mut magic = [0; 8];
    if !metadata.file_type().is_block_device() || file.read_exact_at(&mut magic, 0).is_err() {
        return None;
    }
    let device = metadata.rdev();
    (magic == Magic::SCRATCH.bytes()).then(|| {
        let disk = Disk {
            name: name.to_owned(),
            node: node.to_owned(),
            numbers: format!("{}:{}", major(device), minor(device)),
        };
        (disk, file)
    })
}

/// Whether nothing but the magic stands where volumes and file systems begin. A container may have
/// written the magic on a volume that is worth something.
fn is_empty(file: &File) -> io::Result<bool> {
    let mut bytes = vec![0; EMPTY_BYTES];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes[8..].iter().all(|&byte| byte == 0))
}
