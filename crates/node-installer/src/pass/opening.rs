//! The prefix at the beginning of a pass: opened, locked, with the list of what is installed.

use std::fs::File;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tracing::info;

use super::{Outcome, Pass};
use crate::manifest::{self, Claim, FORMER_PREFIX, Manifest};
use crate::node::{Directory, Node};
use crate::plan::Places;
use crate::{Error, HostPath, Options};

/// How often the lock is tried, and how long between: a pass takes milliseconds, and a stuck one
/// should be heard of.
const LOCK_ATTEMPTS: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Another prefix whose list may be taken over.
struct Former {
    path: HostPath,
    directory: Directory,
    lock: File,
    list: Manifest,
}

/// What is at the former prefix.
enum Found {
    /// Nothing, or somebody else's.
    Nothing,
    Ours(Former),
    /// A list that cannot be taken over, and whether it says that it is this owner's.
    Unusable(Error, bool),
}

impl Pass {
    /// Opens and locks the prefix, which is made where it is not there, and takes over what an
    /// earlier version installed for nobody in particular.
    pub(super) fn open(options: &Options, node: Node) -> Result<Self, Error> {
        Self::of(options, node, false)
    }

    /// The same for a removal, where something is or may be installed; where neither the prefix nor
    /// anything to take over is there, what there is to say of that.
    pub(super) fn open_if_there(
        options: &Options,
        node: Node,
    ) -> Result<Result<Self, Outcome>, Error> {
        if node.directory(&options.prefix)?.is_none() {
            match former(options, &node)? {
                Found::Ours(_) => {}
                Found::Nothing => return Ok(Err(Outcome::default())),
                Found::Unusable(error, is_ours) => {
                    let mut outcome = Outcome::default();
                    outcome.tell_of_former(error, is_ours);
                    return Ok(Err(outcome));
                }
            }
        }
        Self::of(options, node, true).map(Ok)
    }

    fn of(options: &Options, node: Node, is_removal: bool) -> Result<Self, Error> {
        // Before anything is made there.
        node.administered_directory(&options.prefix)?;
        let mut made = Vec::new();
        node.make_directory(&options.prefix, 0o755, &mut made)?;
        // The one that is used from here on.
        let prefix = node.administered_directory(&options.prefix)?;
        let lock = prefix.as_ref().map(|prefix| lock(prefix, &options.prefix));
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
            _locks: lock.into_iter().collect(),
        };
        if let Some(directory) = &options.document_dir
            && pass.node.directory(directory)?.is_some()
        {
            pass.prefixes.push(directory.clone());
        }
        if pass.tell_of_newer() {
            // The version that wrote the list took over what there was.
            return Ok(pass);
        }
        match former(options, &pass.node)? {
            Found::Nothing => {}
            Found::Ours(former) => pass.adopt(former)?,
            Found::Unusable(error, is_ours) => pass.outcome.tell_of_former(error, is_ours),
        }
        Ok(pass)
    }

    /// Says what becomes of a list that a newer version wrote; whether it is one.
    fn tell_of_newer(&mut self) -> bool {
        let path = self.manifest.path();
        let Some(newer) = self.manifest.newer() else {
            return false;
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
        true
    }

    /// Takes over a list, so that what it names moves or goes in this pass.
    fn adopt(&mut self, former: Former) -> Result<(), Error> {
        self.manifest.adopt(&former.list);
        // In both lists for a moment rather than in none.
        self.manifest.store(&self.node)?;
        former.directory.remove(manifest::NAME)?;
        if !self.node.is_read_only() {
            info!(path = former.path.as_str(), "took over what is installed");
        }
        self.prefixes.push(former.path);
        self._locks.push(former.lock);
        Ok(())
    }
}

impl Outcome {
    /// What may be everybody's or nobody's must not keep a node from being ready: perhaps none of
    /// its installers can do anything about it.
    fn tell_of_former(&mut self, error: Error, is_ours: bool) {
        match is_ours {
            true => self.problems.push(error),
            false => self.warnings.push(format!("failed to {error}")),
        }
    }
}

/// The former prefix, if another one is used now and its list is this owner's or nobody's. Who has
/// no owner takes over nothing.
fn former(options: &Options, node: &Node) -> Result<Found, Error> {
    let (Ok(path), Some(owner)) = (HostPath::parse(FORMER_PREFIX), &options.owner) else {
        return Ok(Found::Nothing);
    };
    if path == options.prefix {
        return Ok(Found::Nothing);
    }
    let unusable = |error: Error, is_ours| {
        let (path, reason) = match error {
            Error::Manifest { path, reason } => (path, reason),
            other => (path.join(manifest::NAME), other.to_string()),
        };
        Found::Unusable(Error::FormerList { path, reason }, is_ours)
    };
    let directory = match node.administered_directory(&path) {
        Ok(Some(directory)) => directory,
        Ok(None) => return Ok(Found::Nothing),
        // Only a new mount helps.
        Err(error @ Error::DirectoryDeleted { .. }) => return Err(error),
        Err(error) => return Ok(unusable(error, false)),
    };
    // Before it is locked or even understood: another owner's is none of our business.
    let claim = match manifest::claim(&path, &directory, owner) {
        Ok(Claim::Absent | Claim::Others) => return Ok(Found::Nothing),
        Ok(claim @ (Claim::Own | Claim::Nobodys)) => claim,
        Err(error) => return Ok(unusable(error, false)),
    };
    let lock = lock(&directory, &path)?;
    let list = match Manifest::load(&path, Some(&directory)) {
        Ok(list) => list,
        Err(error) => return Ok(unusable(error, claim == Claim::Own)),
    };
    if list.owner().is_some_and(|found| found != owner) {
        return Ok(Found::Nothing);
    }
    Ok(Found::Ours(Former { path, directory, lock, list }))
}

/// Keeps other installers with the same prefix away until the answer is dropped.
fn lock(prefix: &Directory, path: &HostPath) -> Result<File, Error> {
    let failed = |source| Error::Node { action: "lock", path: path.clone(), source };
    let file = prefix.file().try_clone().map_err(failed)?;
    for _ in 0..LOCK_ATTEMPTS {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => sleep(LOCK_PAUSE),
            Err(errno) => return Err(failed(errno.into())),
        }
    }
    Err(Error::Locked { path: path.clone() })
}
