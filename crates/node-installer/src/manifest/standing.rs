//! An installation as it stands on a node, whoever made it: for who looks for faults.

use std::path::Path;

pub use super::NAME;
use super::form::parse;
use super::{text, unusable};
use crate::node::{DirectoryEntry, Node, unfinished_name};
use crate::plan::Places;
use crate::{Error, HostPath, Owner};

/// What an installer's list says, and what became of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Installed {
    /// The list.
    pub path: HostPath,
    /// Whose it is; `None` where nobody said so.
    pub owner: Option<Owner>,
    /// How many files are on the list.
    pub files: usize,
    /// Those that are not there.
    pub missing: Vec<HostPath>,
    /// Those that a removal leaves, because somebody changed them, or because no installation has
    /// such a file there.
    pub staying: Vec<HostPath>,
    /// Files that an installer which was killed left beside them. They may hold a secret.
    pub unfinished: Vec<HostPath>,
}

/// Looks at the installation in `prefix` of the node below `host`; `None` where there is none. No
/// link on the way is followed. `document_dirs` are what its sets name besides the prefix.
///
/// # Errors
///
/// [`Error::Host`], [`Error::Node`], [`Error::Untrusted`], [`Error::Manifest`].
pub fn look_at(
    host: &Path,
    prefix: &HostPath,
    document_dirs: &[HostPath],
) -> Result<Option<Installed>, Error> {
    let node = Node::open(host)?;
    match node.directory(prefix)? {
        Some(directory) if directory.has(NAME)? => {}
        _ => return Ok(None),
    }
    let Some(directory) = node.administered_directory(prefix)? else {
        return Ok(None);
    };
    let Some(text) = text(prefix, &directory)? else {
        return Ok(None);
    };
    let listed = parse(&text).map_err(|reason| unusable(prefix, reason))?;
    let places = Places { prefix: prefix.clone(), document_dirs: document_dirs.to_vec() };
    let mut installed = Installed {
        path: prefix.join(NAME),
        owner: listed.owner,
        files: listed.files.len(),
        missing: Vec::new(),
        staying: Vec::new(),
        unfinished: Vec::new(),
    };
    for entry in listed.files {
        let (above, name) = entry.path.split();
        let directory = above.map(|above| node.directory(&above)).transpose();
        let Some(directory) = directory?.flatten() else {
            installed.missing.push(entry.path);
            continue;
        };
        let unfinished = unfinished_name(name);
        if directory.has(&unfinished)? {
            let above = entry.path.split().0;
            installed.unfinished.extend(above.map(|above| above.join(&unfinished)));
        }
        let is_removed = match directory.find(name)? {
            DirectoryEntry::Absent => {
                installed.missing.push(entry.path);
                continue;
            }
            _ if !places.fit(&entry) => false,
            DirectoryEntry::Foreign => false,
            DirectoryEntry::File(seen) => entry.kind.is_secret() || entry.knows(&seen.digest),
        };
        if !is_removed {
            installed.staying.push(entry.path);
        }
    }
    Ok(Some(installed))
}
