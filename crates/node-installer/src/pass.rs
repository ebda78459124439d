//! From the plan to the node: one pass that changes what is not as it should be, and nothing else.
//!
//! `opening`: the prefix, its owner and its list. `documents`: those besides a set's own. `order`:
//! the wrapper and its settings. `putting`: what should be there. `removal`: what should not.

mod documents;
mod opening;
mod order;
mod putting;
mod removal;

use std::fs::File;
use std::path::Path;

use foreign_text::bounded::{ReadError, read_path};
use registry_config::MAX_DOCUMENT_BYTES;
use tracing::info;
use zeroize::Zeroizing;

use crate::fitness::{Fitness, turned_off_at};
use crate::kata::DropInFate;
use crate::kind::{Kind, handler_of};
use crate::limits::MAX_WRAPPER_BYTES;
use crate::manifest::Manifest;
use crate::node::Node;
use crate::plan::{self, Places, Programs, SecretFile};
use crate::{Error, HostPath, Options, Set, Source, arrival, document};

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
    /// Whether something that sandboxes need is not seen from here.
    pub is_partial: bool,
    /// Whether a secret is missing, something of one is left out, or a listed file stays; a warning
    /// says which.
    pub is_incomplete: bool,
    /// What a pass would change that does not write: verb and path.
    pub planned: Vec<String>,
}

impl Outcome {
    /// The exit code of a program that ends with this outcome: 0, or that of the first problem.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.problems.first().map_or(0, Error::exit_code)
    }

    /// [Tells](Outcome::tell) everything, and then what is planned; where nothing is, and there is
    /// no problem, that.
    pub fn report(&self) {
        self.tell();
        if !self.planned.is_empty() {
            info!("would {}", self.planned.join(", "));
        } else if self.problems.is_empty() {
            let what = match (self.is_incomplete, self.is_partial) {
                (true, _) => "everything but what the warnings name",
                (false, true) => "everything that is seen from here",
                (false, false) => "everything",
            };
            info!("{what} is as it should be");
        }
    }

    /// Logs notes, warnings and problems: the last line is one of a problem if there is any.
    pub fn tell(&self) {
        for line in &self.notes {
            info!("{line}");
        }
        for line in &self.warnings {
            tracing::warn!("{line}");
        }
        for line in self.problems.iter().flat_map(Error::lines) {
            tracing::error!("{line}");
        }
    }
}

