//! `kata-configdev import docker-config --by-namespace`.

use std::io::Write;
use std::path::Path;

use credential_sources::Finding;
use credential_sources::docker_config::Widening;
use credential_sources::secretgen::ByNamespace;
use serde_json::json;
use zeroize::Zeroizing;

use super::docker_config::{Arguments, files, of_accounts};
use super::outcome::Imported;
use crate::cli::CommandError;
use crate::image_file;

/// Writes a document for each namespace, except those with a fault: the mistake of one tenant must
/// not stop the others. They are made twice, so that one at a time is in memory.
pub fn run(
    arguments: &Arguments,
    directory: &Path,
    out: &mut impl Write,
) -> Result<u8, CommandError> {
    let contents = arguments.contents()?;
    let namespaces = ByNamespace::read(&files(&contents));
    let (widening, printed) = (arguments.widening(), arguments.options.printed);
    let mut all = of_accounts(namespaces.told().clone());
    let mut dropped = Vec::new();
    let mut names = Vec::new();
    for name in namespaces.names() {
        let (imported, text) = document(&namespaces, name, widening);
        all.findings.extend(imported.findings.into_iter().map(|finding| of(name, finding)));
        if text.is_some() && imported.faults.is_empty() && !imported.is_empty {
            names.push((name, directory.join(format!("{name}.toml"))));
        }
        dropped.extend(imported.faults.into_iter().map(|fault| of(name, fault)));
    }
    let listing: String = names.iter().map(|(_, path)| format!("{}\n", path.display())).collect();
    let documents = names.iter().map(|(name, path)| json!({"namespace": name, "path": path}));
    all.more = json!({"documents": documents.collect::<Vec<_>>()});
    all.is_empty = names.is_empty();
    // What is dropped is a loss, and the command fails all the same.
    let is_accepted = all.is_accepted(printed) && (dropped.is_empty() || !printed.strict);
    if is_accepted {
        for (name, path) in &names {
            if let (_, Some(text)) = document(&namespaces, name, widening) {
                image_file::write(path, &text).map_err(CommandError::output)?;
            }
        }
    }
    all.faults.extend(dropped);
    all.print(Some(listing.as_str()).filter(|_| is_accepted), false, printed, out)
}

/// What a namespace offers, and the document of that.
fn document(
    namespaces: &ByNamespace,
    name: &str,
    widening: Widening,
) -> (Imported, Option<Zeroizing<Vec<u8>>>) {
    let mut imported = namespaces.import(name, widening);
    imported.faults.append(&mut imported.unread);
    let mut imported = of_accounts(imported);
    let text = imported.added(&[], &format!("the document of {name}"), "");
    (imported, text)
}

/// A finding with its namespace.
fn of(namespace: &str, finding: Finding) -> Finding {
    Finding { source: format!("for {namespace}: {}", finding.source), ..finding }
}
