//! An installation as it stands on a node, whoever made it: for who looks for faults.

use std::path::Path;

use super::form::parse;
use super::{MAX_MANIFEST_BYTES, NAME};
use crate::node::{Node, unfinished_name};
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
    /// Files that an installer which was killed left beside them. They may hold a secret.
    pub unfinished: Vec<HostPath>,
}

/// Looks at the installation in `prefix` of the node below `host`; `None` where there is none. No
/// link on the way is followed.
///
/// # Errors
///
/// [`Error::Host`], [`Error::Node`], [`Error::Manifest`].
pub fn look_at(host: &Path, prefix: &HostPath) -> Result<Option<Installed>, Error> {
    let node = Node::open(host)?;
    let unusable = |reason: String| Error::Manifest {
        path: prefix.join(NAME),
        reason,
    };
    let Some(directory) = node.directory(prefix)? else {
        return Ok(None);
    };
    let text = directory.read(NAME, MAX_MANIFEST_BYTES);
    let Some(text) = text.map_err(|error| unusable(error.to_string()))? else {
        return Ok(None);
    };
    let listed = parse(&text).map_err(unusable)?;
    let mut installed = Installed {
        path: prefix.join(NAME),
        owner: listed.owner,
        files: listed.files.len(),
        missing: Vec::new(),
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
            installed
                .unfinished
                .extend(above.map(|above| above.join(&unfinished)));
        }
        if !directory.has(name)? {
            installed.missing.push(entry.path);
        }
    }
    Ok(Some(installed))
}
