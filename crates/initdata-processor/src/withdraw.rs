//! Disks with initdata, out of the reach of an agent that would read them again.
//!
//! An agent with Kata's own initdata processing looks through `/dev` for the magic, partitions too,
//! verifies nothing, and puts the policy that it finds in the place of the one that stands there.
//! What has no node in `/dev` itself is not found: devtmpfs makes one when a device appears, and
//! not again for a device that stays. The disks themselves are not detached: a node is all that
//! such an agent has, and a detached disk is back after a scan of its bus. Another run begins by
//! putting all nodes back, and judges each anew.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use config_image::{Magic, probe};
use process_sandbox::files::Grant;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, mkdirat, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use crate::journal::Journal;
use crate::paths::Paths;
use crate::watch::asks;
use crate::{Error, names};

/// Where the nodes go, a directory in `/dev`.
pub const TAKEN: &str = ".initdata";

/// How many nodes the log names: the host decides how many there are.
const MAX_NAMED: usize = 4;

/// The directory of the device nodes, held open.
#[derive(Debug)]
pub struct Nodes {
    path: PathBuf,
    directory: File,
    /// `None` where it cannot be made: then nodes are removed.
    taken: Option<File>,
}

impl Nodes {
    /// Opens the directory, with all nodes in it; `None` where there is none, and so nothing to
    /// read for anybody.
    #[must_use]
    pub fn open(paths: &Paths) -> Option<Self> {
        let directory = File::open(&paths.dev).ok()?;
        let is_new = mkdirat(&directory, TAKEN, Mode::RWXU).is_ok();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let taken = openat(&directory, TAKEN, flags, Mode::empty()).ok();
        let nodes = Self { path: paths.dev.clone(), directory, taken: taken.map(File::from) };
        if !is_new {
            nodes.put_back();
        }
        Some(nodes)
    }

    /// Puts back what an earlier run took away, so that this one finds what the first one found. A
    /// device that came again has a node already.
    fn put_back(&self) {
        let Some(taken) = &self.taken else {
            return;
        };
        // What cannot be listed or moved is missing in `/dev`: the search will say so. All of them
        // before one is moved: a directory that shrinks while it is listed may hide a part.
        let mut names = Vec::new();
        let _ = names::each(taken, |name, _| {
            names.push(name.to_owned());
            Ok(())
        });
        for name in &names {
            let moved = renameat_with(taken, name, &self.directory, name, RenameFlags::NOREPLACE);
            if moved == Err(Errno::EXIST) {
                let _ = unlinkat(taken, name, AtFlags::empty());
            }
        }
    }

    /// The directory itself.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// What taking nodes away takes.
    pub fn grants(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Grant)> {
        let taken = self.taken.iter().map(|taken| (taken.as_fd(), Grant::Taken));
        std::iter::once((self.directory.as_fd(), Grant::Remove)).chain(taken)
    }

    /// Takes away every node whose first bytes are initdata's magic, be it a disk's, a partition's
    /// or another device's. Those about which `known` says whether it is so are not looked at.
    ///
    /// # Errors
    ///
    /// [`Error::List`], [`Error::Write`]: then the agent must not start.
    pub fn withdraw_initdata(
        &self,
        known: impl Fn(&str) -> Option<bool>,
        journal: &mut Journal<'_>,
    ) -> Result<(), Error> {
        let is_meant = |name: &str| known(name).unwrap_or_else(|| self.is_initdata(name));
        self.withdraw("with initdata", is_meant, journal)
    }

    /// Takes away the node of every disk, unread: for where a disk does not answer, so that nobody
    /// knows what is on it, and an agent that reads it would not come back either.
    ///
    /// # Errors
    ///
    /// As [`Nodes::withdraw_initdata`].
    pub fn withdraw_all(&self, journal: &mut Journal<'_>) -> Result<(), Error> {
        self.withdraw("of disks", |_| true, journal)
    }

    fn withdraw(
        &self,
        what: &str,
        is_meant: impl Fn(&str) -> bool,
        journal: &mut Journal<'_>,
    ) -> Result<(), Error> {
        // All of them before one is taken: a directory that shrinks while it is listed may hide a
        // part.
        let mut meant = Vec::new();
        let listed = names::each(&self.directory, |name, kind| {
            // Before it is opened: opening a character device can do something.
            if matches!(kind, FileType::BlockDevice | FileType::RegularFile)
                // Names of disks are ASCII.
                && let Ok(name) = name.to_str()
                && is_meant(name)
            {
                meant.push(name.to_owned());
            }
            Ok(())
        });
        listed.map_err(|source| Error::List(self.path.clone(), source))?;
        for name in &meant {
            self.take(name).map_err(|errno| Error::Write(self.path.join(name), errno.into()))?;
        }
        if !meant.is_empty() {
            journal.info(format_args!(
                "device nodes {what} taken away from the agent: {} ({})",
                meant.len(),
                meant[..meant.len().min(MAX_NAMED)].join(", ")
            ));
        }
        Ok(())
    }

    fn take(&self, name: &str) -> Result<(), Errno> {
        let moved = self
            .taken
            .as_ref()
            .map(|taken| renameat_with(&self.directory, name, taken, name, RenameFlags::empty()));
        if let Some(Ok(())) = moved {
            return Ok(());
        }
        // The first Landlock knows no moves, so what is taken within it does not come back.
        match unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// What cannot be read is not initdata for the agent either.
    fn is_initdata(&self, name: &str) -> bool {
        matches!(self.magic(name), Ok(Some(Magic::INITDATA)))
    }

    fn magic(&self, name: &str) -> io::Result<Option<Magic>> {
        let _asks = asks(name);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let node = openat(&self.directory, name, flags, Mode::empty())?;
        probe(&File::from(node))
    }
}
