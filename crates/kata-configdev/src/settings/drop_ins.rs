//! The files of `config.d` beside a settings file.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use linux_sys::rooted::Root;
use rustix::fs::OFlags;

use super::text::Layer;
use super::{SettingsError, layer_file};
use crate::host_file::{FileFault, HostFile, require_administered};

/// The directory's name.
const DIRECTORY: &str = "config.d";

/// The most entries of the directory that are looked at. Free to change; a node has a handful.
const MAX_ENTRIES: usize = 1024;

/// Reads every `*.toml` of the directory `config.d` beside `settings`, sorted by name as bytes. No
/// directory is as good as an empty one. Hidden files and other endings are left alone: editors and
/// package managers put copies there.
///
/// # Errors
///
/// [`SettingsError`]: a drop-in that cannot be read is never skipped.
pub fn read(settings: &Path) -> Result<Vec<(PathBuf, Layer)>, SettingsError> {
    let directory = settings.parent().unwrap_or(Path::new("/")).join(DIRECTORY);
    let (root, names) = match names(&directory) {
        Ok(found) => found,
        Err(fault) if fault.is_absent() => return Ok(Vec::new()),
        Err(fault) => return Err(fault.at(&directory).into()),
    };
    let mut layers = Vec::new();
    for name in names {
        let path = directory.join(&name);
        let file = HostFile::open_beneath(&root, name.as_ref()).map_err(|fault| fault.at(&path))?;
        let layer = layer_file::read(&path, file)?;
        layers.push((path, layer));
    }
    Ok(layers)
}

/// The directory held open, and the sorted names of its drop-ins.
fn names(directory: &Path) -> Result<(Root, Vec<OsString>), FileFault> {
    let root = Root::open(directory)?;
    // The same directory that the files are opened in, whatever its path means by now.
    let opened = root.open_file(".", OFlags::RDONLY | OFlags::DIRECTORY)?;
    require_administered(&opened.metadata()?)?;
    let mut names = list(&opened)?;
    names.retain(|name| {
        let name = name.as_bytes();
        name.ends_with(b".toml") && !name.starts_with(b".")
    });
    names.sort();
    Ok((root, names))
}

fn list(directory: &File) -> Result<Vec<OsString>, FileFault> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        if names.len() == MAX_ENTRIES {
            return Err(FileFault::TooManyEntries(MAX_ENTRIES));
        }
        let entry = entry?;
        names.push(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
    }
    Ok(names)
}
