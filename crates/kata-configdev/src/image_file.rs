//! An image on disk, opened without hanging and replaced as a whole.

use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use linux_sys::replace::Staged;
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, flock, open, openat, statat,
};
use rustix::io::Errno;

use crate::host_file::{FileError, FileFault};

pub use linux_sys::replace::Keep;

/// Only the owner may read or write: the image holds credentials.
pub const MODE: u32 = 0o600;

/// How the names of temporary files begin; what a killed process left behind is known by it.
pub const TEMPORARY_PREFIX: &str = ".kata-configdev.";

/// How many names for the temporary file are tried; only files left behind by a killed process of
/// the same id are in the way.
const MAX_ATTEMPTS: u32 = 16;

/// Opens the image `path` for reading: a regular file or a block device; symbolic links are
/// followed.
///
/// # Errors
///
/// [`FileFault::NotDisk`], [`FileFault::Io`].
pub fn open_disk(path: &Path) -> Result<File, FileFault> {
    // A FIFO without a writer must not hang the caller; on files and block devices `O_NONBLOCK` has
    // no effect.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(open(path, flags, Mode::empty())?);
    // Looks at what was opened, not at its path: the two can differ a moment later.
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() { Ok(file) } else { Err(FileFault::NotDisk) }
}

/// Puts `content` into the file `path`, mode 0600.
///
/// # Errors
///
/// As those of [`write_as()`].
pub fn write(path: &Path, content: &[u8]) -> Result<(), FileError> {
    write_as(path, content, MODE)
}

/// Puts `content` into the file `path`: entirely or not at all, also for somebody who reads
/// meanwhile.
///
/// The content goes into a temporary file of the same directory, which then takes the name. A
/// regular file that has the name is replaced, not written into, so that its mode, its owner and
/// its other links do not matter. Anything else, a symbolic link above all, is left alone.
///
/// # Errors
///
/// [`FileFault::NotRegular`], [`FileFault::Io`].
pub fn write_as(path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
    let Some(name) = path.file_name() else {
        return Err(FileFault::NotRegular.at(path));
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, parent, flags, Mode::empty())
        .map_err(|errno| FileFault::from(errno).at(parent))?;
    let written = staged(&directory, name, content, mode, Keep::AcrossCrash)
        .and_then(|staged| Ok(staged.take_name(&directory, name)?));
    written.map_err(|fault| fault.at(path))
}

/// [`write()`] in a directory that is already open.
///
/// # Errors
///
/// [`FileFault::NotRegular`], [`FileFault::Io`].
pub fn replace(
    directory: &OwnedFd,
    name: &OsStr,
    content: &[u8],
    keep: Keep,
) -> Result<(), FileFault> {
    Ok(staged(directory, name, content, MODE, keep)?.take_name(directory, name)?)
}

/// [`replace`] in memory, for a file that is locked (`flock(2)`, shared) before it has its name,
/// until the answer and every copy of it is closed. Nobody can write through the answer.
///
/// # Errors
///
/// [`FileFault::NotRegular`], [`FileFault::Io`].
pub fn replace_held(
    directory: &OwnedFd,
    name: &OsStr,
    content: &[u8],
) -> Result<OwnedFd, FileFault> {
    let staged = staged(directory, name, content, MODE, Keep::UntilReboot)?;
    let held = staged.open()?;
    flock(&held, FlockOperation::NonBlockingLockShared)?;
    staged.take_name(directory, name)?;
    Ok(held)
}

/// Writes what is to have the `name`, if a regular file has it or nothing.
fn staged<'d>(
    directory: &'d OwnedFd,
    name: &OsStr,
    content: &[u8],
    mode: u32,
    keep: Keep,
) -> Result<Staged<'d, OwnedFd>, FileFault> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
            return Err(FileFault::NotRegular);
        }
        Ok(_) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    for attempt in 0..MAX_ATTEMPTS {
        let temporary = format!("{TEMPORARY_PREFIX}{}.{attempt}", std::process::id());
        match Staged::write(directory, temporary, content, mode, None, keep) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            written => return Ok(written?),
        }
    }
    Err(Errno::EXIST.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use rustix::fs::mknodat;

    use super::*;

    #[test]
    fn only_what_can_be_a_disk_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let image = dir.path().join("image");
        std::fs::write(&image, "").unwrap();
        let link = dir.path().join("link");
        symlink(&image, &link).unwrap();
        open_disk(&image).unwrap();
        open_disk(&link).unwrap();
        for path in [&fifo, dir.path(), Path::new("/dev/zero")] {
            let fault = open_disk(path).unwrap_err();
            assert!(matches!(fault, FileFault::NotDisk), "{fault}");
        }
        assert!(matches!(open_disk(&dir.path().join("absent")), Err(FileFault::Io(_))));
    }

    #[test]
    fn a_regular_file_is_replaced_and_not_written_into() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        let other_link = dir.path().join("other-link");
        std::fs::hard_link(&path, &other_link).unwrap();

        write(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);
        assert_eq!(std::fs::read(&other_link).unwrap(), b"old");
        let names = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names, 2, "the temporary file is gone");
    }

    #[test]
    fn everything_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "untouched").unwrap();
        let link = dir.path().join("link");
        symlink(&victim, &link).unwrap();
        let dangling = dir.path().join("dangling");
        symlink("absent", &dangling).unwrap();
        for path in [&link, &dangling, dir.path(), Path::new("/"), Path::new("/dev/null")] {
            let error = write(path, b"new").unwrap_err();
            assert!(matches!(error.fault, FileFault::NotRegular), "{error}");
        }
        assert_eq!(std::fs::read(&victim).unwrap(), b"untouched");
        assert!(!dir.path().join("absent").exists());
        let error = write(&dir.path().join("absent/image"), b"new").unwrap_err();
        assert!(matches!(error.fault, FileFault::Io(_)), "{error}");
    }

    #[test]
    fn a_leftover_temporary_file_is_not_reused() {
        let dir = tempfile::tempdir().unwrap();
        let leftover = dir.path().join(format!(".kata-configdev.{}.0", std::process::id()));
        symlink("elsewhere", &leftover).unwrap();
        write(&dir.path().join("image"), b"new").unwrap();
        assert!(leftover.is_symlink());
        assert!(!dir.path().join("elsewhere").exists());
    }
}
