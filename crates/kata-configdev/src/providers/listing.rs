//! The kubelet's configuration of its plugins, from a file or from a directory.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use credential_sources::kubelet::config::{ConfigError, MAX_CONFIG_BYTES, Providers};

use super::NOT_FOUND;
use crate::host_file::{FileError, FileFault, HostFile, require_administered};

/// The most entries of a directory that are looked at. Free to change; a node has one or two.
const MAX_ENTRIES: usize = 256;

/// What the kubelet reads in a directory.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

/// Why the configuration cannot be used, as a sentence's beginning.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListingFault {
    /// A file or the directory cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The settings name no place, and it is at none of the usual ones.
    #[error("{NOT_FOUND}")]
    NotFound,
    /// A directory without a configuration.
    #[error("{}: no file ends in .json, .yaml or .yml", .0.display())]
    Empty(PathBuf),
    /// What a file says.
    #[error("{}: {rule}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// The rule that is broken.
        rule: ConfigError,
    },
}

/// Reads the plugins that `path` names: a file; or the files of a directory in the order of their
/// names, as one.
///
/// # Errors
///
/// [`ListingFault`]. No file is skipped because it is broken.
pub fn read(path: &Path) -> Result<Providers, ListingFault> {
    let metadata = std::fs::metadata(path).map_err(|error| FileFault::from(error).at(path))?;
    let is_directory = metadata.is_dir();
    let files = if is_directory {
        require_administered(&metadata).map_err(|fault| fault.at(path))?;
        let files = files(path).map_err(|fault| fault.at(path))?;
        if files.is_empty() {
            return Err(ListingFault::Empty(path.into()));
        }
        files
    } else {
        vec![path.into()]
    };
    let mut providers = Providers::default();
    let mut last_empty = None;
    for file in files {
        let text = HostFile::open(&file)
            .and_then(HostFile::require_administered)
            .and_then(|opened| opened.read(MAX_CONFIG_BYTES))
            .map_err(|fault| fault.at(&file))?;
        match providers.add(&text) {
            // As for the kubelet: a file of several may name none, all together may not.
            Err(ConfigError::NoProvider) if is_directory => last_empty = Some(file),
            added => added.map_err(|rule| ListingFault::Text { path: file, rule })?,
        }
    }
    match last_empty.filter(|_| providers.list().is_empty()) {
        None => Ok(providers),
        Some(path) => Err(ListingFault::Text { path, rule: ConfigError::NoProvider }),
    }
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, FileFault> {
    let mut files = Vec::new();
    for (index, entry) in std::fs::read_dir(directory)?.enumerate() {
        if index == MAX_ENTRIES {
            return Err(FileFault::TooManyEntries(MAX_ENTRIES));
        }
        let path = entry?.path();
        let ending = path.extension().and_then(OsStr::to_str);
        if ending.is_some_and(|ending| ENDINGS.contains(&ending)) && !is_directory(&path)? {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn is_directory(path: &Path) -> io::Result<bool> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        // A link to nowhere: opening it gives the better message.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
