//! What a stock agent finds of initdata, and where. It is all in this file.
//!
//! An agent with Kata's own initdata processing looks through `/dev` for the magic, partitions too,
//! verifies nothing, and puts the policy that it finds in the place of the one that stands there.
//! And it hands initdata to the attestation agent only if it found it on a disk.
//!
//! | | `accepted-disk` | it finds |
//! |---|---|---|
//! | refused, none | any | no disk; an empty directory |
//! | accepted | `remove` | no disk; the accepted document and two of its entries in the directory |
//! | accepted | `copy` | a read-only loop device over the accepted document in the guest's memory |
//! | accepted | `keep` | the disk, which the host can still change |
//!
//! The directory is `/run/confidential-containers/initdata`, where such an agent leaves the
//! document for its companions. It is ours from the start, and the units make it read-only before
//! the agent starts: that ends an agent that finds a disk nevertheless, plugged in late, because it
//! has to write there before it takes its policy from the disk. With `copy` and `keep` it is left
//! to the agent where initdata was accepted.
//!
//! A disk is taken away by its device node, which goes to `/dev/.initdata`. What has no node in
//! `/dev` itself is not found: devtmpfs makes one when a device appears, and not again for a device
//! that stays. The disks themselves are not detached: a node is all that such an agent has, and a
//! detached disk is back after a scan of its bus. Another run begins by putting all nodes back, and
//! judges each anew.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Seek as _, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, symlink};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use config_image::{HEADER_BYTES, MAX_GZIP_BYTES, Magic, SECTOR_BYTES, encode, probe};
use initdata::Document;
use linux_sys::{loop_device, memfd};
use process_sandbox::files::Grant;
use rustix::fs::{
    Advice, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fadvise, mkdirat, openat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;

use crate::error::{Error, refused, unwritten};
use crate::journal::Journal;
use crate::names;
use crate::paths::Paths;
use crate::settings::AcceptedDisk;
use crate::swap::Swap;
use crate::watch::asks;

/// The directory's name below `/run/confidential-containers`.
const DIRECTORY: &str = "initdata";

/// The document itself, byte for byte, for those who want to verify it again.
const WHOLE: &str = "initdata.toml";

/// The entries that are beside it: the attestation agent's and the data hub's configurations.
const ENTRIES: [&str; 2] = ["aa.toml", "cdh.toml"];

/// Where the nodes go, a directory in `/dev`.
pub const TAKEN: &str = ".initdata";

/// How many nodes the log names: the host decides how many there are.
const MAX_NAMED: usize = 4;

/// A link to the copy's device; the agent looks at names that begin with `vd` or `sd`. No disk has
/// this one.
const LINK: &str = "vdinitdata";

/// Room for any image; what is not written takes no memory.
const COPY_BYTES: usize = (HEADER_BYTES + MAX_GZIP_BYTES).next_multiple_of(SECTOR_BYTES);

/// How long the copy's device gets to show what was written: until whoever reads it just now has
/// done so.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long after one look at it the next one comes.
const PAUSE: Duration = Duration::from_millis(20);

/// What an agent may find, held open.
#[derive(Debug)]
pub struct Agent {
    accepted_disk: AcceptedDisk,
    /// The directory, and where it is.
    directory: Swap,
    parent: File,
    /// `None` where there is no `/dev`, and so nothing to read for anybody.
    nodes: Option<Nodes>,
}

/// What is known of a disk before its node is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It stays.
    Stays,
    /// It goes.
    Goes,
    /// Whoever judges has to read it.
    Unread,
}

