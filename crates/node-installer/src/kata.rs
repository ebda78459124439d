//! Kata's own configuration of a handler: what in it keeps sandboxes from starting or from the
//! wrapper, which QEMU they would start, and whether guests pull.
//!
//! Kata reads the main file and then *every* entry of `config.d` beside it, sorted by name, and the
//! last value of a key wins. `handler` reads them the same way, `said` takes one file apart,
//! `start` says which QEMU comes of it, `keys` has the names of those that Kata knows. All of it is
//! as of Kata 4.1.0, whose two runtimes differ in what they forgive.

mod handler;
mod keys;
mod said;
pub mod standing;
mod start;

use std::collections::BTreeMap;
use std::fmt;

use crate::kind::DROP_IN;
use crate::node::Node;
use crate::{Error, HostPath, Options, Set, manifest, plan};
use handler::Handler;
pub(crate) use said::Said;
pub use said::{Value, is_wrapper_setting};
use start::Start;

/// Something in Kata's configuration that the administrator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What kind of finding it is, which stays the same when its words change.
    pub id: &'static str,
    /// The file or directory on the node, safe to show.
    pub path: String,
    /// The line, from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// Whether every sandbox of the handler fails or starts without the wrapper because of it.
    pub is_fault: bool,
    /// What it is, what that does, and the remedy.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// What was seen of Kata's configuration.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Seen {
    /// By handler, and in each in the order in which Kata reads.
    pub findings: Vec<Finding>,
    /// Directories that are not there, or not seen from here.
    pub unseen: Vec<HostPath>,
    /// Why a directory cannot be looked at: [`Error::Node`], [`Error::DirectoryDeleted`].
    pub failed: Vec<Error>,
}

/// Looks at the configuration of every handler in `options`; changes nothing.
///
/// # Errors
///
/// [`Error::Host`].
pub fn look(options: &Options) -> Result<Seen, Error> {
    let node = Node::open(&options.host)?;
    let listed = manifest::listed(options, &node);
    let mut seen = Seen::default();
    for (name, set) in &options.sets {
        let is_ours = |path: &HostPath| listed.contains(path);
        let survey = Survey::of(&node, options, name, set, &is_ours);
        seen.findings.extend(survey.seen.findings);
        seen.unseen.extend(survey.seen.unseen);
        seen.failed.extend(survey.seen.failed);
    }
    Ok(seen)
}

/// What becomes of a handler's drop-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropInFate {
    /// It is written.
    Written,
    /// Whatever is there stays: sandboxes would fail with one, and fail with the one that is there.
    Left,
    /// The handler starts no QEMU, so that it may have none.
    Removed,
}

/// What Kata's configuration means for a set.
pub(crate) struct Survey {
    pub(crate) seen: Seen,
    /// The QEMU that every handler would start by itself, and where that stands; `None` where it
    /// is not known or not needed.
    pub(crate) qemu: Option<(HostPath, String)>,
    /// By handler; those that are not seen are not in it.
    pub(crate) fates: BTreeMap<HostPath, DropInFate>,
    /// Whether Kata has every image of the set pulled in the guest. `false` also where that cannot
    /// be seen: containerd's snapshotters, which do the same, are not looked at.
    pub(crate) guest_pulls: bool,
}

impl Survey {
    /// Looks at the handlers of a set. `is_ours` says which files the installer wrote.
    pub(crate) fn of(
        node: &Node,
        options: &Options,
        name: &str,
        set: &Set,
        is_ours: &dyn Fn(&HostPath) -> bool,
    ) -> Self {
        let mut survey = Self {
            seen: Seen::default(),
            qemu: None,
            fates: BTreeMap::new(),
            guest_pulls: !set.handlers.is_empty(),
        };
        let wrapper = plan::wrapper_path(options, name);
        for path in &set.handlers {
            match Handler::read(node, path, is_ours, &wrapper) {
                Ok(Some(handler)) => {
                    survey.guest_pulls &= handler.forces_guest_pull();
                    let fate = survey.start(&handler, set.needs_qemu_of_kata());
                    survey.fates.insert(path.clone(), fate);
                    survey.seen.findings.extend(handler.findings(DROP_IN, &wrapper));
                    continue;
                }
                Ok(None) => survey.seen.unseen.push(path.clone()),
                Err(error) => survey.seen.failed.push(error),
            }
            survey.guest_pulls = false;
        }
        survey
    }

    /// Notes which QEMU the handler starts, where that is `needed`.
    fn start(&mut self, handler: &Handler, needed: bool) -> DropInFate {
        let (start, findings) = handler.start();
        self.seen.findings.extend(findings);
        match start {
            Start::Other => DropInFate::Removed,
            Start::Taken => DropInFate::Left,
            _ if !needed => DropInFate::Written,
            Start::Unknown => DropInFate::Left,
            Start::Unnamed(finding) => {
                self.seen.findings.push(finding);
                DropInFate::Left
            }
            Start::Qemu(path, place) => match &self.qemu {
                None => {
                    self.qemu = Some((path, place));
                    DropInFate::Written
                }
                Some((first, _)) if *first == path => DropInFate::Written,
                Some((first, at)) => {
                    let message = format!(
                        "hypervisor.qemu.path is {path}, but {first} at {at}, and one set has one \
                        QEMU; give each handler a set of its own, or name one as qemu in the \
                        settings of the set"
                    );
                    let finding = handler::finding("qemu-several", place, 0, true, message);
                    self.seen.findings.push(finding);
                    DropInFate::Left
                }
            },
        }
    }
}
