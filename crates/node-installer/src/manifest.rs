//! The list of what was installed, kept on the node: only what it names is ever replaced or
//! removed, and only by its owner.

mod form;
mod newer;
pub mod standing;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::Zeroizing;

use self::form::parse;
use self::newer::Newer;
use crate::administered::require_administered;
use crate::kind::Kind;
use crate::node::{Directory, Node, digest};
use crate::owner::Owner;
use crate::{Error, HostPath, Options};

/// The list's name in the prefix.
pub const NAME: &str = "installed.json";

/// The longest list; the most sets with the most handlers and documents have less, unless their
/// paths are longer than any real ones. Free to change.
const MAX_MANIFEST_BYTES: usize = 32 << 20;

/// The form of the list.
///
/// It rises where an older version would do something wrong by what it understands, such as with
/// another kind of file. A key that an older version may take no notice of needs no other number:
/// that version leaves the key as it stands, also where it writes the file anew. So such a key must
/// not be about a file's content.
///
/// In all forms `owner` has its name and form, and every file is in `files`: an older version that
/// removes by a newer list takes the key `owner` for whose the files are, and a file that it does
/// not see there for none that starts a wrapper.
const FORMAT: u32 = 2;

/// The files and directories that this installer made, in the order in which it made them.
#[derive(Debug)]
pub(crate) struct Manifest {
    prefix: HostPath,
    /// Where documents are in memory: no digest of them is listed, because the list is on a disk,
    /// and a password can be guessed by its digest.
    in_memory: Option<HostPath>,
    listed: Listed,
    /// What is not understood of a list that a newer version wrote; such a list is never written.
    newer: Option<Newer>,
    /// The digest of the list as it stands on the node; `None` where there is none.
    stored: Option<String>,
}

/// The list as it stands in the file. The digests may be those of documents too, so that it is as
/// secret as they are.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Listed {
    format: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<Owner>,
    directories: Vec<HostPath>,
    files: Vec<Entry>,
    /// What other versions keep there; see [`FORMAT`].
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

/// A file on the list.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Entry {
    pub(crate) path: HostPath,
    /// SHA-256 of what was written; two of them while one replaces the other. None at all of a file
    /// in memory: then whatever is there is ours.
    sha256: Vec<String>,
    /// What the file is for.
    pub(crate) kind: Kind,
    /// The set that it was last written for; `None` where a newer list says it in another way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) set: Option<String>,
    /// What other versions keep there; see [`FORMAT`].
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

impl Entry {
    /// Whether both can be files of one set.
    pub(crate) fn may_share_set(&self, other: &Self) -> bool {
        self.set.is_none() || other.set.is_none() || self.set == other.set
    }

    fn knows(&self, digest: &str) -> bool {
        let is_in_memory = self.kind.is_secret() && self.sha256.is_empty();
        is_in_memory || self.sha256.iter().any(|known| known == digest)
    }
}

impl Manifest {
    /// Reads the list in `prefix`, which is open as `directory` and locked; without a directory
    /// there is none.
    pub(crate) fn load(prefix: &HostPath, directory: Option<&Directory>) -> Result<Self, Error> {
        let strictly = |text: &[u8]| parse(text).map(|listed| (listed, None));
        Self::read(prefix, directory, strictly)
    }

    /// The same for a removal: of a list that a newer version wrote, what proves itself.
    pub(crate) fn load_for_removal(
        prefix: &HostPath,
        directory: Option<&Directory>,
    ) -> Result<Self, Error> {
        Self::read(prefix, directory, newer::parse)
    }

    fn read(
        prefix: &HostPath,
        directory: Option<&Directory>,
        parse: impl Fn(&[u8]) -> Result<(Listed, Option<Newer>), String>,
    ) -> Result<Self, Error> {
        let text = directory.map(|directory| text(prefix, directory));
        let text = text.transpose()?.flatten();
        let (listed, newer) = match &text {
            Some(text) => parse(text).map_err(|reason| unusable(prefix, reason))?,
            None => (Listed::default(), None),
        };
        if let Some(directory) = directory {
            directory.remove_unfinished(NAME)?;
        }
        Ok(Self {
            prefix: prefix.clone(),
            in_memory: None,
            listed,
            newer,
            stored: text.as_deref().map(|text| digest(text)),
        })
    }

    /// Where the list is.
    pub(crate) fn path(&self) -> HostPath {
        self.prefix.join(NAME)
    }

    /// What is not understood of the list, where a newer version wrote it.
    pub(crate) fn newer(&self) -> Option<&Newer> {
        self.newer.as_ref()
    }

    /// Whether what the list says of a file is enough to tell that it is ours.
    pub(crate) fn proves(&self, entry: &Entry) -> bool {
        self.newer.is_none() || !entry.sha256.is_empty()
    }

    /// Whose the listed files are; `None` where nobody said so.
    pub(crate) fn owner(&self) -> Option<&Owner> {
        self.listed.owner.as_ref()
    }

    /// Makes the list that of `owner`, and of the newest format. Of files below `in_memory` it has
    /// no digests.
    pub(crate) fn claim(&mut self, owner: Option<&Owner>, in_memory: Option<&HostPath>) {
        self.in_memory = in_memory.cloned();
        self.listed.format = FORMAT;
        self.listed.owner = owner.cloned();
    }

