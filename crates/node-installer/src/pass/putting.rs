//! Writing what should be on the node.

use rustix::process::geteuid;

use super::Pass;
use crate::kind::Kind;
use crate::node::{Directory, DirectoryEntry, digest};
use crate::plan::PlannedFile;
use crate::{Error, HostPath};

impl Pass {
    /// Writes `file` unless it is as it should be.
    pub(super) fn put(&mut self, file: &PlannedFile) -> Result<(), Error> {
        self.manifest.describe(&file.path, file.kind, &file.set);
        let Some(content) = &file.content else {
            return Ok(());
        };
        let (directory, staging) = self.directories(file)?;
        let name = file.path.split().1;
        let digest = digest(content);
        let found = directory.as_ref().map(|directory| directory.find(name));
        let replaces = match found.transpose()?.unwrap_or(DirectoryEntry::Absent) {
            DirectoryEntry::Absent => false,
            DirectoryEntry::File(seen) => {
                let private = seen.uid == geteuid().as_raw() && seen.mode == file.mode;
                if seen.digest == digest && private {
                    // Also where somebody else put it there: then it is as wished, but not ours to
                    // remove.
                    self.manifest.settle(&file.path, &digest);
                    return Ok(());
                }
                if !self.manifest.wrote(&file.path, &seen.digest) {
                    return Err(not_ours(file));
                }
                true
            }
            DirectoryEntry::Foreign => return Err(not_ours(file)),
        };
        self.manifest.intend(&file.path, file.kind, Some(&file.set), &digest);
        self.manifest.store(&self.node)?;
        if let Some(directory) = &directory {
            let staging = staging.as_ref().unwrap_or(directory);
            directory.replace(name, staging, content, file.mode)?;
        }
        self.manifest.settle(&file.path, &digest);
        self.manifest.store(&self.node)?;
        let (does, did) = match replaces {
            true => ("replace", "replaced"),
            false => ("install", "installed"),
        };
        let what = file.kind.name();
        let (does, did) = (format!("{does} the {what}"), format!("{did} the {what}"));
        self.changed(&file.path, &does, &did);
        Ok(())
    }

    /// The directory of `file`, made where it is not Kata's and something is written at all, and
    /// the one to prepare it in if that is another.
    fn directories(
        &mut self,
        file: &PlannedFile,
    ) -> Result<(Option<Directory>, Option<Directory>), Error> {
        let Some(path) = file.path.split().0 else {
            return Err(not_ours(file));
        };
        let staging = if file.kind == Kind::DropIn {
            let missing = |path: HostPath| Error::HandlerMissing { path };
            let handler = path.split().0.unwrap_or_else(|| path.clone());
            let opened = self.node.directory(&handler)?;
            Some(opened.ok_or_else(|| missing(handler))?)
        } else {
            None
        };
        let mode = if file.mode & 0o077 == 0 { 0o700 } else { 0o755 };
        let mut made = Vec::new();
        let directory = self.node.make_directory(&path, mode, &mut made);
        self.manifest.add_directories(made);
        self.manifest.store(&self.node)?;
        Ok((directory?, staging))
    }
}

fn not_ours(file: &PlannedFile) -> Error {
    Error::NotOurs { what: file.kind.name(), path: file.path.clone() }
}
