//! Writing what should be on the node.

use rustix::process::geteuid;
use tracing::info;

use super::Pass;
use crate::kind::Kind;
use crate::node::{Directory, DirectoryEntry, digest};
use crate::plan::PlannedFile;
use crate::{Error, HostPath};

impl Pass {
    /// Writes `file` unless it is as it should be.
    pub(super) fn put(&mut self, file: &PlannedFile) -> Result<(), Error> {
        let set = file.set.as_deref();
        self.manifest.describe(&file.path, file.kind, set);
        let Some(content) = &file.content else {
            return Ok(());
        };
        let (directory, staging) = self.directories(file)?;
        let name = file.path.split().1;
        let digest = digest(content);
        let replaces = match directory.find(name)? {
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
        self.manifest.intend(&file.path, &digest);
        self.manifest.describe(&file.path, file.kind, set);
        self.manifest.store(&self.node)?;
        directory.replace(
            name,
            staging.as_ref().unwrap_or(&directory),
            content,
            file.mode,
        )?;
        self.manifest.settle(&file.path, &digest);
        self.manifest.store(&self.node)?;
        self.outcome.changes += 1;
        let done = if replaces { "replaced" } else { "installed" };
        let what = file.kind.name();
        info!(path = file.path.as_str(), "{done} the {what}");
        Ok(())
    }

    /// The directory of `file`, made where it is not Kata's, and the one to prepare it in if that
    /// is another.
    fn directories(&mut self, file: &PlannedFile) -> Result<(Directory, Option<Directory>), Error> {
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
    Error::NotOurs {
        what: file.kind.name(),
        path: file.path.clone(),
    }
}
