//! Kata's own configuration of a handler: what in it keeps sandboxes from starting or from the
//! wrapper, and whether guests pull.
//!
//! Kata reads the main file and then *every* entry of `config.d` beside it, sorted by name, and the
//! last value of a key wins. `handler` reads them the same way, `said` takes one file apart. All of
//! it is as of Kata 4.1.0, whose two runtimes differ in what they forgive.

mod handler;
mod said;

use std::fmt;

use crate::node::Node;
use crate::{Error, HostPath, Options, Set, plan};
use handler::Handler;
pub use said::is_wrapper_setting;

/// Something in Kata's configuration that the administrator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
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
    let mut seen = Seen::default();
    for (name, set) in &options.sets {
        let wrapper = plan::wrapper_path(options, name);
        for path in &set.handlers {
            match Handler::read(&node, path) {
                Ok(Some(handler)) => seen.findings.extend(handler.findings(&wrapper)),
                Ok(None) => seen.unseen.push(path.clone()),
                Err(error) => seen.failed.push(error),
            }
        }
    }
    Ok(seen)
}

/// Whether Kata has every image of the set pulled in the guest. `false` also where that cannot be
/// seen: containerd's snapshotters, which do the same, are not looked at.
pub(crate) fn forces_guest_pull(node: &Node, set: &Set) -> bool {
    let forces = |path| {
        let handler = Handler::read(node, path).ok().flatten();
        handler.is_some_and(|handler| handler.forces_guest_pull())
    };
    !set.handlers.is_empty() && set.handlers.iter().all(forces)
}
