//! The disks of living sandboxes, brought to what the documents say now, and the leavings of those
//! that are gone.

mod contents;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use linux_sys::rooted::Root;
use node_installer::Options;
use registry_config::MAX_DOCUMENT_BYTES;
use rustix::fs::OFlags;
use zeroize::Zeroizing;

use self::contents::{Brought, Contents};
use super::remaining;
use super::rotation::Rotation;
use crate::host_file::{FileError, HostFile, require_administered};
use crate::providers;
use crate::refusal::last;
use crate::settings::DEFAULT_RUN_ROOT;
use crate::shared_image::record;
use crate::sweep::{DEFAULT_MIN_AGE, sweep_released};

/// How many sandboxes are named in the log that cannot be brought up to date, or swept.
const MAX_NAMED: usize = 16;

/// How the sandboxes are called that have a document which is no set's.
const OTHERS: &str = "";

/// The disk holds what the node has for it.
pub(super) const CURRENT: &str = "current";
/// It does not, and cannot be changed.
pub(super) const BEHIND: &str = "behind";
/// Nobody here knows what it should hold.
pub(super) const UNSEEN: &str = "unseen";
/// Plugins add to what it should hold, and nobody here is to ask them: it keeps what it has.
pub(super) const KEPT: &str = "kept";

/// What was found and done.
#[derive(Debug, Default, PartialEq)]
pub struct Looked {
    /// How many sandboxes live, by the set of their document and by what their disk holds.
    pub sandboxes: BTreeMap<(String, &'static str), u64>,
    /// How many disks were changed.
    pub updated: u64,
    /// How many could not be.
    pub failed: u64,
    /// How many sandboxes were gone and left something.
    pub swept: u64,
    /// What did not work, a line each.
    pub warnings: Vec<String>,
    /// Of a removal: what is left to do by hand, a line for each run root.
    pub remaining: Vec<String>,
}

/// Updates and sweeps the sandboxes below each run root of the sets.
///
/// What does not work with one sandbox does not keep the others: it is a warning. A disk that was
/// left half-written by a killed process is whole again afterwards.
///
/// Without sets nobody comes again: the answers of credential providers that were kept go too, with
/// the refusals, and it is said how what running sandboxes leave is removed.
pub fn keep(options: &Options, rotation: &mut Rotation) -> Looked {
    look(options, rotation, options.sets.is_empty())
}

/// [`keep`], after everything that the sets have on the node was removed.
#[must_use]
pub fn leave(options: &Options) -> Looked {
    look(options, &mut Rotation::default(), true)
}

fn look(options: &Options, rotation: &mut Rotation, is_removal: bool) -> Looked {
    let mut looked = Looked::default();
    let mut contents = Contents::new(options, rotation);
    let mut unnamed = 0;
    let mut warn = |looked: &mut Looked, line: String| match looked.warnings.len() {
        MAX_NAMED.. => unnamed += 1,
        _ => looked.warnings.push(line),
    };
    for run_root in run_roots(options) {
        let sandboxes = record::all(&run_root).unwrap_or_else(|error| {
            warn(&mut looked, format!("failed to {error}"));
            Vec::new()
        });
        let mut living = 0;
        for (sandbox, record) in sandboxes {
            let state = match contents.bring(&run_root, &sandbox, &record) {
                Ok(Brought::Gone) => continue,
                Ok(Brought::There { state, changed }) => {
                    looked.updated += u64::from(changed);
                    state
                }
                Err(line) => {
                    looked.failed += 1;
                    warn(&mut looked, line);
                    BEHIND
                }
            };
            let set = contents.set_of(&record).unwrap_or(OTHERS).to_owned();
            *looked.sandboxes.entry((set, state)).or_default() += 1;
            living += 1;
        }
        if is_removal && living > 0 {
            looked.remaining.push(remaining::line(options, &run_root, living));
        }
        match is_removal {
            true => {
                providers::forget_all(&run_root);
                last::forget(&run_root, Duration::ZERO);
            }
            false => {
                providers::forget_expired(&run_root);
                last::forget(&run_root, last::KEPT_FOR);
            }
        }
        match sweep_released(&run_root, DEFAULT_MIN_AGE) {
            Ok(swept) => {
                looked.swept += swept.removed.len() as u64;
                for (sandbox, error) in swept.failed {
                    warn(&mut looked, format!("sandbox {sandbox}: failed to {error}"));
                }
            }
            Err(error) => warn(&mut looked, format!("failed to {error}")),
        }
    }
    for line in contents.unknown() {
        warn(&mut looked, line);
    }
    if unnamed > 0 {
        let line = format!("{unnamed} more sandboxes like these");
        looked.warnings.push(line);
    }
    looked
}

/// Where the sets have their sandboxes, as seen from here; the default place without sets, where
/// those of former ones are.
pub(super) fn run_roots(options: &Options) -> BTreeSet<PathBuf> {
    match options.sets.is_empty() {
        true => [seen(options, Path::new(DEFAULT_RUN_ROOT))].into(),
        false => {
            let sets = options.sets.values();
            sets.map(|set| run_root(options, set)).collect()
        }
    }
}

/// Where a set has its sandboxes, as seen from here.
pub(super) fn run_root(options: &Options, set: &node_installer::Set) -> PathBuf {
    let said = set.settings.get("run-root");
    let path = said.and_then(toml::Value::as_str).unwrap_or(DEFAULT_RUN_ROOT);
    seen(options, Path::new(path))
}

/// Where a path of the node is, seen from here.
pub(super) fn seen(options: &Options, path: &Path) -> PathBuf {
    options.host.join(path.strip_prefix("/").unwrap_or(path))
}

/// Reads a document of the node, through no link.
pub(super) fn read(options: &Options, path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let read = open(options, path)?.read(MAX_DOCUMENT_BYTES);
    read.map_err(|fault| fault.at(path))
}

/// Whether there is a directory that the wrapper would look into: one that others can write says
/// nothing about which documents are missing.
fn is_directory(options: &Options, path: &Path) -> bool {
    let beneath = path.strip_prefix("/").unwrap_or(path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let opened = Root::open(&options.host).and_then(|root| root.open_file(beneath, flags));
    let metadata = opened.and_then(|directory| directory.metadata());
    metadata.is_ok_and(|metadata| require_administered(&metadata).is_ok())
}

fn open(options: &Options, path: &Path) -> Result<HostFile, FileError> {
    let beneath = path.strip_prefix("/").unwrap_or(path);
    let opened = Root::open(&options.host).map_err(Into::into);
    opened
        .and_then(|root| HostFile::open_beneath(&root, beneath))
        .and_then(HostFile::require_administered)
        .map_err(|fault| fault.at(path))
}
