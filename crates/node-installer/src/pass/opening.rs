//! The prefix at the beginning of a pass: opened, locked, with the list of what is installed.

use std::fs::File;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tracing::info;

use super::{Outcome, Pass};
use crate::manifest::{self, FORMER_PREFIX, Manifest};
use crate::node::{Directory, Node};
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

impl Pass {
    /// Opens and locks the prefix, which is made where it is not there, and takes over what an
    /// earlier version installed for nobody in particular.
    pub(super) fn open(options: &Options) -> Result<Self, Error> {
        Self::of(options, Node::open(&options.host)?)
    }

    /// The same where something is or may be installed; `None` where neither the prefix nor
    /// anything to take over is there.
    pub(super) fn open_if_there(options: &Options) -> Result<Option<Self>, Error> {
        let node = Node::open(&options.host)?;
        let is_there =
            node.directory(&options.prefix)?.is_some() || former(options, &node)?.is_some();
        is_there.then(|| Self::of(options, node)).transpose()
    }

    fn of(options: &Options, node: Node) -> Result<Self, Error> {
        let mut made = Vec::new();
        let prefix = node.make_directory(&options.prefix, 0o755, &mut made)?;
        let lock = lock(&prefix, &options.prefix)?;
        let mut manifest = Manifest::load(&options.prefix, &prefix)?;
        if let Some(owner) = manifest.owner()
            && Some(owner) != options.owner.as_ref()
        {
            return Err(Error::Owned {
                path: options.prefix.clone(),
                owner: owner.clone(),
            });
        }
        manifest.claim(options.owner.as_ref(), options.document_dir.as_ref());
        manifest.add_directories(made);
        let mut pass = Self {
            node,
            prefixes: vec![options.prefix.clone()],
            whole_node: options.host == Path::new("/"),
            manifest,
            outcome: Outcome::default(),
            _locks: vec![lock],
        };
        if let Some(directory) = &options.document_dir
            && pass.node.directory(directory)?.is_some()
        {
            pass.prefixes.push(directory.clone());
        }
        if let Some(former) = former(options, &pass.node)? {
            pass.adopt(former)?;
        }
        Ok(pass)
    }

    /// Takes over a list, so that what it names moves or goes in this pass.
    fn adopt(&mut self, former: Former) -> Result<(), Error> {
        self.manifest.adopt(&former.list);
        // In both lists for a moment rather than in none.
        self.manifest.store(&self.node)?;
        former.directory.remove(manifest::NAME)?;
        info!(path = former.path.as_str(), "took over what is installed");
        self.prefixes.push(former.path);
        self._locks.push(former.lock);
        Ok(())
    }
}

/// The former prefix, if another one is used now and its list is this owner's or nobody's. Who has
/// no owner takes over nothing.
fn former(options: &Options, node: &Node) -> Result<Option<Former>, Error> {
    let Ok(path) = HostPath::parse(FORMER_PREFIX) else {
        return Ok(None);
    };
    if options.owner.is_none() || path == options.prefix {
        return Ok(None);
    }
    let Some(directory) = node.directory(&path)? else {
        return Ok(None);
    };
    if !directory.has(manifest::NAME)? {
        return Ok(None);
    }
    let lock = lock(&directory, &path)?;
    let list = Manifest::load(&path, &directory)?;
    let is_ours = list.owner().is_none() || list.owner() == options.owner.as_ref();
    Ok(is_ours.then_some(Former {
        path,
        directory,
        lock,
        list,
    }))
}

/// Keeps other installers with the same prefix away until the answer is dropped.
fn lock(prefix: &Directory, path: &HostPath) -> Result<File, Error> {
    let failed = |source| Error::Node {
        action: "lock",
        path: path.clone(),
        source,
    };
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