    /// Writes the list, or removes it once nothing is listed; does nothing where it stands so
    /// already. A list of a newer version stays as it is as long as something of it is left.
    pub(crate) fn store(&mut self, node: &Node) -> Result<(), Error> {
        let is_over = self.is_empty() && self.listed.directories.is_empty();
        if self.newer.is_some() && !is_over {
            return Ok(());
        }
        let Some(directory) = node.directory(&self.prefix)? else {
            return Ok(());
        };
        if is_over {
            if self.stored.take().is_some() {
                directory.remove(NAME)?;
            }
            return Ok(());
        }
        let mut text = serde_json::to_vec_pretty(&self.listed)
            .map_err(|error| unusable(&self.prefix, error.to_string()))?;
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
        let mut files = self.listed.files.iter();
        files.any(|entry| entry.path == *path && self.proves(entry) && entry.knows(digest))
    }

    /// Whether `path` is on the list.
    pub(crate) fn has(&self, path: &HostPath) -> bool {
        self.listed.files.iter().any(|entry| entry.path == *path)
    }

    /// Notes that `digest` is about to be written into `path`, before it is: after a crash in
    /// between, whichever is there is ours.
    pub(crate) fn intend(&mut self, path: &HostPath, kind: Kind, set: Option<&str>, digest: &str) {
        let written = self.written(path, digest);
        match self.find(path) {
            Some(entry) if entry.knows(digest) => {}
            Some(entry) => entry.sha256.extend(written),
            None => self.listed.files.push(Entry {
                path: path.clone(),
                sha256: written,
                kind,
                set: set.map(str::to_owned),
                more: BTreeMap::new(),
            }),
        }
    }

    /// Notes that `path` has the content of `digest` now, if it is listed.
    pub(crate) fn settle(&mut self, path: &HostPath, digest: &str) {
        let written = self.written(path, digest);
        if let Some(entry) = self.find(path) {
            entry.sha256 = written;
        }
    }

    /// What is listed of a file that has the content of `digest`.
    fn written(&self, path: &HostPath, digest: &str) -> Vec<String> {
        match &self.in_memory {
            Some(directory) if path.chain().contains(directory) => Vec::new(),
            _ => vec![digest.to_owned()],
        }
    }

    /// Notes what `path` is for, if it is listed.
    pub(crate) fn describe(&mut self, path: &HostPath, kind: Kind, set: &str) {
        if let Some(entry) = self.find(path) {
            (entry.kind, entry.set) = (kind, Some(set.to_owned()));
        }
    }

    /// Strikes `path` off the list.
    pub(crate) fn forget(&mut self, path: &HostPath) {
        self.listed.files.retain(|entry| entry.path != *path);
    }

    pub(crate) fn add_directories(&mut self, made: Vec<HostPath>) {
        // A directory may have been removed and made again, such as those of `/run`.
        let known = &mut self.listed.directories;
        for path in made {
            if !known.contains(&path) {
                known.push(path);
            }
        }
    }

    /// The listed files, the last one written first.
    pub(crate) fn files(&self) -> Vec<Entry> {
        self.listed.files.iter().rev().cloned().collect()
    }

    /// Removes the directories that are empty and not in `kept`; those that stay in use stay
    /// listed, except at an uninstallation. As long as a list of a newer version stays, so do all:
    /// it goes on naming files in them, and a directory that is gone looks like one that is not
    /// mounted.
    pub(crate) fn remove_directories(
        &mut self,
        node: &Node,
        kept: &[HostPath],
    ) -> Result<(), Error> {
        if self.newer.is_some() && !self.is_empty() {
            return Ok(());
        }
        // Those below come later in the list than those above. The prefix holds the list itself.
        for index in (0..self.listed.directories.len()).rev() {
            let path = &self.listed.directories[index];
            let holds_list = self.prefix.chain().contains(path);
            // A directory that is not mounted looks as if it were gone.
            let is_above = |entry: &Entry| entry.path.chain().contains(path);
            let holds_file = self.listed.files.iter().any(is_above);
            let stays = holds_list || holds_file || kept.contains(path);
            if !stays && node.remove_directory(path)? {
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
        let is_read = self.newer.as_ref().is_none_or(|newer| newer.unread == 0);
        is_read && self.listed.files.is_empty()
    }

    fn find(&mut self, path: &HostPath) -> Option<&mut Entry> {
        let mut files = self.listed.files.iter_mut();
        files.find(|entry| entry.path == *path)
    }
}

/// Reads the list in `prefix`, which is open as `directory`; `None` where there is none. One that
/// somebody else can have written is not believed.
fn text(prefix: &HostPath, directory: &Directory) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    let read = directory.read_file(NAME, MAX_MANIFEST_BYTES);
    let read = read.map_err(|error| unusable(prefix, error.to_string()))?;
    let Some((text, metadata)) = read else {
        return Ok(None);
    };
    require_administered(&metadata)
        .map_err(|fault| Error::Untrusted { path: prefix.join(NAME).into(), fault })?;
    Ok(Some(text))
}

fn unusable(prefix: &HostPath, reason: String) -> Error {
    Error::Manifest { path: prefix.join(NAME), reason }
}

/// The paths on the list of the prefix, as far as it can be read; for who only looks.
pub(crate) fn listed(options: &Options, node: &Node) -> Vec<HostPath> {
    let list = || {
        let directory = node.administered_directory(&options.prefix).ok()??;
        let text = text(&options.prefix, &directory).ok()??;
        newer::parse(&text).ok().map(|(listed, _)| listed)
    };
    let ours = list().filter(|list| list.owner.is_none() || list.owner == options.owner);
    let files = ours.into_iter().flat_map(|list| list.files);
    files.map(|entry| entry.path).collect()
}