impl Agent {
    /// Empties the directory.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn close(paths: &Paths, accepted_disk: AcceptedDisk) -> Result<Self, Error> {
        let path = &paths.kata_agent;
        let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
        let parent = made.and_then(|()| File::open(path)).map_err(|e| unwritten(path, e))?;
        let directory = Swap::prepare(path, DIRECTORY, &[])?;
        Ok(Self { accepted_disk, directory, parent, nodes: None })
    }

    /// Puts all nodes back that an earlier run took, so that this one finds what the first one
    /// found: for who has the lock.
    pub fn put_back(&mut self, dev: &Path) {
        self.nodes = Nodes::open(dev);
    }

    /// Makes the device for the copy, still blank, where one is to be left: before the sandbox,
    /// which has no room for that.
    ///
    /// # Errors
    ///
    /// Most likely the kernel has no loop devices.
    pub fn copy(&self, paths: &Paths) -> Result<Option<Copy>, Error> {
        match self.accepted_disk {
            AcceptedDisk::Copy => Copy::prepare(paths).map(Some),
            AcceptedDisk::Remove | AcceptedDisk::Keep => Ok(None),
        }
    }

    /// What leaving and taking away takes.
    pub fn grants(&self) -> Vec<(BorrowedFd<'_>, Grant)> {
        let home = self.directory.home();
        let mut grants = vec![(home, Grant::Directories), (home, Grant::Files)];
        if self.accepted_disk != AcceptedDisk::Remove {
            let parent = self.parent.as_fd();
            grants.extend([(parent, Grant::Directories), (parent, Grant::Remove)]);
        }
        if let Some(nodes) = &self.nodes {
            grants.push((nodes.directory.as_fd(), Grant::Remove));
            grants.extend(nodes.taken.iter().map(|taken| (taken.as_fd(), Grant::Taken)));
        }
        grants
    }

    /// The directory of the device nodes, if there is one.
    pub fn dev(&self) -> Option<BorrowedFd<'_>> {
        self.nodes.as_ref().map(|nodes| nodes.directory.as_fd())
    }

    /// Leaves an accepted document, whose text is `whole`.
    ///
    /// # Errors
    ///
    /// The system's; then the caller must refuse.
    pub fn leave(
        &self,
        document: &Document,
        whole: &[u8],
        copy: Option<&Copy>,
    ) -> Result<(), Error> {
        if self.accepted_disk == AcceptedDisk::Remove {
            let entries = document.data.iter().map(|(name, text)| (name.as_str(), text.as_bytes()));
            let mut files: Vec<_> = entries.filter(|(name, _)| ENTRIES.contains(name)).collect();
            files.push((WHOLE, whole));
            self.directory.place(&files)?;
        }
        copy.map_or(Ok(()), |copy| copy.fill(whole))
    }

    /// Leaves the directory to an agent that finds accepted initdata on a disk, so that it can
    /// write there. Nothing can be refused any more after that.
    ///
    /// # Errors
    ///
    /// The system's; then the caller must refuse.
    pub fn open(&self) -> Result<(), Error> {
        match self.accepted_disk {
            AcceptedDisk::Remove => Ok(()),
            AcceptedDisk::Copy | AcceptedDisk::Keep => {
                self.directory.remove(&self.parent, DIRECTORY)
            }
        }
    }

    /// Whether the disk whose initdata was accepted stays.
    #[must_use]
    pub fn keeps_accepted(&self) -> bool {
        self.accepted_disk == AcceptedDisk::Keep
    }

    /// Empties the directory again, and takes the copy's link away: where its device is taken away
    /// too, the link leads nowhere, and an agent ends at what it cannot open.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn refuse(&self) -> Result<(), Error> {
        self.directory.place(&[])?;
        let Some(nodes) = &self.nodes else {
            return Ok(());
        };
        match unlinkat(&nodes.directory, LINK, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(unwritten(&nodes.path.join(LINK), errno)),
        }
    }

    /// Takes away every node whose first bytes are initdata's magic, be it a disk's, a partition's
    /// or another device's, unless it is `known`.
    ///
    /// # Errors
    ///
    /// The system's: then the agent must not start.
    pub fn withdraw(
        &self,
        known: impl Fn(&str) -> Known,
        journal: &mut Journal<'_>,
    ) -> Result<(), Error> {
        let Some(nodes) = &self.nodes else {
            return Ok(());
        };
        let taken = nodes.withdraw(|name| match known(name) {
            Known::Unread => nodes.is_initdata(name),
            known => known == Known::Goes,
        })?;
        tell(&taken, "with initdata", journal);
        Ok(())
    }

    /// Takes away the node of every disk, unread: for where a disk does not answer, so that nobody
    /// knows what is on it, and an agent that reads it would not come back either.
    ///
    /// # Errors
    ///
    /// As [`Agent::withdraw`].
    pub fn withdraw_all(&self, journal: &mut Journal<'_>) -> Result<(), Error> {
        if let Some(nodes) = &self.nodes {
            tell(&nodes.withdraw(|_| true)?, "of disks", journal);
        }
        Ok(())
    }
}

fn tell(taken: &[String], what: &str, journal: &mut Journal<'_>) {
    if !taken.is_empty() {
        journal.info(format_args!(
            "device nodes {what} taken away from the agent: {} ({})",
            taken.len(),
            taken[..taken.len().min(MAX_NAMED)].join(", ")
        ));
    }
}

/// The directory of the device nodes, held open.
#[derive(Debug)]
struct Nodes {
    path: PathBuf,
    directory: File,
    /// `None` where it cannot be made: then nodes are removed.
    taken: Option<File>,
}

