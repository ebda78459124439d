//! From the plan to the node: one pass that changes what is not as it should be, and nothing else.

use std::fmt::Display;
use std::fs::File;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use foreign_text::bounded::{ReadError, read_path};
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use tracing::info;
use zeroize::Zeroizing;

use crate::kata::{self, Seen};
use crate::limits::MAX_WRAPPER_BYTES;
use crate::manifest::Manifest;
use crate::node::{Directory, DirectoryEntry, Node, digest};
use crate::plan::{self, PlannedFile};
use crate::{Error, HostPath, Options, document};

/// How often the lock is tried, and how long between: a pass takes milliseconds, and a stuck one
/// should be heard of.
const LOCK_ATTEMPTS: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// What a pass did, and what it could not do.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// How many files were written or removed.
    pub changes: usize,
    /// What is not as it should be. Everything else is.
    pub problems: Vec<Error>,
    /// What is as it should be, but perhaps not meant.
    pub warnings: Vec<String>,
    /// What is worth knowing.
    pub notes: Vec<String>,
}

impl Outcome {
    /// The exit code of a program that ends with this outcome: 0, or that of the first problem.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.problems.first().map_or(0, Error::exit_code)
    }

    /// [Tells](Outcome::tell) everything, and where there is no problem, that.
    pub fn report(&self) {
        self.tell();
        if self.problems.is_empty() {
            info!("everything is as it should be");
        }
    }

    /// Logs problems, warnings and notes.
    pub fn tell(&self) {
        for line in self.problems.iter().flat_map(Error::lines) {
            tracing::error!("{line}");
        }
        for line in &self.warnings {
            tracing::warn!("{line}");
        }
        for line in &self.notes {
            info!("{line}");
        }
    }

    /// Adds what was seen of Kata's configuration, except for what is not there.
    fn add(&mut self, seen: Seen) {
        for finding in seen.findings {
            match finding.is_fault {
                true => self.problems.push(Error::KataConfig(finding)),
                false => self.warnings.push(finding.to_string()),
            }
        }
        self.problems.extend(seen.failed);
    }
}

/// Looks at Kata's configuration of the handlers, and changes nothing. A node or a handler that is
/// not seen from here is a note, because `options` may be meant for another machine.
pub fn check(options: &Options) -> Outcome {
    let mut outcome = Outcome::default();
    let unseen =
        |path: &dyn Display| format!("{path} is not there: Kata's configuration is not looked at");
    match kata::look(options) {
        Ok(seen) => {
            outcome.notes = seen.unseen.iter().map(|path| unseen(path)).collect();
            outcome.add(seen);
        }
        Err(_) => outcome.notes.push(unseen(&options.host.display())),
    }
    outcome
}

/// Brings the node into the state that `options` and the secrets ask for. A second time it changes
/// nothing.
///
/// Problems of one set or file are in the [`Outcome`] and do not keep the others from being
/// installed.
///
/// # Errors
///
/// Those that concern everything: [`Error::Host`], [`Error::Wrapper`], [`Error::WrapperLength`],
/// [`Error::Locked`], [`Error::Manifest`], [`Error::Node`], [`Error::DirectoryDeleted`].
pub fn install(options: &Options) -> Result<Outcome, Error> {
    if options.sets.is_empty() {
        return uninstall(options);
    }
    // Before anything is touched: without the wrapper nothing is worth installing.
    let wrapper = read_wrapper(options)?;
    let node = Node::open(&options.host)?;
    let mut made = Vec::new();
    let prefix = node.make_directory(&options.prefix, 0o755, &mut made)?;
    let _lock = lock(&prefix, &options.prefix)?;
    let mut manifest = Manifest::load(&options.prefix, &prefix)?;
    manifest.add_directories(made);
    let mut pass = Pass::new(options, node, manifest);
    pass.remove_unfinished();
    let mut wanted_paths = Vec::new();
    for (name, set) in &options.sets {
        let path = plan::document_path(options, name);
        let made = document::make(name, set, pass.manifest.files().contains(&path));
        pass.outcome.problems.extend(made.problems);
        pass.outcome.warnings.extend(made.warnings);
        pass.outcome.notes.extend(made.notes);
        let guest_pulls = kata::forces_guest_pull(&pass.node, set);
        let Outcome {
            problems, warnings, ..
        } = &mut pass.outcome;
        let disks = document::disks(name, set, problems, warnings);
        let files = plan::files(
            options,
            name,
            set,
            &wrapper,
            made.document,
            disks,
            guest_pulls,
        );
        wanted_paths.extend(files.iter().map(|file| file.path.clone()));
        for file in &files {
            if let Err(error) = pass.put(file) {
                pass.outcome.problems.push(error);
                // Kata must not be pointed to a wrapper that is not complete; but one handler does
                // not concern the next.
                if !file.in_handler {
                    break;
                }
            }
        }
    }
    // Handlers that are not there were told of above.
    pass.outcome.add(kata::look(options)?);
    if pass.remove_all_but(&wanted_paths)? {
        pass.manifest.remove_directories(&pass.node)?;
        pass.manifest.store(&pass.node)?;
    }
    Ok(pass.outcome)
}

