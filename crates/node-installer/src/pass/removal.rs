//! Removing what should not be on the node any more, as far as it can be reached.
//!
//! The order keeps sandboxes starting: drop-ins first, then documents, then wrappers with their
//! settings. A drop-in that stays still starts a wrapper. So that one stays as well, with settings
//! that give sandboxes nothing. Where a newer list has files that are not understood, each of them
//! may be such a drop-in.

use super::Pass;
use crate::edit::{self, DropIn};
use crate::kind::{Kind, handler_of};
use crate::limits::MAX_EDITED_BYTES;
use crate::manifest::Entry;
use crate::node::{Directory, DirectoryEntry, digest};
use crate::{Error, HostPath, plan};

impl Pass {
    /// Removes what a killed process left of listed files, before anything decides that nothing is
    /// to do: half a document is a secret.
    pub(super) fn remove_unfinished(&mut self) {
        let mut entries = self.manifest.files();
        entries.retain(|entry| self.places.fit(entry));
        for entry in entries {
            let (Some(above), name) = entry.path.split() else {
                continue;
            };
            let directory = handler_of(&entry.path).unwrap_or(above);
            let removed = match self.node.directory(&directory) {
                Ok(Some(directory)) => directory.remove_unfinished(name),
                // Not seen from here: as for the file itself, that is told where that should change
                // or go.
                Ok(None) | Err(_) => Ok(()),
            };
            if let Err(error) = removed {
                self.outcome.problems.push(error);
            }
        }
    }

