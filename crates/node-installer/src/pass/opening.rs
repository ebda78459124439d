//! The prefix at the beginning of a pass: opened, locked, with the list of what is installed.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use linux_sys::lock;

use super::{Outcome, Pass};
use crate::manifest::Manifest;
use crate::node::{Directory, Node};
use crate::plan::Places;
use crate::{Error, HostPath, Options};

/// How long the lock is waited for: a pass takes milliseconds, and a stuck one should be heard of.
const LOCK_WITHIN: Duration = Duration::from_secs(5);

impl Pass {
    /// Opens and locks the prefix, which is made where it is not there.
    pub(super) fn open(options: &Options, node: Node) -> Result<Self, Error> {
        Self::of(options, node, false)
    }

    /// The same for a removal; `None` where the prefix is not there.
    pub(super) fn open_if_there(options: &Options, node: Node) -> Result<Option<Self>, Error> {
        if node.directory(&options.prefix)?.is_none() {
            return Ok(None);
        }
        Self::of(options, node, true).map(Some)
    }

    fn of(options: &Options, node: Node, is_removal: bool) -> Result<Self, Error> {
        // Before anything is made there.
        node.administered_directory(&options.prefix)?;
        let mut made = Vec::new();
        node.make_directory(&options.prefix, 0o755, &mut made)?;
        // The one that is used from here on.
        let prefix = node.administered_directory(&options.prefix)?;
        let lock = prefix.as_ref().map(|prefix| lock_prefix(prefix, &options.prefix));
        let lock = lock.transpose()?;
        let mut manifest = match is_removal {
            true => Manifest::load_for_removal(&options.prefix, prefix.as_ref())?,
            false => Manifest::load(&options.prefix, prefix.as_ref())?,
        };
        if let Some(owner) = manifest.owner()
            && Some(owner) != options.owner.as_ref()
        {
            return Err(Error::Owned { path: options.prefix.clone(), owner: owner.clone() });
        }
        manifest.claim(options.owner.as_ref(), options.document_dir.as_ref());
        manifest.add_directories(made);
        let mut pass = Self {
            node,
            prefixes: vec![options.prefix.clone()],
            places: Places::of(options),
            whole_node: options.host == Path::new("/"),
            is_removal,
            manifest,
            outcome: Outcome::default(),
            _lock: lock,
        };
        if let Some(directory) = &options.document_dir
            && pass.node.directory(directory)?.is_some()
        {
            pass.prefixes.push(directory.clone());
        }
        pass.tell_of_newer();
        Ok(pass)
    }

    /// Says what becomes of a list that a newer version wrote.
    fn tell_of_newer(&mut self) {
        let path = self.manifest.path();
        let Some(newer) = self.manifest.newer() else {
            return;
        };
        let more = match newer.keys {
            0 => String::new(),
            keys => format!("; {keys} of its keys are not understood"),
        };
        self.outcome.warnings.push(format!(
            "a newer version wrote {path}, in format {}: only files whose digest is on it are \
            removed{more}",
            newer.format
        ));
        if newer.unread > 0 {
            let count = newer.unread;
            self.outcome.problems.push(Error::Unread { path, count });
        }
    }
}

/// Keeps other installers with the same prefix away until the answer is dropped.
fn lock_prefix(prefix: &Directory, path: &HostPath) -> Result<File, Error> {
    let failed = |source| Error::Node { action: "lock", path: path.clone(), source };
    let file = prefix.file().try_clone().map_err(failed)?;
    match lock::exclusive(&file, LOCK_WITHIN).map_err(failed)? {
        true => Ok(file),
        false => Err(Error::Locked { path: path.clone() }),
    }
}
