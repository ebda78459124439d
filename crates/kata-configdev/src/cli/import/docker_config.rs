//! `kata-configdev import docker-config`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use credential_sources::docker_config::Widening;
use credential_sources::merge::{Merged, Origin, merge};
use credential_sources::secret_manifest::MAX_MANIFEST_BYTES;
use credential_sources::secretgen::{ByNamespace, Imported, SourceFile, import};
use serde_json::{Value, json};

use super::by_namespace;
use super::outcome::{self, Outcome, Printed, label};
use crate::cli::CommandError;
use crate::cli::finding::Input;
use crate::host_file::read_named;

/// Makes a document of the credentials for image pulls that docker, podman and Kubernetes keep.
///
/// A file may be a config.json or auth.json, the content of a secret (.dockerconfigjson,
/// .dockercfg), or manifests of secrets in YAML or JSON. A key without a port holds for every port
/// of its host. An entry that a document could only have for more hosts or repositories than its
/// key names is left out, unless --allow-widening is given. Helper programs are not run.
///
/// Of several entries for one registry the last file's counts, and the others are tried after it
/// where a registry refuses it. Secrets count as secretgen-controller has it: by the weight on
/// their SecretExport, then those of --namespace, then those exported to it by name, then by
/// namespace and name; secrets without a weight count more than plain files.
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
  kubectl get secrets -A --field-selector type=kubernetes.io/dockerconfigjson -o yaml |
    kata-configdev import docker-config --by-namespace /etc/kata-configdev/tenants -
  kata-configdev import docker-config --json auth.json | jq .findings"
)]
pub struct Arguments {
    /// The files, or "-" for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Add to this document, whose own credentials win, and write it anew, without comments.
    #[arg(long, value_name = "DOCUMENT")]
    into: Option<PathBuf>,
    /// The namespace whose secrets come before those of others.
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Write a document for each namespace that secrets are in, or are exported to, into this
    /// directory: NAMESPACE.toml, mode 0600. Only manifests are taken. A namespace with a secret
    /// that cannot be read gets none, and keeps the file that it has (exit code 65); the others are
    /// written, with --strict none. The files written are listed on standard output.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["into", "namespace"])]
    by_namespace: Option<PathBuf>,
    /// Take entries for some repositories for the whole registry, and "*.corp" for every depth
    /// below corp.
    #[arg(long)]
    allow_widening: bool,
    #[command(flatten)]
    printed: Printed,
}

/// Imports `arguments.files`.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    outcome::require_one_stdin(&arguments.files, arguments.into.as_ref())?;
    let files: Vec<_> = arguments
        .files
        .iter()
        .map(|path| Ok((label(path), read_named(path, MAX_MANIFEST_BYTES)?)))
        .collect::<Result<_, CommandError>>()?;
    let files: Vec<_> = files.iter().map(|(name, text)| SourceFile { name, text }).collect();
    let widening = if arguments.allow_widening { Widening::Allowed } else { Widening::Refused };
    if let Some(directory) = &arguments.by_namespace {
        let namespaces = ByNamespace::read(&files);
        return by_namespace::run(&namespaces, directory, widening, arguments.printed, out);
    }
    let mut imported = import(&files, arguments.namespace.as_deref(), widening);
    let merged = match &arguments.into {
        Some(path) => merged(&Input::read(path)?.text, &label(path), &mut imported),
        None => merged(&[], "the document", &mut imported),
    };
    let merged = merged.filter(|_| imported.faults.is_empty());
    let origins = merged.iter().flat_map(|merged| &merged.origins);
    let outcome = Outcome {
        document: merged.as_ref().and_then(|merged| std::str::from_utf8(&merged.text).ok()),
        findings: &imported.findings,
        faults: &imported.faults,
        unlisted: 0,
        is_empty: imported.offers.is_empty(),
        more: json!({"decisions": origins.map(verdict).collect::<Vec<_>>()}),
    };
    outcome.finish(arguments.printed, out)
}

/// Puts the offers below a document. What is lost by that becomes a finding, what is wrong a fault.
pub(super) fn merged(document: &[u8], name: &str, imported: &mut Imported) -> Option<Merged> {
    let merged = merge(document, &imported.offers);
    let merged = outcome::added(merged, name, &mut imported.faults)?;
    let findings = &mut imported.findings;
    findings.extend(merged.origins.iter().flat_map(|origin| origin.findings(name)));
    findings.extend(outcome::notes(&merged.warnings));
    Some(merged)
}

/// Which source wins for a registry and why, as `--json` prints it.
fn verdict(origin: &Origin) -> Value {
    let mut accounts = origin.accounts.iter();
    let winner = accounts.next().map(|one| one.source.as_str());
    let also = accounts.map(|one| json!({"source": one.source, "offered_for": one.offered_for}));
    let losers = origin.losers.iter();
    let losers = losers.map(|loser| json!({"source": loser.source, "why": loser.why}));
    json!({
        "registry": origin.registry,
        // `null` where nothing could be taken.
        "winner": origin.entry.as_ref().map_or(winner, |_| Some("the document")),
        "why": origin.why,
        // Tried after the winner, in this order.
        "also": also.collect::<Vec<_>>(),
        "losers": losers.collect::<Vec<_>>(),
    })
}