impl Nodes {
    /// Opens the directory, with all nodes in it.
    fn open(path: &Path) -> Option<Self> {
        let directory = File::open(path).ok()?;
        let _ = mkdirat(&directory, TAKEN, Mode::RWXU);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let taken = openat(&directory, TAKEN, flags, Mode::empty()).ok().map(File::from);
        // What cannot be listed or moved is missing in `/dev`: the search will say so.
        for name in taken.iter().flat_map(|taken| nodes(taken, |_| true).unwrap_or_default()) {
            let from = taken.as_ref()?;
            let moved = renameat_with(from, &name, &directory, &name, RenameFlags::NOREPLACE);
            // A device that came again has a node already.
            if moved == Err(Errno::EXIST) {
                let _ = unlinkat(from, &name, AtFlags::empty());
            }
        }
        Some(Self { path: path.to_owned(), directory, taken })
    }

    /// Takes away what `is_meant`; the names.
    fn withdraw(&self, is_meant: impl Fn(&str) -> bool) -> Result<Vec<String>, Error> {
        let meant = nodes(&self.directory, is_meant).map_err(|source| {
            refused(format!("list the disks in {}", self.path.display())).because(source)
        })?;
        for name in &meant {
            self.take(name).map_err(|errno| unwritten(&self.path.join(name), errno))?;
        }
        Ok(meant)
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
        let _asks = asks(name);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let node = openat(&self.directory, name, flags, Mode::empty());
        let magic = node.map_err(io::Error::from).and_then(|node| probe(&File::from(node)));
        matches!(magic, Ok(Some(Magic::INITDATA)))
    }
}

/// The names of disks' nodes in a directory, those that are `meant`. All of them before one is
/// moved: a directory that shrinks while it is listed may hide a part.
fn nodes(directory: &File, is_meant: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut meant = Vec::new();
    names::each(directory, |name, kind| {
        // Before it is opened: opening a character device can do something.
        if matches!(kind, FileType::BlockDevice | FileType::RegularFile)
            // Names of disks are ASCII.
            && let Ok(name) = name.to_str()
            && is_meant(name)
        {
            meant.push(name.to_owned());
        }
        Ok(())
    })?;
    Ok(meant)
}

/// A read-only loop device over memory; blank until initdata is accepted.
#[derive(Debug)]
pub struct Copy {
    memory: File,
    device: PathBuf,
    link: PathBuf,
}

impl Copy {
    /// Makes the device, in the place of an earlier run's.
    ///
    /// # Errors
    ///
    /// Most likely the kernel has no loop devices.
    pub fn prepare(paths: &Paths) -> Result<Self, Error> {
        Self::make(paths.dev.join(LINK)).map_err(no_copy)
    }

    fn make(link: PathBuf) -> io::Result<Self> {
        if let Ok(device) = fs::read_link(&link) {
            fs::remove_file(&link)?;
            // Where it is unbound already there is nothing left to do.
            let _ = loop_device::unbind(&device);
        }
        let (memory, reader) = memfd::blank(c"initdata", COPY_BYTES as u64)?;
        let device = loop_device::bind_read_only(&reader)?;
        symlink(&device, &link)?;
        Ok(Self { memory, device, link })
    }

    /// Lets the agent find `document`, and looks whether it will.
    ///
    /// # Errors
    ///
    /// It will not; then no agent finds anything, neither now nor later.
    pub fn fill(&self, document: &[u8]) -> Result<(), Error> {
        let image =
            encode(Magic::INITDATA, document).map_err(|error| no_copy(io::Error::other(error)))?;
        let filled = self.write(&image).and_then(|()| self.shows(&image));
        filled.map_err(|error| {
            // What is not accepted must not be found, and a page cache that is stale now may not be
            // so later.
            let _ = self.write(&vec![0; image.len()]);
            let _ = unlinkat(CWD, &self.link, AtFlags::empty());
            no_copy(error)
        })
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut memory = &self.memory;
        memory.rewind()?;
        memory.write_all(bytes)
    }

    /// Waits until the device shows `image`.
    ///
    /// Whoever opens a new block device reads it, udev for one, and what was read while it was
    /// blank stays in the page cache for as long as anybody has it open.
    fn shows(&self, image: &[u8]) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        let device = File::open(&self.device)?;
        let mut found = vec![0; image.len()];
        loop {
            fadvise(&device, 0, None, Advice::DontNeed)?;
            device.read_exact_at(&mut found, 0)?;
            if found == image {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(io::Error::other("the loop device does not show it"));
            }
            sleep(PAUSE);
        }
    }
}

fn no_copy(source: io::Error) -> Error {
    refused(
        "give the agent a copy of initdata (accepted-disk = \"copy\" needs loop devices, \
         BLK_DEV_LOOP, in the kernel)",
    )
    .because(source)
}