    /// Removes every listed file that is not in `wanted`. What cannot be removed is a problem, and
    /// does not keep the rest from going.
    pub(super) fn remove_all_but(&mut self, wanted: &[HostPath]) {
        let mut entries = self.manifest.files();
        entries.retain(|entry| !wanted.contains(&entry.path));
        let (drop_ins, others): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.kind == Kind::DropIn);
        let staying: Vec<Entry> =
            drop_ins.into_iter().filter(|drop_in| !self.remove(drop_in)).collect();
        let (secrets, others): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|entry| entry.kind.is_secret());
        let newer = self.manifest.newer();
        let is_unclear = newer.is_some_and(|newer| newer.unread > 0 || newer.unknown > 0);
        let is_started = |entry: &Entry| {
            let starts = |drop_in: &Entry| drop_in.may_share_set(entry);
            entry.kind.is_started() && (is_unclear || staying.iter().any(starts))
        };
        let (kept, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_started);
        // Before the documents that they name.
        for entry in &kept {
            if entry.kind == Kind::Settings
                && plan::is_settings_path(&entry.path)
                && let Err(error) = self.empty_settings(entry)
            {
                self.outcome.problems.push(error);
            }
        }
        for entry in secrets.iter().chain(&others) {
            self.remove(entry);
        }
        if !kept.is_empty() {
            let starts = |drop_in: &&Entry| kept.iter().any(|file| file.may_share_set(drop_in));
            let starting = staying.iter().filter(starts);
            self.outcome.problems.push(Error::Kept {
                drop_ins: starting.map(|entry| entry.path.clone()).collect(),
                files: kept.iter().map(|entry| entry.path.clone()).collect(),
            });
        }
    }

    /// Removes a file and strikes it off the list; says whether it starts and holds nothing of ours
    /// any more. What keeps it there becomes a problem.
    ///
    /// Of a removal, which nothing comes after, what somebody else changed stays listed: it is told
    /// each time as long as it is there. What is listed at a place that is not ours always is: to
    /// an installation that is no problem.
    fn remove(&mut self, entry: &Entry) -> bool {
        let path = &entry.path;
        let mut is_listed = false;
        let is_over = match self.take_away(entry) {
            Ok(was_there) => {
                if was_there {
                    self.changed(path, "remove", "removed");
                }
                true
            }
            Err(error) => {
                let is_misplaced = matches!(error, Error::Misplaced { .. });
                let is_left = matches!(error, Error::LeftBehind { .. } | Error::LineRemoved { .. });
                is_listed = is_misplaced || self.is_removal;
                if is_misplaced && !self.is_removal {
                    self.outcome.is_incomplete = true;
                    self.outcome.warnings.push(format!("failed to {error}"));
                } else {
                    self.outcome.problems.push(error);
                }
                is_misplaced || is_left
            }
        };
        if is_over && !is_listed {
            self.manifest.forget(path);
            self.store();
        }
        is_over
    }

    /// Writes the list. That it cannot be written does not keep anything from being removed: what
    /// it still names is looked for again.
    pub(super) fn store(&mut self) {
        if let Err(error) = self.manifest.store(&self.node) {
            let shown = error.to_string();
            let mut problems = self.outcome.problems.iter();
            if !problems.any(|problem| problem.to_string() == shown) {
                self.outcome.problems.push(error);
            }
        }
    }

    /// Removes a file if it is as it was written, or may hold a secret; says whether it was there.
    fn take_away(&mut self, entry: &Entry) -> Result<bool, Error> {
        let path = &entry.path;
        let (Some(above), name) = path.split() else {
            return Ok(false);
        };
        let fits = self.places.fit(entry);
        let misplaced = || Error::Misplaced {
            path: path.clone(),
            what: entry.kind.name(),
            list: self.manifest.path(),
        };
        let Some(directory) = self.node.directory(&above)? else {
            return match self.is_mounted(path, &above)? {
                true => Ok(false),
                false if fits => Err(Error::NotMounted { path: path.clone() }),
                false => Err(misplaced()),
            };
        };
        let is_newer = self.manifest.newer().is_some();
        let is_ours = match directory.find(name)? {
            DirectoryEntry::Absent => return Ok(false),
            _ if !fits => return Err(misplaced()),
            DirectoryEntry::Foreign => false,
            // Whoever changed it: a password must not stay, and the directory is ours.
            DirectoryEntry::File(_) if entry.kind.is_secret() && !is_newer => true,
            DirectoryEntry::File(seen) => self.manifest.wrote(path, &seen.digest),
        };
        if is_ours {
            directory.remove(name)?;
            return Ok(true);
        }
        if !self.manifest.proves(entry) {
            return Err(Error::Unproven { path: path.clone() });
        }
        Err(match entry.kind {
            Kind::DropIn => self.take_wrapper_out(path, &directory)?,
            _ => Error::LeftBehind { path: path.clone(), told: self.is_removal },
        })
    }

    /// Takes the line with the wrapper out of a drop-in that somebody else changed; the answer says
    /// what became of it.
    fn take_wrapper_out(&mut self, path: &HostPath, directory: &Directory) -> Result<Error, Error> {
        let (path, told) = (path.clone(), self.is_removal);
        let (name, handler) = (path.split().1.to_owned(), handler_of(&path));
        let Ok(Some(text)) = directory.read(&name, MAX_EDITED_BYTES) else {
            // A link, a directory, far too long: the wrapper may be behind it.
            return Ok(Error::DropInChanged { path });
        };
        match edit::without_wrapper(&text, &self.prefixes) {
            DropIn::Harmless => Ok(Error::LeftBehind { path, told }),
            DropIn::Unclear => Ok(Error::DropInChanged { path }),
            DropIn::Without(rest) => {
                let staging = handler.map(|handler| self.node.directory(&handler)).transpose()?;
                let staging = staging.flatten();
                directory.replace(&name, staging.as_ref().unwrap_or(directory), &rest, 0o644)?;
                self.changed(
                    &path,
                    "take the line with the wrapper out of",
                    "took the line with the wrapper out",
                );
                Ok(Error::LineRemoved { path, told })
            }
        }
    }

    /// Takes everything out of the settings `entry` that gives sandboxes something.
    fn empty_settings(&mut self, entry: &Entry) -> Result<(), Error> {
        let path = &entry.path;
        let (Some(above), name) = path.split() else {
            return Ok(());
        };
        let Some(directory) = self.node.directory(&above)? else {
            return match self.is_mounted(path, &above)? {
                true => Ok(()),
                false => Err(Error::NotMounted { path: path.clone() }),
            };
        };
        let failed = || Error::NotTaken { path: path.clone() };
        let text = match directory.read(name, MAX_EDITED_BYTES) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(()),
            Err(_) => return Err(failed()),
        };
        let rest = edit::without_document(&text).ok_or_else(failed)?;
        if rest == **text {
            return Ok(());
        }
        // What somebody else changed stays somebody else's.
        let digest_of_rest = digest(&rest);
        if self.manifest.wrote(path, &digest(&text)) {
            self.manifest.intend(path, entry.kind, entry.set.as_deref(), &digest_of_rest);
            self.store();
        }
        directory.replace(name, &directory, &rest, 0o644)?;
        self.changed(
            path,
            "take the document out of the settings",
            "took the document out of the settings",
        );
        Ok(())
    }

    /// Whether the `directory` of `path`, which is not there, would be seen if it were: then it is
    /// gone from the node too.
    ///
    /// A mount that was taken away leaves the directories that other mounts need, such as `/etc`.
    /// So only what is mounted itself shows anything: the prefix, and the handler of a drop-in. The
    /// settings' directory is mounted too, and is the missing one.
    fn is_mounted(&self, path: &HostPath, directory: &HostPath) -> Result<bool, Error> {
        let chain = directory.chain();
        if self.whole_node || self.prefixes.iter().any(|prefix| chain.contains(prefix)) {
            return Ok(true);
        }
        match handler_of(path) {
            Some(handler) => Ok(self.node.directory(&handler)?.is_some()),
            None => Ok(false),
        }
    }
}
