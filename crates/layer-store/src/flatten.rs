//! Makes one directory of several layers, without a mount and without copying a byte of a file.
//!
//! The lowest layer becomes the directory. The others are moved over it, name by name; where the
//! directory has nothing of a name, a whole tree is moved at once. The layers are used up.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use layer_unpack::directory::{self, times};
use layer_unpack::tree::{OPAQUE_XATTR, Occupant, kind_of};
use layer_unpack::{attributes, removal};
use linux_sys::rooted::open_scoped;
use rustix::fs::{
    AtFlags, CWD, FileType, OFlags, ResolveFlags, Timestamps, fremovexattr, fstat, futimens,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::directory::make_public;
use crate::error::Error;
use crate::implied::{copy_attributes, is_opaque};
use crate::layer::Layer;
use crate::mount::topmost_first;

/// Makes a directory, which is not there yet, out of layers, lowest first. Blocks.
///
/// # Errors
///
/// [`Error::File`]; the directory is unfinished then, and the layers are no longer whole.
pub fn flatten(layers: &[Layer], target: &Path) -> Result<(), Error> {
    let failed = |error| Error::file("flatten the layers into", target)(error);
    let mut layers = topmost_first(layers).into_iter().rev();
    let Some(lowest) = layers.next() else {
        // An image without a layer is an empty root.
        return make_public(target);
    };
    fs::rename(lowest.root(), target).map_err(failed)?;
    let open = |path: &Path| open_scoped(CWD, path, DIRECTORY, ResolveFlags::empty());
    let base = open(target).map_err(failed)?;
    if lowest.hides()? {
        clean(&base, Vec::new()).map_err(failed)?;
    }
    for layer in layers {
        let upper = open(&layer.root()).map_err(failed)?;
        let implied: HashSet<Vec<u8>> = layer.implied()?.into_iter().collect();
        let merge = Merge { base: &base, upper, implied, hides: layer.hides()? };
        merge.run().map_err(failed)?;
    }
    Ok(())
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// One layer on its way over what the lower ones made.
struct Merge<'a> {
    base: &'a OwnedFd,
    upper: OwnedFd,
    implied: HashSet<Vec<u8>>,
    hides: bool,
}

impl Merge<'_> {
    fn run(&self) -> io::Result<()> {
        if self.hides && is_opaque(&self.upper)? {
            empty(self.base)?;
        }
        // Paths, not descriptors: trees are deeper than a process has of these.
        let mut directories = vec![Vec::new()];
        while let Some(path) = directories.pop() {
            let (from, to) = (open(&self.upper, &path)?, open(self.base, &path)?);
            // Before anything is moved, which changes both.
            let is_implied = self.implied.contains(&path);
            let times = times_of(if is_implied { &to } else { &from })?;
            for (name, kind) in entries(&from)? {
                if self.entry(&from, &to, &name, kind)? {
                    directories.push(join(&path, &name));
                } else if self.hides && kind == FileType::Directory {
                    clean(self.base, join(&path, &name))?;
                }
            }
            if !is_implied {
                attributes::clear(&to)?;
                copy_attributes(&from, &to)?;
            }
            futimens(&to, &times)?;
        }
        Ok(())
    }

    /// Moves an entry; whether it is a directory that both have, to be gone into.
    fn entry(&self, from: &OwnedFd, to: &OwnedFd, name: &[u8], kind: FileType) -> io::Result<bool> {
        let below = kind_of(to, name)?;
        if kind == FileType::CharacterDevice && kind_of(from, name)? == Some(Occupant::Whiteout) {
            if below.is_some() {
                removal::remove(to.as_fd(), name)?;
            }
            return Ok(false);
        }
        if kind == FileType::Directory && below == Some(Occupant::Directory) {
            if is_opaque(&open(from, name)?)? {
                empty(&open(to, name)?)?;
            }
            return Ok(true);
        }
        if below == Some(Occupant::Directory) || below.is_some() && kind == FileType::Directory {
            // A file does not replace a directory by a rename, nor the reverse.
            removal::remove(to.as_fd(), name)?;
        }
        renameat(from, name, to, name)?;
        Ok(false)
    }
}

/// Removes what is in a directory. Whose it is, and when it was changed, stays.
fn empty(directory: &OwnedFd) -> io::Result<()> {
    let times = times_of(directory)?;
    for (name, _) in entries(directory)? {
        removal::remove(directory.as_fd(), &name)?;
    }
    Ok(futimens(directory, &times)?)
}

/// Removes the marks for overlayfs from a tree that has nothing below it any more.
fn clean(root: &OwnedFd, path: Vec<u8>) -> io::Result<()> {
    let mut directories = vec![path];
    while let Some(path) = directories.pop() {
        let directory = open(root, &path)?;
        let times = times_of(&directory)?;
        match fremovexattr(&directory, OPAQUE_XATTR) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        let mut is_changed = false;
        for (name, kind) in entries(&directory)? {
            match kind {
                FileType::Directory => directories.push(join(&path, &name)),
                FileType::CharacterDevice
                    if kind_of(&directory, &name)? == Some(Occupant::Whiteout) =>
                {
                    unlinkat(&directory, &name[..], AtFlags::empty())?;
                    is_changed = true;
                }
                _ => {}
            }
        }
        if is_changed {
            futimens(&directory, &times)?;
        }
    }
    Ok(())
}

fn times_of(directory: &OwnedFd) -> io::Result<Timestamps> {
    let stat = fstat(directory)?;
    Ok(times(stat.st_mtime, stat.st_mtime_nsec as i64))
}

/// The names in a directory and what they are; read whole, because the directory is changed while
/// they are gone through.
fn entries(directory: &OwnedFd) -> io::Result<Vec<(Vec<u8>, FileType)>> {
    let mut found = Vec::new();
    for entry in directory::entries(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let kind = match entry.file_type() {
            // Not every file system notes it in its directories.
            FileType::Unknown => {
                let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        found.push((name.to_bytes().to_vec(), kind));
    }
    Ok(found)
}

/// Opens a directory below another one. None of the way is a symbolic link, for what is on it was
/// seen to be directories.
fn open(root: &OwnedFd, path: &[u8]) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let path = if path.is_empty() { b"." } else { path };
    open_scoped(root, path, DIRECTORY, resolve)
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, name].join(&b'/') }
}
