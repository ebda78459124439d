//! A directory that is replaced whole.

use std::ffi::CStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, mkdirat, openat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::error::{Error, unwritten};
use crate::names;

/// The directory behind the name.
const CURRENT: &str = "current";

/// The one that is to be behind it next.
const SPARE: &str = "spare";

/// How a directory of ours is opened: not by a link.
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

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
pub type Files<'a> = &'a [(&'a str, &'a [u8])];

impl Swap {
    /// Puts a directory that holds exactly `files` at `name` in `parent`: 0755, each file 0644.
    ///
    /// What had the name before, a directory or any symbolic link, is removed and not followed.
    ///
    /// # Errors
    ///
    /// The system's; then the old state is untouched, or nothing has the name.
    pub fn prepare(parent: &Path, name: &str, files: Files<'_>) -> Result<Self, Error> {
        let path = parent.join(format!(".{name}"));
        let home = at(&path, make_directory(&path))?;
        at(&path, home.set_permissions(Permissions::from_mode(0o755)))?;
        let swap = Self { path, home };
        swap.make_spare()?;
        let spare = swap.open_spare()?;
        swap.fill(&spare, files)?;
        // What stood there before goes.
        swap.make_spare()?;
        swap.give_name(parent, name)?;
        Ok(swap)
    }

    /// Replaces the content by exactly `files`.
    ///
    /// # Errors
    ///
    /// The system's; then the old state is untouched.
    pub fn place(&self, files: Files<'_>) -> Result<(), Error> {
        let spare = self.open_spare()?;
        at(&self.path.join(SPARE), clear(&spare))?;
        self.fill(&spare, files)
    }

    /// Writes `files` into the empty `spare`, which then becomes the current one.
    fn fill(&self, spare: &File, files: Files<'_>) -> Result<(), Error> {
        let path = self.path.join(SPARE);
        for (name, content) in files {
            write(spare, name, content).map_err(|error| unwritten(&path.join(name), error))?;
        }
        at(&path, spare.set_permissions(Permissions::from_mode(0o755)))?;
        let rename = |flags| renameat_with(&self.home, SPARE, &self.home, CURRENT, flags);
        // The first one has nothing to take turns with.
        let renamed = rename(RenameFlags::EXCHANGE).or_else(|errno| match errno {
            Errno::NOENT => rename(RenameFlags::NOREPLACE),
            errno => Err(errno),
        });
        renamed.map_err(|errno| unwritten(&self.path.join(CURRENT), errno))
    }

    /// Takes the name away, and what is behind it, which holds no files, from `parent`.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn remove(&self, parent: impl AsFd, name: &str) -> Result<(), Error> {
        // The directory, by which others know that it is there, goes last.
        let removed = unlinkat(&parent, name, AtFlags::empty())
            .and_then(|()| unlinkat(&self.home, SPARE, AtFlags::REMOVEDIR))
            .and_then(|()| unlinkat(&self.home, CURRENT, AtFlags::REMOVEDIR))
            .and_then(|()| unlinkat(&parent, format!(".{name}"), AtFlags::REMOVEDIR));
        at(&self.path, removed.map_err(io::Error::from))
    }

    /// The directory in which the turns are taken, which is all that [`Swap::place`] touches.
    pub fn home(&self) -> BorrowedFd<'_> {
        self.home.as_fd()
    }

    /// Makes the spare directory, without anything in it, whatever has its name.
    fn make_spare(&self) -> Result<(), Error> {
        let make = || mkdirat(&self.home, SPARE, Mode::RWXU);
        let made = make().or_else(|errno| match errno {
            // What a run left that was killed, or what stood there before the exchange.
            Errno::EXIST => {
                remove(&self.path.join(SPARE));
                make()
            }
            other => Err(other),
        });
        made.map_err(|errno| unwritten(&self.path.join(SPARE), errno))
    }

    fn open_spare(&self) -> Result<File, Error> {
        let opened = openat(&self.home, SPARE, DIRECTORY, Mode::empty());
        let spare = opened.map_err(|errno| unwritten(&self.path.join(SPARE), errno))?;
        Ok(File::from(spare))
    }

    /// Makes the link, or puts it in the place of what has the name, in one rename.
    fn give_name(&self, parent: &Path, name: &str) -> Result<(), Error> {
        let target = parent.join(name);
        let link = format!(".{name}/{CURRENT}");
        let mut made = symlinkat(&link, CWD, &target);
        if made == Err(Errno::EXIST) {
            if fs::read_link(&target).is_ok_and(|found| found.as_os_str() == link.as_str()) {
                return Ok(());
            }
            let staging = self.path.join("link");
            remove(&staging);
            made = symlinkat(&link, CWD, &staging)
                .and_then(|()| renameat_with(CWD, &staging, CWD, &target, RenameFlags::EXCHANGE));
            // Whatever had the name until now.
            remove(&staging);
        }
        made.map_err(|errno| unwritten(&target, errno))
    }
}

impl Drop for Swap {
    /// What stays is unused and holds nothing secret.
    fn drop(&mut self) {
        let _ = self.open_spare().map(|spare| clear(&spare));
        let _ = unlinkat(&self.home, SPARE, AtFlags::REMOVEDIR);
    }
}

/// Opens the directory at `path`, which is made if there is none. What else has the name is
/// removed.
fn make_directory(path: &Path) -> io::Result<File> {
    let make = || match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    let open = || openat(CWD, path, DIRECTORY, Mode::empty());
    make()?;
    let opened = match open() {
        Err(Errno::NOTDIR | Errno::LOOP) => {
            remove(path);
            make()?;
            open()
        }
        opened => opened,
    };
    Ok(opened?.into())
}

/// Removes the files in a directory of ours.
fn clear(directory: &File) -> io::Result<()> {
    let remove = |name: &CStr, _| Ok(unlinkat(directory, name, AtFlags::empty())?);
    names::each(directory, remove)
}

fn write(directory: &File, name: &str, content: &[u8]) -> io::Result<()> {
    debug_assert!(!name.contains('/'), "names are constants or `initdata::FileName`s");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
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
    result.map_err(|source| unwritten(path, source))
}

#[cfg(test)]
#[path = "swap/tests.rs"]
mod tests;
