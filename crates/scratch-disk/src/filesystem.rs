//! The file system on the volume: xfs, because it reads no sector that it did not write before.
//!
//! A sector that nobody wrote has no tag, and reading it fails. Ext4 reads blocks of its inode
//! tables before it writes them when two inodes of one block are made at the same time, unless all
//! tables are written first, which takes a sixty-fourth of the disk.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use rustix::mount::{MountFlags, mount};

use crate::error::Error;
use crate::tool;

/// How much at the beginning is written before `mkfs.xfs` looks for an older file system there.
const START_BYTES: usize = 64 << 10;

/// Makes a file system on `device` and mounts it at `place`, which is made where it is missing.
pub(crate) fn make(device: &Path, place: &Path) -> Result<(), Error> {
    let failed = |action| Error::file(action, device);
    let opened = OpenOptions::new().write(true).open(device);
    let mut start = opened.map_err(failed("open"))?;
    let written = start.write_all(&[0; START_BYTES]);
    written
        .and_then(|()| start.sync_all())
        .map_err(failed("write"))?;
    let node = device.as_os_str();
    // No discard: the host's file is sparse already. Neither reflinks nor reverse mappings, which
    // nobody uses here and which cost room.
    let options = ["-f", "-q", "-K", "-m", "reflink=0,rmapbt=0"].map(AsRef::as_ref);
    let arguments = options.into_iter().chain([node]);
    tool::run("mkfs.xfs", "cannot make a file system", arguments, b"")?;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(place);
    made.map_err(Error::file("create", place))?;
    // Programs and set-uid bits of an image are governed by the flags of the overlay above.
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let mounted = mount(device, place, "xfs", flags, None);
    mounted.map_err(|errno| Error::file("mount the scratch disk at", place)(errno.into()))
}

/// Whether the volume of this boot is what is mounted at `place`.
pub(crate) fn is_mounted(place: &Path) -> bool {
    let device = fs::metadata("/dev/mapper/imagepuller-scratch");
    let (Ok(device), Ok(here)) = (device, fs::metadata(place)) else {
        return false;
    };
    here.dev() == device.rdev()
}
