//! What the imports of registry files have in common: options, the system's roots, the outcome.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use credential_sources::registry_file::{Import, MAX_CA_FILE_BYTES, Written, certificates};
use credential_sources::{Finding, Loss};
use foreign_text::bounded::read_stream;
use registry_config::Roots;
use serde_json::json;
use zeroize::Zeroizing;

use super::outcome::{self, Outcome, Printed};
use crate::cli::finding::Input;
use crate::cli::{CommandError, UsageError};
use crate::host_file::FileFault;
use crate::node_root::NodeRoot;

/// The options of every import of registry files.
#[derive(Args, Debug)]
pub struct Options {
    /// Take files from this directory as if it were "/": a node's file system, mounted elsewhere.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Add to this document, whose own entries win, instead of beginning a new one.
    #[arg(long, value_name = "DOCUMENT")]
    into: Option<PathBuf>,
    /// Add the system's certificate authorities wherever the files have some of their own. The
    /// files' engines trust both; the document's ca-certs are the only ones.
    #[arg(long)]
    keep_system_roots: bool,
    /// Where they are.
    #[arg(
        long,
        value_name = "FILE",
        requires = "keep_system_roots",
        default_value = "/etc/ssl/certs/ca-certificates.crt"
    )]
    system_roots: PathBuf,
    #[command(flatten)]
    printed: Printed,
}

/// Reads `path`, or standard input for `-`.
pub fn input(
    path: &Path,
    root: &NodeRoot,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>, CommandError> {
    if path == Path::new("-") {
        let content = read_stream(io::stdin().lock(), limit);
        return Ok(content.map_err(|error| FileFault::from(error).at(outcome::label(path)))?);
    }
    let content = root.read(path, limit);
    Ok(content.map_err(|fault| root.at(path, fault))?)
}

/// Reads files that other files name.
pub fn reader(root: &NodeRoot) -> impl FnMut(&Path) -> Result<Zeroizing<Vec<u8>>, String> + '_ {
    |path| root.read(path, MAX_CA_FILE_BYTES).map_err(|fault: FileFault| fault.to_string())
}

/// Prints what was imported, and says how the command ends.
pub fn finish(
    mut import: Import,
    root: &NodeRoot,
    options: &Options,
    out: &mut impl Write,
) -> Result<u8, CommandError> {
    let has_roots = import.entries.iter().any(|entry| entry.roots().is_some());
    let system_roots = if options.keep_system_roots && has_roots {
        Some(system_roots(&options.system_roots, root, &mut import)?)
    } else {
        None
    };
    let system_roots = system_roots.as_ref();
    let written = match &options.into {
        None => import.write(system_roots),
        Some(path) => {
            let own = Input::read(path)?.text;
            import.write_into(&own, &outcome::label(path), system_roots)
        }
    };
    print(&written, options.printed, out)
}

impl Options {
    /// Requires that standard input is not both the file that is read and the document.
    pub fn require_one_stdin(&self, file: &Path) -> Result<(), UsageError> {
        outcome::require_one_stdin(&[file.to_owned()], self.into.as_ref())
    }
}

/// Prints a document and what there is to say about it, and says how the command ends.
pub fn print(
    written: &Written,
    printed: Printed,
    out: &mut impl Write,
) -> Result<u8, CommandError> {
    let outcome = Outcome {
        document: written.document.as_ref().map(|document| document.expose()),
        findings: &written.report.findings,
        faults: &written.report.faults,
        unlisted: written.report.unlisted,
        is_empty: written.document.as_ref().is_none_or(|text| outcome::says_nothing(text.expose())),
        more: json!({"unlisted": written.report.unlisted}),
    };
    outcome.finish(printed, out)
}

/// The system's certificates; what is wrong with them is a fault of the import.
fn system_roots(path: &Path, root: &NodeRoot, import: &mut Import) -> Result<Roots, CommandError> {
    let bytes = root.read(path, MAX_CA_FILE_BYTES).map_err(|fault| root.at(path, fault))?;
    let source = path.to_string_lossy();
    match certificates(&bytes) {
        Ok((roots, 0)) => Ok(roots),
        Ok((roots, count)) => {
            let text = format!("what is no certificate is left out: {count} of its blocks");
            let note = Finding::new(&source, "", Loss::Note, text);
            import.report.findings.push(note);
            Ok(roots)
        }
        Err(reason) => {
            let fault = Finding::new(&source, "", Loss::Lost, reason.to_owned());
            import.report.faults.push(fault);
            Ok(Roots::default())
        }
    }
}