/// What is to tell of a set that is turned off on the node, and not in the configuration.
fn thrown_by_hand(node: &Node, options: &Options, name: &str, set: &Set) -> Option<String> {
    let place = turned_off_at(node, options, set).filter(|_| set.enabled)?;
    Some(format!(
        "the set {name} is turned off on this node ({place}): its sandboxes get no configuration"
    ))
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
/// [`Error::Locked`], [`Error::Owned`], [`Error::Manifest`], [`Error::Node`],
/// [`Error::DirectoryDeleted`].
pub fn install(options: &Options) -> Result<Outcome, Error> {
    install_on(options, Node::open)
}

/// Makes the same pass without writing: the outcome says what [`install`] would change, and what it
/// could not.
///
/// # Errors
///
/// Those of [`install`].
pub fn check(options: &Options) -> Result<Outcome, Error> {
    install_on(options, |path| Node::open(path).map(Node::read_only))
}

type OpenNode = fn(&Path) -> Result<Node, Error>;

fn install_on(options: &Options, open: OpenNode) -> Result<Outcome, Error> {
    if options.sets.is_empty() {
        return uninstall_from(options, open);
    }
    // Before anything is touched: without the wrapper nothing is worth installing.
    let programs = Programs {
        wrapper: read_program(&options.wrapper)?,
        program: options.program.as_deref().map(read_program).transpose()?,
    };
    let mut pass = Pass::open(options, open(&options.host)?)?;
    pass.remove_unfinished();
    let mut wanted = Vec::new();
    for (name, set) in &options.sets {
        wanted.extend(pass.install_set(options, name, set, &programs));
    }
    pass.remove_all_but(&wanted);
    let directories = plan::document_directories(options);
    pass.manifest.remove_directories(&pass.node, &directories)?;
    pass.manifest.store(&pass.node)?;
    Ok(pass.outcome)
}

/// Removes everything that was installed below the prefix of `options` and for it, and nothing
/// else.
///
/// A file that somebody else changed since is left, and is a problem of the [`Outcome`] each time,
/// until it is gone. Of what a newer version installed, only files go whose digest is on the list,
/// and the list stays as it is until all of them are gone. Where everything below the prefix is
/// another owner's, nothing is to do.
///
/// # Errors
///
/// Those of [`install`], except for the wrapper.
pub fn uninstall(options: &Options) -> Result<Outcome, Error> {
    uninstall_from(options, Node::open)
}

fn uninstall_from(options: &Options, open: OpenNode) -> Result<Outcome, Error> {
    let mut pass = match Pass::open_if_there(options, open(&options.host)?) {
        Ok(Some(pass)) => pass,
        Ok(None) => return Ok(Outcome::default()),
        Err(error @ Error::Owned { .. }) if options.owner.is_some() => {
            let warnings = vec![format!("nothing is removed: failed to {error}")];
            return Ok(Outcome { warnings, ..Outcome::default() });
        }
        Err(error) => return Err(error),
    };
    pass.remove_unfinished();
    pass.remove_all_but(&[]);
    // Those below the prefix first.
    pass.manifest.remove_directories(&pass.node, &[])?;
    if pass.manifest.is_empty() {
        pass.manifest.end(&pass.node)?;
    } else {
        pass.manifest.store(&pass.node)?;
    }
    Ok(pass.outcome)
}

struct Pass {
    node: Node,
    /// Directories of which everything is seen: the prefix and the documents'.
    prefixes: Vec<HostPath>,
    /// Where files made of secrets can be.
    places: Places,
    /// Whether this runs on the node itself, where nothing has to be mounted.
    whole_node: bool,
    /// Whether everything goes, and nothing comes after.
    is_removal: bool,
    manifest: Manifest,
    outcome: Outcome,
    /// Held until the end.
    _lock: Option<File>,
}

impl Pass {
    /// Writes the files of a set. The answer is their paths, and those of what has to stay as long
    /// as some of them are not as they should be.
    fn install_set(
        &mut self,
        options: &Options,
        name: &str,
        set: &Set,
        programs: &Programs,
    ) -> Vec<HostPath> {
        let is_ours = |path: &HostPath| self.manifest.has(path);
        let fitness = Fitness::of(&self.node, options, name, set, &is_ours);
        self.outcome.problems.extend(fitness.problems);
        self.outcome.warnings.extend(fitness.warnings);
        self.outcome.is_partial |= fitness.is_partial;
        let mut paths = self.install_documents(options, name, set);
        let document = set.has_own_document().then(|| self.own_document(options, name, set));
        let view = fitness.view;
        let mut files = plan::files(options, name, set, programs, document, &view);
        self.order(options, name, set, fitness.is_refused, &mut files);
        let (mut has_settings, mut is_unserved) = (false, false);
        for file in &files {
            if let Err(error) = self.put(file) {
                self.outcome.problems.push(error);
                // Kata must not be pointed to a wrapper that is not complete; but one handler does
                // not concern the next.
                if file.kind != Kind::DropIn {
                    break;
                }
                is_unserved = true;
            } else if file.kind == Kind::Settings {
                has_settings = file.content.is_some();
            }
        }
        // As the wrapper reads them from now on.
        let warning = thrown_by_hand(&self.node, options, name, set);
        self.outcome.warnings.extend(warning);
        is_unserved |=
            files.iter().any(|file| file.kind == Kind::DropIn && !self.is_there(&file.path));
        paths.extend(files.into_iter().map(|file| file.path));
        // What keeps the wrapper from one handler, a typo, say, must not take it away where it
        // works; but with it a handler fails that starts another hypervisor.
        if !fitness.has_handlers || is_unserved {
            let mut drop_ins = self.listed_of(name, |kind| kind == Kind::DropIn);
            let fate = |path: &HostPath| view.fates.get(&handler_of(path)?);
            drop_ins
                .retain(|path| !fitness.has_handlers || fate(path) != Some(&DropInFate::Removed));
            paths.extend(drop_ins);
        }
        if !has_settings {
            // Not what the plan asks for, perhaps: the settings that stay may name it.
            paths.extend(self.listed_of(name, Kind::is_secret));
        }
        paths
    }

    /// Makes the set's own document.
    fn own_document(&mut self, options: &Options, name: &str, set: &Set) -> SecretFile {
        let place = plan::document_path(options, name);
        let is_kept = self.has_document(&place);
        self.make_document(name, &set.source(), is_kept)
    }

    fn make_document(&mut self, name: &str, source: &Source, is_kept: bool) -> SecretFile {
        let made = document::make(name, source, is_kept);
        self.outcome.is_incomplete |= !made.warnings.is_empty();
        self.outcome.problems.extend(made.problems);
        self.outcome.warnings.extend(made.warnings);
        self.outcome.notes.extend(made.notes);
        made.document
    }

    /// Counts a change, and says it: `did` where it is done, `does` where nothing is written.
    fn changed(&mut self, path: &HostPath, does: &str, did: &str) {
        self.outcome.changes += 1;
        match self.node.is_read_only() {
            true => self.outcome.planned.push(format!("{does} {path}")),
            false => info!(path = path.as_str(), "{did}"),
        }
    }

    /// Whether a file is on the node and can be seen.
    fn is_there(&self, path: &HostPath) -> bool {
        let (Some(above), name) = path.split() else {
            return false;
        };
        let directory = self.node.directory(&above);
        matches!(directory, Ok(Some(directory)) if directory.has(name).unwrap_or(false))
    }

    /// What is listed under `unit` of some kinds.
    fn listed_of(&self, unit: &str, is_meant: impl Fn(Kind) -> bool) -> Vec<HostPath> {
        let entries = self.manifest.files().into_iter();
        let of_unit =
            entries.filter(|entry| is_meant(entry.kind) && entry.set.as_deref() == Some(unit));
        of_unit.map(|entry| entry.path).collect()
    }

    /// Whether the listed document `path` is there, and is more than what takes the place of one. A
    /// node that cannot be looked at has none; writing to it then fails with the reason.
    fn has_document(&self, path: &HostPath) -> bool {
        let (Some(above), name) = path.split() else {
            return false;
        };
        let directory = self.node.directory(&above).ok().flatten();
        let text = directory.and_then(|directory| directory.read(name, MAX_DOCUMENT_BYTES).ok()?);
        self.manifest.has(path) && text.is_some_and(|text| !arrival::is_stand_in(&text))
    }
}

fn read_program(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    match read_path(path, MAX_WRAPPER_BYTES) {
        Ok(content) if !content.is_empty() => Ok(content),
        Ok(_) | Err(ReadError::TooLong { .. }) => Err(Error::WrapperLength { path: path.into() }),
        Err(error) => Err(Error::Wrapper { path: path.into(), source: error.into() }),
    }
}
