//! A directory that is replaced whole.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use initdata::FileName;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, openat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::Error;

/// The directory behind the name.
const CURRENT: &str = "current";

/// The one that is to be behind it next.
const SPARE: &str = "spare";

/// A name in a directory, and two directories that take turns behind it.
///
/// The new content is complete before it gets the name, in one rename, so that a reader sees either
/// all files or none of them. The name is a symbolic link into a directory of our own, `.NAME`, in
/// which the turns are taken: so the sandbox has to leave nothing but that directory. Not synced:
/// `/run` is memory.
#[derive(Debug)]
pub struct Swap {
    path: PathBuf,
    home: File,
}

/// Names and contents.
pub type Files<'a> = &'a [(&'a FileName, &'a [u8])];

impl Swap {
    /// Puts a directory that holds exactly `files` at `name` in `parent`: 0755, each file 0644.
    ///
    /// What had the name before, a directory or any symbolic link, is removed and not followed.
    ///
    /// # Errors
    ///
    /// [`Error::Write`]; then the old state is untouched, or nothing has the name.
    pub fn prepare(parent: &Path, name: &str, files: Files<'_>) -> Result<Self, Error> {
        let path = parent.join(format!(".{name}"));
        if !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            remove(&path);
            at(&path, DirBuilder::new().mode(0o755).create(&path))?;
        }
        let home = at(&path, open_directory(&path))?;
        at(&path, home.set_permissions(Permissions::from_mode(0o755)))?;
        let swap = Self { path, home };
        // A leftover of a run that was killed; and, once more behind the exchange, what stood there
        // before.
        remove(&swap.path.join(SPARE));
        swap.make_spare()?;
        swap.place(files)?;
        remove(&swap.path.join(SPARE));
        swap.make_spare()?;
        swap.give_name(parent, name)?;
        Ok(swap)
    }

    /// Replaces the content by exactly `files`.
    ///
    /// # Errors
    ///
    /// [`Error::Write`]; then the old state is untouched.
    pub fn place(&self, files: Files<'_>) -> Result<(), Error> {
        let path = self.path.join(SPARE);
        let spare = at(&path, open_directory(&path))?;
        at(&path, clear(&path, &spare))?;
        for (name, content) in files {
            at(&path.join(name.as_str()), write(&spare, name, content))?;
        }
        at(&path, spare.set_permissions(Permissions::from_mode(0o755)))?;
        let exchanged = match self.rename(SPARE, CURRENT, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => self.rename(SPARE, CURRENT, RenameFlags::EXCHANGE),
            other => other,
        };
        at(&self.path.join(CURRENT), exchanged.map_err(io::Error::from))
    }

    /// The directory in which the turns are taken, which is all that [`Swap::place`] touches.
    pub fn home(&self) -> BorrowedFd<'_> {
        self.home.as_fd()
    }

    fn rename(&self, from: &str, to: &str, flags: RenameFlags) -> Result<(), Errno> {
        renameat_with(&self.home, from, &self.home, to, flags)
    }

    fn make_spare(&self) -> Result<(), Error> {
        let path = self.path.join(SPARE);
        at(&path, DirBuilder::new().mode(0o700).create(&path))
    }

    /// Makes the link, in one rename, unless it is there already.
    fn give_name(&self, parent: &Path, name: &str) -> Result<(), Error> {
        let target = parent.join(name);
        let link = format!(".{name}/{CURRENT}");
        if fs::read_link(&target).is_ok_and(|found| found.as_os_str() == link.as_str()) {
            return Ok(());
        }
        let staging = self.path.join("link");
        remove(&staging);
        let made = symlinkat(link, CWD, &staging).and_then(|()| {
            match renameat_with(CWD, &staging, CWD, &target, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {
                    renameat_with(CWD, &staging, CWD, &target, RenameFlags::EXCHANGE)
                }
                other => other,
            }
        });
        // Whatever had the name until now.
        remove(&staging);
        at(&target, made.map_err(io::Error::from))
    }
}

impl Drop for Swap {
    /// What stays is unused and holds nothing secret.
    fn drop(&mut self) {
        let path = self.path.join(SPARE);
        let _ = open_directory(&path).and_then(|spare| clear(&path, &spare));
        let _ = unlinkat(&self.home, SPARE, AtFlags::REMOVEDIR);
    }
}

fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path, flags, Mode::empty())?))
}

/// Removes the files in a directory of ours.
fn clear(path: &Path, directory: &File) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        unlinkat(directory, entry?.file_name(), AtFlags::empty())?;
    }
    Ok(())
}

fn write(directory: &File, name: &FileName, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(directory, name.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(fd);
    file.write_all(content)?;
    // Set afterwards, because the umask may be odd.
    file.set_permissions(Permissions::from_mode(0o644))
}

/// Removes whatever has this name, without following a link.
fn remove(path: &Path) {
    let _ = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, Error> {
    result.map_err(|source| Error::Write(path.to_owned(), source))
}

#[cfg(test)]
#[path = "swap/tests.rs"]
mod tests;
