//! The documents of the pods' namespaces.

use std::path::PathBuf;

use registry_config::Document;

use super::document::{OF_NODE, check_one, told, unusable};
use super::engine::Engine;
use super::finding::{Finding, Severity};
use super::set::Set;
use super::settings::place;
use crate::choice::{ChoiceError, document_in, namespaces};
use crate::cli::finding::Input;
use crate::namespace_path::NamespacePath;
use crate::node_root::NodeRoot;
use crate::settings::{Effective, NamespaceFallback};

/// Reads the document of each namespace, and the one of those that have none. The answer is the
/// first of them that has keys of encrypted images.
pub fn check(
    node: &NodeRoot,
    set: &Set<'_>,
    effective: &Effective,
    paths: &NamespacePath,
    findings: &mut Vec<Finding>,
) -> Option<PathBuf> {
    let mut keys_in = None;
    let has_keys = |document: Document| !document.decryption_keys.is_empty();
    let fallback = &effective.settings.namespace_fallback;
    if let NamespaceFallback::Document(other) = fallback
        && check_one(node, set, effective, other, findings).is_some_and(has_keys)
    {
        keys_in = Some(other.clone());
    }
    if let Some(base) = &effective.settings.namespace_base
        && check_one(node, set, effective, base, findings).is_some_and(has_keys)
    {
        keys_in.get_or_insert_with(|| base.clone());
    }
    let names = match namespaces(node, paths) {
        Ok(names) => names,
        Err(error) => {
            let id = "namespaces-directory";
            findings.extend(unusable(set, effective, id, error));
            return keys_in;
        }
    };
    if names.is_empty() && *fallback == NamespaceFallback::Refuse {
        let message = format!(
            "no namespace has a document in {}, and without one a pod is refused: put one there \
            for each namespace that may run pods, or set namespace-fallback",
            paths.directory().display()
        );
        let (path, line) = place(set, effective.origins.of("document"));
        let finding = Finding::new("namespaces-none", Severity::Warning, path, message);
        findings.push(finding.at_line(line));
    }
    for name in names {
        let path = paths.path(&name);
        let text = match document_in(node, paths, &name) {
            Ok(text) => text,
            Err(error) => {
                let is_of_all = matches!(error, ChoiceError::NamespaceDirectory(_));
                let id = match is_of_all {
                    true => "namespaces-directory",
                    false => "namespace-document",
                };
                findings.extend(unusable(set, effective, id, error));
                if is_of_all {
                    return keys_in;
                }
                continue;
            }
        };
        // It may be gone by now.
        if let Ok(metadata) = node.metadata(&path)
            && told(&path, &Input::of(text, Some(metadata)), OF_NODE, findings)
                .is_some_and(has_keys)
        {
            keys_in.get_or_insert(path);
        }
    }
    keys_in
}

/// Whether the settings name the engine by which the handlers of the set are started.
pub fn check_engine(engine: &Engine, set: &Set<'_>, findings: &mut Vec<Finding>) {
    let Some(effective) = &set.effective else {
        return;
    };
    let Some(named) = effective.settings.engine else {
        return;
    };
    let runtimes = || set.handlers.iter().flat_map(|handler| engine.of(handler));
    let Some(other) = runtimes().find(|runtime| runtime.engine != named) else {
        return;
    };
    if runtimes().any(|runtime| runtime.engine == named) {
        return;
    }
    let message = format!(
        "engine is {named}, but {} starts the handlers of this set ({}), so that the namespaces \
        of pods are not known and sandboxes fail; write engine = \"{}\"",
        other.engine,
        other.place(),
        other.engine.name()
    );
    let (path, line) = place(set, effective.origins.of("engine"));
    findings.push(Finding::new("engine-differs", Severity::Fault, path, message).at_line(line));
}