/// Removes everything that was installed below the prefix of `options` and for it, and nothing
/// else.
///
/// A file that somebody else changed since is left, and is a problem of the [`Outcome`].
///
/// # Errors
///
/// Those of [`install`], except for the wrapper.
pub fn uninstall(options: &Options) -> Result<Outcome, Error> {
    let node = Node::open(&options.host)?;
    let Some(prefix) = node.directory(&options.prefix)? else {
        return Ok(Outcome::default());
    };
    let _lock = lock(&prefix, &options.prefix)?;
    let manifest = Manifest::load(&options.prefix, &prefix)?;
    let mut pass = Pass::new(options, node, manifest);
    pass.remove_unfinished();
    pass.remove_all_but(&[])?;
    if pass.manifest.is_empty() {
        // Those below the prefix first.
        pass.manifest.remove_directories(&pass.node)?;
        pass.manifest.end(&pass.node)?;
    } else {
        pass.manifest.store(&pass.node)?;
    }
    Ok(pass.outcome)
}

struct Pass {
    node: Node,
    prefix: HostPath,
    /// Whether this runs on the node itself, where nothing has to be mounted.
    whole_node: bool,
    manifest: Manifest,
    outcome: Outcome,
}

impl Pass {
    fn new(options: &Options, node: Node, manifest: Manifest) -> Self {
        Self {
            node,
            prefix: options.prefix.clone(),
            whole_node: options.host == Path::new("/"),
            manifest,
            outcome: Outcome::default(),
        }
    }

    /// Removes what a killed process left of listed files, before anything decides that nothing is
    /// to do: half a document is a secret.
    fn remove_unfinished(&mut self) {
        for path in self.manifest.files() {
            let (Some(above), name) = path.split() else {
                continue;
            };
            let directory = plan::handler_of(&path).unwrap_or(above);
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

    /// Writes `file` unless it is as it should be.
    fn put(&mut self, file: &PlannedFile) -> Result<(), Error> {
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
        info!(path = file.path.as_str(), "{done} the {}", file.what);
        Ok(())
    }

    /// The directory of `file`, made where it is not Kata's, and the one to prepare it in if that
    /// is another.
    fn directories(&mut self, file: &PlannedFile) -> Result<(Directory, Option<Directory>), Error> {
        let Some(path) = file.path.split().0 else {
            return Err(not_ours(file));
        };
        let staging = if file.in_handler {
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

    /// Removes every listed file that is not in `wanted`; says whether there was one.
    fn remove_all_but(&mut self, wanted: &[HostPath]) -> Result<bool, Error> {
        let mut any = false;
        let mut stuck = false;
        let mut paths = self.manifest.files();
        // However late they came: Kata is pointed away, and the settings name none, before a
        // document goes.
        paths.sort_by_key(plan::is_document);
        for path in paths {
            // A drop-in that could not be removed still points to a wrapper, which must stay then;
            // a secret goes all the same.
            if wanted.contains(&path) || (stuck && !plan::is_document(&path)) {
                continue;
            }
            any = true;
            match self.remove(&path) {
                Ok(removed) => {
                    self.manifest.forget(&path);
                    if removed {
                        self.outcome.changes += 1;
                        info!(path = path.as_str(), "removed");
                    }
                }
                Err(error @ Error::LeftBehind { .. }) => {
                    self.manifest.forget(&path);
                    self.outcome.problems.push(error);
                }
                Err(error) => {
                    stuck = true;
                    self.outcome.problems.push(error);
                }
            }
            self.manifest.store(&self.node)?;
        }
        Ok(any)
    }

    /// Removes `path` if it is as it was written; says whether it was there.
    fn remove(&self, path: &HostPath) -> Result<bool, Error> {
        let (Some(above), name) = path.split() else {
            return Ok(false);
        };
        let Some(directory) = self.node.directory(&above)? else {
            return if self.is_mounted(path, &above)? {
                Ok(false)
            } else {
                Err(Error::NotMounted { path: path.clone() })
            };
        };
        let left = || Error::LeftBehind { path: path.clone() };
        match directory.find(name)? {
            DirectoryEntry::Absent => return Ok(false),
            DirectoryEntry::Foreign => return Err(left()),
            DirectoryEntry::File(seen) if !self.manifest.wrote(path, &seen.digest) => {
                return Err(left());
            }
            DirectoryEntry::File(_) => {}
        }
        directory.remove(name)?;
        Ok(true)
    }

    /// Whether the `directory` of `path`, which is not there, would be seen if it were: then it is
    /// gone from the node too.
    ///
    /// A mount that was taken away leaves the directories that other mounts need, such as `/etc`.
    /// So only what is mounted itself shows anything: the prefix, and the handler of a drop-in. The
    /// settings' directory is mounted too, and is the missing one.
    fn is_mounted(&self, path: &HostPath, directory: &HostPath) -> Result<bool, Error> {
        if self.whole_node || directory.chain().contains(&self.prefix) {
            return Ok(true);
        }
        match plan::handler_of(path) {
            Some(handler) => Ok(self.node.directory(&handler)?.is_some()),
            None => Ok(false),
        }
    }
}

fn not_ours(file: &PlannedFile) -> Error {
    Error::NotOurs {
        what: file.what,
        path: file.path.clone(),
    }
}

fn read_wrapper(options: &Options) -> Result<Zeroizing<Vec<u8>>, Error> {
    let path = || options.wrapper.clone();
    match read_path(&options.wrapper, MAX_WRAPPER_BYTES) {
        Ok(content) if !content.is_empty() => Ok(content),
        Ok(_) | Err(ReadError::TooLong { .. }) => Err(Error::WrapperLength { path: path() }),
        Err(error) => Err(Error::Wrapper {
            path: path(),
            source: error.into(),
        }),
    }
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
