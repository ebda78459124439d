//! The document that sandboxes get whose pods name none.

use std::path::{Path, PathBuf};

use registry_config::{Document, MAX_DOCUMENT_BYTES};

use super::finding::{Finding, Severity};
use super::namespaces;
use super::node::is_denied;
use super::set::Set;
use super::settings::{of_sandboxes, place};
use crate::choice::{self, ChoiceError};
use crate::cli::finding::Input;
use crate::document_pattern::PatternFault;
use crate::host_file::{FileFault, HostFile};
use crate::namespace_path::NamespacePaths;
use crate::node_root::NodeRoot;
use crate::settings::{Effective, Settings};

/// The most problems or warnings of a document that are told; `check` shows all.
const MAX_TOLD: usize = 10;

/// What a document with problems is called, how bad that is, and what follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Invalid {
    pub(super) id: &'static str,
    severity: Severity,
    then: &'static str,
    /// What one without problems is called that has something to say.
    warning: &'static str,
    node_error: &'static str,
}

/// Of a document that sandboxes get without asking for it.
pub(super) const OF_NODE: Invalid = Invalid {
    id: "document-invalid",
    severity: Severity::Fault,
    then: "; no sandbox starts until it is corrected",
    warning: "document-warning",
    node_error: "document-node-error",
};

/// Of a document that pods name.
pub(super) const OF_POD: Invalid = Invalid {
    id: "annotation-document",
    severity: Severity::Warning,
    then: "; pods that name it fail until it is corrected",
    warning: "annotation-document",
    node_error: "annotation-document",
};

/// Finds and reads the document of `set`, and says what `kata-configdev check` says of it.
pub fn check(node: &NodeRoot, set: &mut Set<'_>, findings: &mut Vec<Finding>) {
    let Some(effective) = &set.effective else {
        return;
    };
    if !effective.settings.enabled {
        return;
    }
    let Some(path) = effective.settings.document.clone() else {
        findings.extend(nobody_names_one(set, &effective.settings));
        return;
    };
    match NamespacePaths::of(&effective.settings).document {
        Some(paths) => set.keys_in = namespaces::check(node, set, effective, &paths, findings),
        None => {
            let document = check_one(node, set, effective, &path, findings);
            let has_keys = document.as_ref().is_some_and(|known| !known.decryption_keys.is_empty());
            set.keys_in = has_keys.then_some(path);
            set.document = document;
        }
    }
}

/// The document at `path`, where it can be used.
pub(super) fn check_one(
    node: &NodeRoot,
    set: &Set<'_>,
    effective: &Effective,
    path: &Path,
    findings: &mut Vec<Finding>,
) -> Option<Document> {
    match read(node, path) {
        Ok((path, input)) => told(&path, &input, OF_NODE, findings),
        Err((id, error)) => {
            findings.extend(unusable(set, effective, id, error));
            None
        }
    }
}

/// The document's file, read.
fn read(node: &NodeRoot, path: &Path) -> Result<(PathBuf, Input), (&'static str, ChoiceError)> {
    let path = choice::resolve(node, path).map_err(|error| ("document-pattern", error))?;
    let opened = node.open_file(&path).and_then(HostFile::require_administered);
    let (text, metadata) = opened
        .and_then(|file| {
            let metadata = file.metadata().clone();
            Ok((file.read(MAX_DOCUMENT_BYTES)?, metadata))
        })
        .map_err(|fault| {
            let id = match &fault {
                fault if fault.is_absent() => "document-missing",
                FileFault::NotAdministered(_) => "document-access",
                _ => "document-unread",
            };
            (id, ChoiceError::NodeFile(fault.at(&path)))
        })?;
    Ok((path, Input::of(text.into(), Some(metadata))))
}

/// What is wrong with the document; what it says, where it is valid.
pub(super) fn told(
    path: &Path,
    input: &Input,
    called: Invalid,
    findings: &mut Vec<Finding>,
) -> Option<Document> {
    let (id, severity, then, told, document) = match input.parse() {
        Ok((document, warnings)) => {
            let severity = Severity::Warning;
            (called.warning, severity, "", warnings, Some(document))
        }
        Err(problems) => {
            let problems = input.findings(&problems);
            (called.id, called.severity, called.then, problems, None)
        }
    };
    findings.extend(told.into_iter().take(MAX_TOLD).map(|one| {
        let key = match one.key.as_str() {
            "" => String::new(),
            key => format!("{key}: "),
        };
        let message = format!("{key}{}{then}", one.message);
        Finding::new(id, severity, path, message).at_line(one.line.unwrap_or(0))
    }));
    if let Some(reason) = document.as_ref().and_then(|known| known.node_error.as_ref()) {
        let message = format!(
            "it has no registries but a reason, which every pull of a guest fails with: {reason}; \
            put a document in its place"
        );
        let (id, severity) = (called.node_error, called.severity);
        findings.push(Finding::new(id, severity, path, message));
    }
    document
}

/// Why a document cannot be used; `None` where only who runs this may not read it.
pub(super) fn unusable(
    set: &Set<'_>,
    effective: &Effective,
    id: &'static str,
    error: ChoiceError,
) -> Option<Finding> {
    let (path, line) = match &error {
        ChoiceError::NodeFile(error)
        | ChoiceError::NamespaceDirectory(error)
        | ChoiceError::NamespaceFile(error)
            if !error.fault.is_absent() =>
        {
            if is_denied(&error.fault) {
                return None;
            }
            (error.path.clone(), 0)
        }
        ChoiceError::NodePattern { fault: PatternFault::Unreadable(error), .. }
            if is_denied(&error.fault) =>
        {
            return None;
        }
        _ => place(set, effective.origins.of("document")),
    };
    let has_words = error.is_absence() && effective.settings.missing_document.is_some();
    if has_words {
        let message = "the document is not there, so that guests get the words of \
            missing-document and their pulls fail with them; install the document";
        return Some(Finding::new(id, Severity::Warning, path, message).at_line(line));
    }
    Some(of_sandboxes(id, Severity::Fault, path, &error.into()).at_line(line))
}

/// Nobody names a document, as when the drop-in with it is forgotten.
fn nobody_names_one(set: &Set<'_>, settings: &Settings) -> Option<Finding> {
    let is_left_to_pods = !settings.annotation_allow.is_empty();
    if is_left_to_pods || settings.credential_providers.is_wanted() {
        return None;
    }
    let message = "neither a document, nor directories for pods' own, nor credential providers are \
        named, so that no sandbox gets a disk and guests pull anonymously; write document = \
        \"/etc/kata-configdev/imagepuller.toml\"";
    let path = &set.settings_file;
    Some(Finding::new("document-none", Severity::Warning, path, message))
}
