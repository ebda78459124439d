//! `kata-configdev import docker-config --by-namespace`.

use std::io::Write;
use std::path::{Path, PathBuf};

use credential_sources::Finding;
use credential_sources::docker_config::Widening;
use credential_sources::merge::Merged;
use credential_sources::secretgen::{ByNamespace, Imported};
use serde_json::json;

use super::docker_config::merged;
use super::outcome::{Outcome, Printed};
use crate::cli::CommandError;
use crate::image_file;

/// Writes a document for each namespace, except those with a fault: the mistake of one tenant must
/// not stop the others. They are made twice, so that one at a time is in memory.
pub fn run(
    namespaces: &ByNamespace,
    directory: &Path,
    widening: Widening,
    printed: Printed,
    out: &mut impl Write,
) -> Result<u8, CommandError> {
    let Imported { mut findings, faults, .. } = namespaces.told().clone();
    let mut dropped = Vec::new();
    let mut names = Vec::new();
    for name in namespaces.names() {
        let (imported, merged) = document(namespaces, name, widening);
        findings.extend(imported.findings.iter().map(|finding| of(name, finding)));
        dropped.extend(imported.faults.iter().map(|fault| of(name, fault)));
        if merged.is_some() && imported.faults.is_empty() && !imported.offers.is_empty() {
            names.push(name);
        }
    }
    let path = |name: &str| -> PathBuf { directory.join(format!("{name}.toml")) };
    let paths: Vec<_> = names.iter().map(|name| path(name)).collect();
    let documents = names.iter().zip(&paths);
    let documents = documents.map(|(name, path)| json!({"namespace": name, "path": path}));
    let listing: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    let outcome = Outcome {
        document: Some(&listing),
        findings: &findings,
        faults: &faults,
        unlisted: 0,
        is_empty: names.is_empty(),
        more: json!({"documents": documents.collect::<Vec<_>>()}),
    };
    if outcome.is_accepted_without(&dropped, printed) {
        for (name, path) in names.iter().zip(&paths) {
            if let (_, Some(merged)) = document(namespaces, name, widening) {
                image_file::write(path, &merged.text).map_err(CommandError::output)?;
            }
        }
    }
    outcome.finish_without(&dropped, printed, out)
}

/// What a namespace offers, and the document of that.
fn document(
    namespaces: &ByNamespace,
    name: &str,
    widening: Widening,
) -> (Imported, Option<Merged>) {
    let mut imported = namespaces.import(name, widening);
    let merged = merged(&[], &format!("the document of {name}"), &mut imported);
    (imported, merged)
}

/// A finding with its namespace.
fn of(namespace: &str, finding: &Finding) -> Finding {
    Finding { source: format!("for {namespace}: {}", finding.source), ..finding.clone() }
}
