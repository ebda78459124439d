//! A file that is replaced at once.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, fchown, fsync, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;

/// What a file is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It must be whole after a power failure, too.
    AcrossCrash,
    /// It is on a file system in memory, which a power failure empties anyway.
    UntilReboot,
}

/// A whole file that goes away unless it [takes its final name](Self::take_name).
#[derive(Debug)]
pub struct Staged<'d, D: AsFd> {
    directory: &'d D,
    name: String,
    keep: Keep,
}

impl<'d, D: AsFd> Staged<'d, D> {
    /// Writes `content` into a file `name` in `directory`, which must not be there yet. It has
    /// `mode` and `owner`, a user and a group, from its first byte on.
    ///
    /// # Errors
    ///
    /// Those of the system calls; `EEXIST` for a name that is taken.
    pub fn write(
        directory: &'d D,
        name: String,
        content: &[u8],
        mode: u32,
        owner: Option<(u32, u32)>,
        keep: Keep,
    ) -> io::Result<Self> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, &name, flags, Mode::RUSR | Mode::WUSR)?;
        // From here on nothing half-written stays, least of all half a password.
        let staged = Self { directory, name, keep };
        // Closed before it has its name: what is open for writing cannot be started.
        let mut file = File::from(file);
        // Set explicitly, because the umask may be odd; while the file is still our own.
        file.set_permissions(Permissions::from_mode(mode))?;
        if let Some((user, group)) = owner {
            fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        }
        file.write_all(content)?;
        if keep == Keep::AcrossCrash {
            // Without this a crash after the rename can leave an empty file.
            fsync(&file)?;
        }
        Ok(staged)
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    ///
    /// Those of `openat(2)`.
    pub fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(self.directory, &self.name, flags, Mode::empty())?)
    }

    /// Puts the file at `name` in `directory`, on the same file system.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    pub fn take_name(self, directory: impl AsFd, name: impl Arg) -> io::Result<()> {
        // The newer call, which sandboxes of ours allow.
        renameat_with(self.directory, &self.name, &directory, name, RenameFlags::empty())?;
        if self.keep == Keep::AcrossCrash {
            fsync(directory)?;
        }
        Ok(())
    }
}

impl<D: AsFd> Drop for Staged<'_, D> {
    fn drop(&mut self) {
        // After the rename there is no such name any more.
        let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
    }
}

/// Puts a file with `content` at `name` in `directory`: readers find what was there before, or all
/// of the new one. It has `mode` and `owner`, a user and a group, from its first byte on.
///
/// `name` does not begin with a dot: until it is whole the file is called `.NAME`, and what a
/// killed writer left there is removed. Who writes the same name at the same time is kept out by a
/// lock of the caller's. Not synced to a disk.
///
/// # Errors
///
/// Those of the system calls; then nothing half-written stays.
pub fn replace(
    directory: impl AsFd,
    name: &str,
    content: &[u8],
    mode: u32,
    owner: Option<(u32, u32)>,
) -> io::Result<()> {
    let staging = format!(".{name}");
    remove(&directory, &staging)?;
    Staged::write(&directory, staging, content, mode, owner, Keep::UntilReboot)?
        .take_name(&directory, name)
}

/// Leaves nothing of the file `name`, nor what a killed writer of it left; without one there is
/// nothing to do.
///
/// # Errors
///
/// Those of the system calls.
pub fn discard(directory: impl AsFd, name: &str) -> io::Result<()> {
    remove(&directory, &format!(".{name}"))?;
    Ok(remove(&directory, name)?)
}

fn remove(directory: impl AsFd, name: &str) -> Result<(), Errno> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_with_its_mode() {
        let root = tempfile::tempdir().unwrap();
        let directory = File::open(root.path()).unwrap();
        let target = root.path().join("file");
        // A link is replaced, not followed; and what a killed writer left does not matter.
        symlink("elsewhere", &target).unwrap();
        fs::write(root.path().join(".file"), "half").unwrap();
        for (content, mode) in [("first", 0o600), ("2", 0o644)] {
            replace(&directory, "file", content.as_bytes(), mode, None).unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), content);
            assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o7777, mode);
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        fs::write(root.path().join(".file"), "half").unwrap();
        discard(&directory, "file").unwrap();
        discard(&directory, "file").unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_fails_leaves_what_was_there() {
        let root = tempfile::tempdir().unwrap();
        let directory = File::open(root.path()).unwrap();
        fs::create_dir(root.path().join("file")).unwrap();
        replace(&directory, "file", b"content", 0o600, None).unwrap_err();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
