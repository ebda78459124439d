//! The list of what was installed, kept on the node: only what it names is ever replaced or
//! removed.

use serde::{Deserialize, Serialize};

use crate::node::{Directory, Node, digest};
use crate::{Error, HostPath};

/// The list's name in the prefix.
const NAME: &str = "installed.json";

/// The longest list; the most sets with the most handlers have less. Free to change.
const MAX_MANIFEST_BYTES: usize = 8 << 20;

/// The files and directories that this installer made, in the order in which it made them.
#[derive(Debug)]
pub(crate) struct Manifest {
    prefix: HostPath,
    listed: Listed,
    /// The digest of the list as it stands on the node; `None` where there is none.
    stored: Option<String>,
}

/// The list as it stands in the file. The digests are those of documents too, so that it is as
/// secret as they are.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    directories: Vec<HostPath>,
    files: Vec<Entry>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: HostPath,
    /// SHA-256 of what was written; two of them while one replaces the other.
    sha256: Vec<String>,
}

impl Manifest {
    /// Reads the list in `prefix`, which is open as `directory` and locked.
    pub(crate) fn load(prefix: &HostPath, directory: &Directory) -> Result<Self, Error> {
        let unusable = |reason: String| Error::Manifest {
            path: prefix.join(NAME),
            reason,
        };
        directory.remove_unfinished(NAME)?;
        let text = directory
            .read(NAME, MAX_MANIFEST_BYTES)
            .map_err(|error| unusable(error.to_string()))?;
        let listed = match &text {
            Some(text) => serde_json::from_slice(text).map_err(|error| {
                unusable(format!(
                    "it is damaged at line {}, column {}",
                    error.line(),
                    error.column()
                ))
            })?,
            None => Listed::default(),
        };
        Ok(Self {
            prefix: prefix.clone(),
            listed,
            stored: text.as_deref().map(|text| digest(text)),
        })
    }

    /// Writes the list, or removes it once nothing is listed; does nothing where it stands so
    /// already.
    pub(crate) fn store(&mut self, node: &Node) -> Result<(), Error> {
        let Some(directory) = node.directory(&self.prefix)? else {
            return Ok(());
        };
        if self.listed.files.is_empty() && self.listed.directories.is_empty() {
            if self.stored.take().is_some() {
                directory.remove(NAME)?;
            }
            return Ok(());
        }
        let mut text =
            serde_json::to_vec_pretty(&self.listed).map_err(|error| Error::Manifest {
                path: self.prefix.join(NAME),
                reason: error.to_string(),
            })?;
        text.push(b'\n');
        let digest = Some(digest(&text));
        if self.stored != digest {
            directory.replace(NAME, &directory, &text, 0o600)?;
            self.stored = digest;
        }
        Ok(())
    }

    /// Whether this installer wrote `digest` into `path`.
    pub(crate) fn wrote(&self, path: &HostPath, digest: &str) -> bool {
        let known = |entry: &&Entry| entry.path == *path;
        self.listed
            .files
            .iter()
            .find(known)
            .is_some_and(|entry| entry.sha256.iter().any(|known| known == digest))
    }

    /// Notes that `digest` is about to be written into `path`, before it is: after a crash in
    /// between, whichever is there is ours.
    pub(crate) fn intend(&mut self, path: &HostPath, digest: &str) {
        match self
            .listed
            .files
            .iter_mut()
            .find(|entry| entry.path == *path)
        {
            Some(entry) => {
                if !entry.sha256.iter().any(|known| known == digest) {
                    entry.sha256.push(digest.into());
                }
            }
            None => self.listed.files.push(Entry {
                path: path.clone(),
                sha256: vec![digest.into()],
            }),
        }
    }

    /// Notes that `path` has the content of `digest` now, if it is listed.
    pub(crate) fn settle(&mut self, path: &HostPath, digest: &str) {
        if let Some(entry) = self
            .listed
            .files
            .iter_mut()
            .find(|entry| entry.path == *path)
        {
            entry.sha256 = vec![digest.into()];
        }
    }

    /// Strikes `path` off the list.
    pub(crate) fn forget(&mut self, path: &HostPath) {
        self.listed.files.retain(|entry| entry.path != *path);
    }

    pub(crate) fn add_directories(&mut self, made: Vec<HostPath>) {
        self.listed.directories.extend(made);
    }

    /// The listed files, the last one written first: Kata is pointed away from the wrapper before
    /// that goes.
    pub(crate) fn files(&self) -> Vec<HostPath> {
        let paths = self.listed.files.iter().map(|entry| entry.path.clone());
        paths.rev().collect()
    }

    /// Removes the directories that are empty; those that stay in use stay listed, except at an
    /// uninstallation.
    pub(crate) fn remove_directories(&mut self, node: &Node) -> Result<(), Error> {
        // Those below come later in the list than those above. The prefix holds the list itself.
        for index in (0..self.listed.directories.len()).rev() {
            let path = &self.listed.directories[index];
            let holds_list = self.prefix.chain().contains(path);
            if !holds_list && node.remove_directory(path)? {
                self.listed.directories.remove(index);
            }
        }
        Ok(())
    }

    /// Ends the list: removes it, and then the directories that it stood in.
    pub(crate) fn end(mut self, node: &Node) -> Result<(), Error> {
        let directories = std::mem::take(&mut self.listed.directories);
        self.store(node)?;
        for path in directories.iter().rev() {
            node.remove_directory(path)?;
        }
        Ok(())
    }

    /// Whether no file is listed.
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.files.is_empty()
    }
}
