//! A file that is replaced at once.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt as _;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, fchown, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;

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
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || openat(&directory, &staging, flags, Mode::RUSR | Mode::WUSR);
    let created = create().or_else(|errno| match errno {
        Errno::EXIST => remove(&directory, &staging).and_then(|()| create()),
        errno => Err(errno),
    });
    let mut file = File::from(created?);
    let mut written = || {
        // Set explicitly, because the umask may be odd; while the file is still our own.
        file.set_permissions(Permissions::from_mode(mode))?;
        if let Some((user, group)) = owner {
            fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        }
        file.write_all(content)?;
        // The newer call, which sandboxes of ours allow.
        Ok(renameat_with(&directory, &staging, &directory, name, RenameFlags::empty())?)
    };
    written().inspect_err(|_| {
        // Least of all half a password.
        let _ = remove(&directory, &staging);
    })
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
