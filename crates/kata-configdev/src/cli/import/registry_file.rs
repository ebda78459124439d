//! What the imports of registry files have in common: options, the system's roots, the outcome.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use credential_sources::registry_file::{
    Certificates, Import, MAX_CA_FILE_BYTES, Roots, Skipped, Written,
};
use credential_sources::{Finding, Loss};
use serde::Serialize;
use zeroize::Zeroizing;

use super::node_root::NodeRoot;
use super::told;
use crate::cli::CommandError;
use crate::exit;
use crate::host_file::{FileFault, read_bounded};

/// The options of every import of registry files.
#[derive(Args, Debug)]
pub struct Options {
    /// Take files from this directory as if it were "/": a node's file system, mounted elsewhere.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
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
    /// Print no document if anything is left out or changes its meaning (exit code 65).
    #[arg(long)]
    strict: bool,
    /// Print one JSON object: document, findings, faults, unlisted.
    #[arg(long)]
    json: bool,
}

/// The outcome, as `--json` prints it.
#[derive(Serialize)]
struct Report<'a> {
    /// `None` where there are faults, or with `--strict` losses.
    document: Option<&'a str>,
    findings: Vec<told::Item<'a>>,
    faults: Vec<told::Item<'a>>,
    unlisted: usize,
}

/// Reads `path`, or standard input for `-`.
pub fn input(
    path: &Path,
    root: &NodeRoot,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>, CommandError> {
    let content = if path == Path::new("-") {
        read_bounded(io::stdin().lock().by_ref(), limit, limit)
    } else {
        root.read(path, limit)
    };
    Ok(content.map_err(|fault| fault.at(path))?)
}

/// Reads files that other files name.
pub fn reader(root: &NodeRoot) -> impl FnMut(&Path) -> Result<Zeroizing<Vec<u8>>, String> + '_ {
    |path| {
        root.read(path, MAX_CA_FILE_BYTES)
            .map_err(|fault: FileFault| fault.to_string())
    }
}

/// Prints what was imported, and says how the command ends.
pub fn finish(
    mut import: Import,
    root: &NodeRoot,
    options: &Options,
    out: &mut impl Write,
) -> Result<u8, CommandError> {
    let has_roots = |import: &Import| {
        let mut roots = import.entries.iter().map(|entry| &entry.settings.roots);
        roots.any(|roots| matches!(roots, Some(Roots::These(_))))
    };
    let system_roots = if options.keep_system_roots && has_roots(&import) {
        Some(system_roots(&options.system_roots, root, &mut import)?)
    } else {
        None
    };
    let written = import.write(system_roots.as_ref());
    let is_lossy = written.report.unlisted > 0 || told::is_lossy(&written.report.findings);
    let document = written
        .document
        .as_ref()
        .filter(|_| !(options.strict && is_lossy));
    let document = document.map(|document| document.expose());
    if options.json {
        let report = report(&written, document);
        super::super::print_json(out, &report)?;
    } else {
        tell(&written, options.strict)?;
        out.write_all(document.unwrap_or_default().as_bytes())?;
    }
    Ok(if document.is_some() { 0 } else { exit::DATA })
}

/// The system's certificates; what is wrong with them is a fault of the import.
fn system_roots(
    path: &Path,
    root: &NodeRoot,
    import: &mut Import,
) -> Result<Certificates, CommandError> {
    let bytes = root
        .read(path, MAX_CA_FILE_BYTES)
        .map_err(|fault| fault.at(path))?;
    let finding = |loss, text| Finding::new(&path.to_string_lossy(), "", loss, text);
    match Certificates::of_file(&bytes) {
        Ok((certificates, Skipped(0))) => Ok(certificates),
        Ok((certificates, Skipped(count))) => {
            let text = format!("what is no certificate is left out: {count} of its blocks");
            import.report.findings.push(finding(Loss::Note, text));
            Ok(certificates)
        }
        Err(reason) => {
            import
                .report
                .faults
                .push(finding(Loss::Lost, reason.to_owned()));
            Ok(Certificates::default())
        }
    }
}

/// To people.
fn tell(written: &Written, is_strict: bool) -> io::Result<()> {
    told::tell(&written.report.findings, &written.report.faults, is_strict)?;
    if written.report.unlisted > 0 {
        writeln!(io::stderr(), "and {} more", written.report.unlisted)?;
    }
    Ok(())
}

fn report<'a>(written: &'a Written, document: Option<&'a str>) -> Report<'a> {
    Report {
        document,
        findings: told::items(&written.report.findings),
        faults: told::items(&written.report.faults),
        unlisted: written.report.unlisted,
    }
}
