//! `kata-configdev import docker-config`.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use credential_sources::docker_config::Widening;
use credential_sources::merge::{Decision, Loser, MergeError, Merged, Winner, merge};
use credential_sources::secret_manifest::MAX_MANIFEST_BYTES;
use credential_sources::secretgen::{Imported, SourceFile, import};
use credential_sources::{Finding, Loss};
use puller_config::Problems;
use serde::Serialize;
use zeroize::Zeroizing;

use super::super::finding::Input;
use super::told;
use crate::cli::CommandError;
use crate::host_file::{FileFault, read_bounded};
use crate::{exit, lines};

/// Makes a document of the credentials for image pulls that docker, podman and Kubernetes keep.
///
/// A file may be a config.json or auth.json, the content of a secret (.dockerconfigjson,
/// .dockercfg), or manifests of secrets in YAML or JSON. A key without a port holds for every port
/// of its host. An entry that a document could only have for more hosts or repositories than its
/// key names is left out, unless --allow-widening is given. Helper programs are not run.
///
/// Of several entries with one key the last file's counts. Secrets count as secretgen-controller
/// has it: by the weight on their SecretExport, then those of --namespace, then those exported to
/// it by name, then by namespace and name; secrets without a weight count more than plain files.
///
/// The document holds the passwords: umask 077 keeps the file that it is written to from other
/// users.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  umask 077
  kata-configdev import docker-config ~/.docker/config.json > imagepuller.toml
  kubectl get secret regcred -o yaml | kata-configdev import docker-config - > imagepuller.toml
  kata-configdev import docker-config --into imagepuller.toml --strict pull-secret.yaml > new.toml
  kata-configdev import docker-config --json auth.json | jq .findings"
)]
pub struct Arguments {
    /// The files, or "-" for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Add to this document, whose own credentials win, instead of beginning a new one.
    #[arg(long, value_name = "DOCUMENT")]
    into: Option<PathBuf>,
    /// The namespace whose secrets come before those of others.
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Take entries for some repositories for the whole registry, and "*.corp" for every depth
    /// below corp.
    #[arg(long)]
    allow_widening: bool,
    /// Print no document if anything is left out or changes its meaning (exit code 65).
    #[arg(long)]
    strict: bool,
    /// Print one JSON object: document, findings, faults, decisions.
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
    /// For each registry which source wins and why.
    decisions: Vec<Verdict<'a>>,
}

#[derive(Serialize)]
struct Verdict<'a> {
    registry: &'a str,
    /// `None` where nothing could be taken.
    winner: Option<&'a str>,
    why: &'a str,
    losers: Vec<Other<'a>>,
}

#[derive(Serialize)]
struct Other<'a> {
    source: &'a str,
    why: &'a str,
}

/// Imports `arguments.files`.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let files: Vec<_> = arguments
        .files
        .iter()
        .map(|path| Ok((label(path), read(path)?)))
        .collect::<Result<_, CommandError>>()?;
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| SourceFile { name, text })
        .collect();
    let widening = if arguments.allow_widening {
        Widening::Allowed
    } else {
        Widening::Refused
    };
    let mut imported = import(&files, arguments.namespace.as_deref(), widening);
    let merged = match &arguments.into {
        Some(path) => merged(&Input::read(path)?.text, &label(path), &mut imported),
        None => merged(&[], "the document", &mut imported),
    };
    let is_lossy = told::is_lossy(&imported.findings);
    let merged = merged.filter(|_| imported.faults.is_empty());
    let document = merged
        .as_ref()
        .filter(|_| !(arguments.strict && is_lossy))
        .and_then(|merged| std::str::from_utf8(&merged.text).ok());
    if arguments.json {
        let report = report(&imported, merged.as_ref(), document);
        super::super::print_json(out, &report)?;
    } else {
        told::tell(&imported.findings, &imported.faults, arguments.strict)?;
        out.write_all(document.unwrap_or_default().as_bytes())?;
    }
    Ok(if document.is_some() { 0 } else { exit::DATA })
}

pub(super) fn label(path: &Path) -> String {
    if path == Path::new("-") {
        return "standard input".into();
    }
    path.to_string_lossy().into_owned()
}

/// Reads a file, whatever kind it is: the person at the terminal chose it, and a pipe keeps secrets
/// off the disk.
pub(super) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, CommandError> {
    let read = || -> Result<_, FileFault> {
        if path == Path::new("-") {
            let stdin = io::stdin().lock();
            return read_bounded(stdin, MAX_MANIFEST_BYTES, MAX_MANIFEST_BYTES);
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let size = if metadata.is_file() {
            usize::try_from(metadata.len()).unwrap_or(usize::MAX)
        } else {
            MAX_MANIFEST_BYTES
        };
        read_bounded(file, size, MAX_MANIFEST_BYTES)
    };
    Ok(read().map_err(|fault| fault.at(path))?)
}

/// Puts the offers below a document. What is lost by that becomes a finding, what is wrong a fault.
fn merged(document: &[u8], name: &str, imported: &mut Imported) -> Option<Merged> {
    let merged = match merge(document, &imported.offers) {
        Ok(merged) => merged,
        Err(MergeError::Document(problems)) => {
            imported.faults.extend(faults(name, &problems));
            return None;
        }
        Err(error) => {
            let fault = finding(name, "", Loss::Lost, lines::on_one_line(&error.to_string()));
            imported.faults.push(fault);
            return None;
        }
    };
    for decision in &merged.decisions {
        let tell = |loser: &Loser| {
            let loss = if loser.lost { Loss::Lost } else { Loss::Note };
            let text = format!("left out: {}", loser.why);
            finding(&loser.source, &decision.name, loss, text)
        };
        imported.findings.extend(decision.losers.iter().map(tell));
        let note = |text: &str| finding(name, &decision.name, Loss::Note, text.to_owned());
        imported.findings.extend(decision.change.map(note));
    }
    for warning in &merged.warnings {
        let text = format!("line {}: {}", warning.line, warning.effect);
        let note = finding("the new document", &warning.key, Loss::Note, text);
        imported.findings.push(note);
    }
    Some(merged)
}

pub(super) fn faults(name: &str, problems: &Problems) -> Vec<Finding> {
    let fault = |problem: &puller_config::Problem| {
        let text = format!("line {}: {}", problem.line, problem.rule);
        finding(name, &problem.key, Loss::Lost, text)
    };
    problems.iter().map(fault).collect()
}

pub(super) fn finding(source: &str, key: &str, loss: Loss, text: String) -> Finding {
    Finding {
        source: source.to_owned(),
        key: key.to_owned(),
        loss,
        text,
    }
}

fn report<'a>(
    imported: &'a Imported,
    merged: Option<&'a Merged>,
    document: Option<&'a str>,
) -> Report<'a> {
    Report {
        document,
        findings: told::items(&imported.findings),
        faults: told::items(&imported.faults),
        decisions: merged
            .map(|merged| merged.decisions.iter().map(verdict).collect())
            .unwrap_or_default(),
    }
}

fn verdict(decision: &Decision) -> Verdict<'_> {
    Verdict {
        registry: &decision.name,
        winner: match &decision.winner {
            Winner::Document(_) => Some("the document"),
            Winner::Offer(source) => Some(source),
            _ => None,
        },
        why: &decision.why,
        losers: decision.losers.iter().map(other).collect(),
    }
}

fn other(loser: &Loser) -> Other<'_> {
    Other {
        source: &loser.source,
        why: &loser.why,
    }
}
