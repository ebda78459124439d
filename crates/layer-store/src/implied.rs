//! Owners and modes of directories that a layer has no entry for.
//!
//! A layer with `tmp/x` and without `tmp/` says nothing about `tmp`, but its directory has to have
//! one. Overlayfs shows the owner and mode of the uppermost directory of a name. So this directory
//! would hide what a lower layer says: a `/tmp` that only root may write to, a private home that
//! everyone may read. Before the upper directory is used, this module makes such directories in it,
//! with the owner and mode of the uppermost *entry*.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use layer_unpack::tree::OPAQUE_XATTR;
use layer_unpack::{attributes, directory};
use rustix::buffer::spare_capacity;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timestamps, Uid, XattrFlags, fchmod, fchown, fgetxattr, fremovexattr,
    fsetxattr, fstat, mkdirat, utimensat,
};
use rustix::io::Errno;

use crate::error::Error;
use crate::layer::Layer;

/// A layer as it is looked into here.
struct Lower {
    root: OwnedFd,
    implied: HashSet<Vec<u8>>,
}

/// What a layer has at a path.
enum Lookup {
    /// Nothing, so the layers below it may show.
    Nothing,
    /// Something that hides the layers below it.
    End,
    /// A directory; the last one if another on the way to it hides the layers below.
    Directory { handle: OwnedFd, is_last: bool },
}

/// Prepares an upper directory for layers, uppermost first. Gives the roots of those that show at
/// all: one that makes the root opaque hides those below, but overlayfs looks for that mark
/// everywhere except at a layer's root. Blocks.
///
/// # Errors
///
/// [`Error::File`].
pub(crate) fn prepare(layers: &[&Layer], upper: &Path) -> Result<Vec<OwnedFd>, Error> {
    let mut lowers =
        layers.iter().map(|layer| Lower::open(layer)).collect::<Result<Vec<_>, _>>()?;
    let mut visible = lowers.len();
    for (at, (lower, layer)) in lowers.iter().zip(layers).enumerate() {
        if is_opaque(&lower.root).map_err(Error::file("examine", layer.root()))? {
            visible = at + 1;
            break;
        }
    }
    let failed = |error| Error::file("prepare", upper)(error);
    let target = directory::open(CWD, upper.as_os_str().as_encoded_bytes())
        .map_err(io::Error::from)
        .map_err(failed)?;
    complete(&lowers[..visible], &target).map_err(failed)?;
    // Hiding everything in the root says nothing about the root itself.
    let root = lowers.iter().find(|lower| !lower.implied.contains(&b""[..])).or(lowers.last());
    if let Some(root) = root {
        let times = copy_attributes(&root.root, &target).map_err(failed)?;
        set_times(&target, b".", &times).map_err(failed)?;
    }
    lowers.truncate(visible);
    Ok(lowers.into_iter().map(|lower| lower.root).collect())
}

impl Lower {
    fn open(layer: &Layer) -> Result<Self, Error> {
        let path = layer.root();
        let root = directory::open(CWD, path.as_os_str().as_encoded_bytes());
        Ok(Self {
            root: root.map_err(|error| Error::file("open", &path)(error.into()))?,
            implied: layer.implied()?.into_iter().collect(),
        })
    }

    /// Looks at each component, as overlayfs does.
    fn find(&self, path: &[u8]) -> io::Result<Lookup> {
        let mut is_last = false;
        let mut at: Option<OwnedFd> = None;
        for name in path.split(|&byte| byte == b'/') {
            let directory = at.as_ref().unwrap_or(&self.root);
            is_last |= is_opaque(directory)?;
            at = Some(match directory::open(directory, name) {
                Ok(below) => below,
                Err(Errno::NOENT) if !is_last => return Ok(Lookup::Nothing),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Lookup::End),
                Err(error) => return Err(error.into()),
            });
        }
        Ok(at.map_or(Lookup::Nothing, |handle| Lookup::Directory { handle, is_last }))
    }
}

/// Makes what is needed below `upper`.
fn complete(lowers: &[Lower], upper: &OwnedFd) -> io::Result<()> {
    // The lowest layer's have nothing below to take over. In this order, what a directory lies in
    // comes before it.
    let Some((_, above)) = lowers.split_last() else {
        return Ok(());
    };
    let paths: BTreeSet<&[u8]> = above
        .iter()
        .flat_map(|lower| &lower.implied)
        .map(|path| &path[..])
        .filter(|path| !path.is_empty())
        .collect();
    let mut made: BTreeSet<&[u8]> = BTreeSet::new();
    let mut times = Vec::new();
    for path in paths {
        let Some((_, is_shown)) = explicit(lowers, path)? else {
            continue;
        };
        if is_shown {
            continue;
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for end in ends.map(|(at, _)| at).chain([path.len()]) {
            let path = &path[..end];
            if !made.insert(path) {
                continue;
            }
            mkdirat(upper, path, Mode::RWXU)?;
            let copy = directory::open(upper, path)?;
            if let Some((source, _)) = explicit(lowers, path)? {
                times.push((path, copy_attributes(&source, &copy)?));
            }
        }
    }
    for (path, times) in times {
        set_times(upper, path, &times)?;
    }
    Ok(())
}

/// The directory whose attributes are to show at a path, if a directory does: the uppermost with an
/// entry, or without any the uppermost. And whether overlayfs shows these by itself.
fn explicit(lowers: &[Lower], path: &[u8]) -> io::Result<Option<(OwnedFd, bool)>> {
    let mut uppermost = None;
    for lower in lowers {
        match lower.find(path)? {
            Lookup::Nothing => {}
            Lookup::End => break,
            Lookup::Directory { handle, .. } if !lower.implied.contains(path) => {
                return Ok(Some((handle, uppermost.is_none())));
            }
            Lookup::Directory { handle, is_last } => {
                uppermost.get_or_insert(handle);
                if is_last {
                    break;
                }
            }
        }
    }
    Ok(uppermost.map(|handle| (handle, true)))
}

/// Copies everything that unpacking sets, except the times: those are set when nothing more is made
/// in the copy.
pub(crate) fn copy_attributes(from: &OwnedFd, to: &OwnedFd) -> io::Result<Timestamps> {
    let stat = fstat(from)?;
    let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    fchown(to, Some(owner.0), Some(owner.1))?;
    fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    let names = directory::xattr_names(from)?;
    // The others are the kernel's and overlayfs's.
    for name in names.iter().filter(|name| attributes::is_taken(name)) {
        let mut value = Vec::with_capacity(directory::MAX_XATTR_BYTES);
        fgetxattr(from, &name[..], spare_capacity(&mut value))?;
        fsetxattr(to, &name[..], &value, XattrFlags::empty())?;
    }
    // A directory inherits lists from the one that it is made in.
    for name in [attributes::ACCESS_ACL, attributes::DEFAULT_ACL] {
        if !names.iter().any(|found| found == name) {
            match fremovexattr(to, name) {
                Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(directory::times(stat.st_mtime, stat.st_mtime_nsec as i64))
}

fn set_times(directory: &OwnedFd, path: &[u8], times: &Timestamps) -> io::Result<()> {
    Ok(utimensat(directory, path, times, AtFlags::empty())?)
}

pub(crate) fn is_opaque(directory: &OwnedFd) -> io::Result<bool> {
    let mut value = [0; 2];
    match fgetxattr(directory, OPAQUE_XATTR, &mut value) {
        Ok(length) => Ok(value[..length] == *b"y"),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
