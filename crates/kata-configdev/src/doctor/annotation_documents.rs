//! The documents that pods may name by their annotation.

use std::path::{Path, PathBuf};

use super::document::{OF_POD, told};
use super::finding::{Finding, Severity};
use super::node::{is_denied, other_than_root};
use super::set::Set;
use crate::SandboxError;
use crate::choice::{ChoiceError, annotated};
use crate::cli::finding::Input;
use crate::namespace::Namespace;
use crate::namespace_path::{Allowed, NamespacePaths};
use crate::node_root::NodeRoot;

/// The most of them that are read. Free to change; each has at most 1 MiB.
const MAX_READ: usize = 256;

/// What the name of a document ends in: `annotation-allow` may have other files below it.
const EXTENSION: &str = ".toml";

/// Reads the documents in the directories of `annotation-allow`, of the namespaces' own ones as
/// pods of those namespaces name them. A bad one fails the pods that name it, and no other.
pub fn check(node: &NodeRoot, set: &mut Set<'_>, findings: &mut Vec<Finding>) {
    let Some(settings) = set.settings().filter(|settings| settings.enabled) else {
        return;
    };
    let paths = NamespacePaths::of(settings);
    let mut listed: Vec<_> = paths
        .allowed
        .iter()
        .flat_map(|allowed| directories(node, allowed))
        .flat_map(|(directory, namespace)| {
            let documents = documents_in(node, &directory).into_iter();
            documents.map(move |path| (path, namespace.clone()))
        })
        .collect();
    if let Some((path, _)) = listed.get(MAX_READ) {
        let message = format!(
            "only {MAX_READ} of the {} documents that pods may name are looked at, and neither \
            this one nor what follows; kata-configdev check looks at any",
            listed.len()
        );
        findings.push(Finding::new(OF_POD.id, Severity::Warning, path, message));
    }
    listed.truncate(MAX_READ);
    let mut keys_in = None;
    for (path, namespace) in listed {
        let Some(value) = path.to_str() else {
            continue;
        };
        let text = match annotated(node, &paths, value, namespace) {
            Ok(found) => found.text,
            Err(error) => {
                findings.extend(unusable(&path, error));
                continue;
            }
        };
        // It may be gone by now.
        if let Ok(metadata) = node.metadata(&path)
            && let Some(document) = told(&path, &Input::of(text, Some(metadata)), OF_POD, findings)
            && !document.decryption_keys.is_empty()
        {
            keys_in.get_or_insert(path);
        }
    }
    set.keys_in = set.keys_in.take().or(keys_in);
}

/// The directory of an entry; of one by namespace, those of the namespaces that have one.
fn directories(node: &NodeRoot, allowed: &Allowed) -> Vec<(PathBuf, Option<Namespace>)> {
    match allowed {
        Allowed::Shared(directory) => vec![(directory.clone(), None)],
        Allowed::ByNamespace(paths) => {
            let listed = node.list(paths.directory()).unwrap_or_default();
            let names = listed.into_iter().filter(|entry| entry.is_directory);
            names
                .filter_map(|entry| paths.namespace_of_name(&entry.name))
                .map(|namespace| (paths.path(&namespace), Some(namespace)))
                .collect()
        }
    }
}

fn documents_in(node: &NodeRoot, directory: &Path) -> Vec<PathBuf> {
    let listed = node.list(directory).unwrap_or_default().into_iter();
    listed
        .filter(|entry| !entry.is_directory && entry.name.ends_with(EXTENSION))
        .map(|entry| directory.join(entry.name))
        .collect()
}

/// Why a document cannot be used; `None` where only who runs this may not read it, and where the
/// settings are to blame, which is told of them.
fn unusable(path: &Path, error: ChoiceError) -> Option<Finding> {
    match &error {
        ChoiceError::AnnotationFile(error) if is_denied(&error.fault) => return None,
        ChoiceError::AnnotationDirectory { .. } if other_than_root().is_some() => return None,
        ChoiceError::Overlap(..) => return None,
        _ => {}
    }
    let error = SandboxError::from(error);
    let message = format!("pods that name it fail to {error}: {}", error.remedy());
    Some(Finding::new(OF_POD.id, Severity::Warning, path, message))
}
