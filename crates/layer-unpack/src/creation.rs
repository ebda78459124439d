//! Regular files made with as few system calls as they need: open, write, time, close.
//!
//! Most files of an image belong to root and have a mode that the umask allows, so they are right
//! as they are made. What a new file gets depends on more than that, though: a set-group-ID
//! directory or the mount hand their group down, an ACL or an identity mapping may change the rest.
//! So the first file in each directory is asked what it got.

use std::fs::File;

use rustix::fs::{Gid, Mode, OFlags, Uid, fstat, openat};
use rustix::io::Errno;

use super::archive::Entry;
use super::tree::Directory;

/// The bits of a mode that a file may be made with; others are set when its owner is final.
const PERMISSIONS: u32 = 0o777;

/// What a file gets that is made in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFile {
    uid: u32,
    gid: u32,
    /// The permissions that are not taken away.
    mode: u32,
}

impl NewFile {
    /// The owner that is to be set: none where a file of the entry gets it anyway.
    fn owner(&self, entry: &Entry) -> Option<Owner> {
        (!self.is_owner(entry)).then(|| owner_of(entry))
    }

    /// Whether the owner of an entry is what its file gets anyway.
    pub(crate) fn is_owner(&self, entry: &Entry) -> bool {
        let is_kept = |wanted: Option<u32>, given| wanted.is_none_or(|wanted| wanted == given);
        is_kept(entry.uid, self.uid) && is_kept(entry.gid, self.gid)
    }
}

/// The owner and group to set; what the archive leaves open is left.
pub(crate) type Owner = (Option<Uid>, Option<Gid>);

/// What the entry says of it.
pub(crate) fn owner_of(entry: &Entry) -> Owner {
    (entry.uid.map(Uid::from_raw), entry.gid.map(Gid::from_raw))
}

/// Makes a file with nothing in it, owned and with the mode that the entry says.
pub(crate) fn create(directory: &Directory, name: &[u8], entry: &Entry) -> Result<Created, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = |mode| openat(directory, name, flags, Mode::from_raw_mode(mode));
    let mode = Mode::from_raw_mode(entry.mode);
    if let Some(new_file) = directory.new_file() {
        let is_mode = entry.mode & !new_file.mode == 0;
        let file = create(if is_mode { entry.mode } else { 0o600 })?;
        return Ok(Created {
            file: file.into(),
            owner: new_file.owner(entry),
            mode: (!is_mode).then_some(mode),
        });
    }
    let file = create(PERMISSIONS)?;
    let stat = fstat(&file)?;
    let new_file = NewFile { uid: stat.st_uid, gid: stat.st_gid, mode: stat.st_mode & PERMISSIONS };
    directory.learn(new_file);
    Ok(Created {
        file: file.into(),
        owner: new_file.owner(entry),
        mode: (entry.mode != new_file.mode).then_some(mode),
    })
}

/// A file made for an entry, and what about it is not right yet.
pub(crate) struct Created {
    pub(crate) file: File,
    pub(crate) owner: Option<Owner>,
    pub(crate) mode: Option<Mode>,
}
