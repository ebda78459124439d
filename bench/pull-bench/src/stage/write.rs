//! The barest way from a trusted tar to files: four system calls a file, no checks, no owners, no
//! attributes.

use std::collections::HashMap;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, futimens, linkat, mkdirat, open, openat,
    symlinkat, utimensat,
};
use tar::EntryType;

use super::{BUFFER_BYTES, Stopwatch};

/// Writes the tar's entries below the new directory `root`.
pub fn unpack(tar: &mut impl Read, watch: &Stopwatch, root: &Path) -> Result<()> {
    watch.stop();
    rustix::process::umask(Mode::empty());
    std::fs::create_dir_all(root)?;
    watch.start();
    let root = open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut parent = (PathBuf::new(), root.try_clone()?);
    let mut directories = HashMap::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut archive = tar::Archive::new(tar);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let path: &Path = path.strip_prefix(".").unwrap_or(&path);
        let Some(name) = path.file_name() else {
            continue;
        };
        let above = path.parent().unwrap_or(Path::new(""));
        if parent.0 != above {
            parent = (
                above.to_owned(),
                openat(
                    &root,
                    above_or_dot(above),
                    OFlags::DIRECTORY | OFlags::CLOEXEC,
                    Mode::empty(),
                )?,
            );
        }
        let mode = Mode::from_raw_mode(entry.header().mode()?);
        let times = times(entry.header().mtime()?);
        let target = |entry: &tar::Entry<'_, _>| {
            Ok::<_, anyhow::Error>(entry.link_name()?.context("no target")?.into_owned())
        };
        match entry.header().entry_type() {
            EntryType::Directory => {
                mkdirat(&parent.1, name, mode)?;
                directories.insert(path.to_owned(), times);
            }
            EntryType::Symlink => {
                symlinkat(target(&entry)?, &parent.1, name)?;
                utimensat(&parent.1, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            EntryType::Link => {
                let target = target(&entry)?;
                let target = target.strip_prefix(".").unwrap_or(&target);
                linkat(&root, target, &parent.1, name, AtFlags::empty())?;
            }
            _ => file(&mut entry, &parent.1, name.as_ref(), mode, &times, &mut buffer)?,
        }
    }
    for (path, times) in directories {
        utimensat(&root, &path, &times, AtFlags::empty())?;
    }
    Ok(())
}

fn file(
    content: &mut impl Read,
    parent: &OwnedFd,
    name: &Path,
    mode: Mode,
    times: &Timestamps,
    buffer: &mut [u8],
) -> Result<()> {
    let file = openat(
        parent,
        name,
        OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC,
        mode,
    )?;
    loop {
        let read = content.read(buffer)?;
        if read == 0 {
            break;
        }
        let mut bytes = &buffer[..read];
        while !bytes.is_empty() {
            bytes = &bytes[rustix::io::write(&file, bytes)?..];
        }
    }
    Ok(futimens(&file, times)?)
}

fn above_or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

fn times(mtime: u64) -> Timestamps {
    let time = Timespec { tv_sec: i64::try_from(mtime).unwrap_or_default(), tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}
