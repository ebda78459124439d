//! `kata-configdev import docker-config`.

use std::path::PathBuf;

use clap::Args;
use credential_sources::docker_config::Widening;
use credential_sources::secret_manifest::MAX_MANIFEST_BYTES as MAX;
use credential_sources::secretgen::{self, SourceFile, import};
use serde_json::json;
use zeroize::Zeroizing;

use super::outcome::{Content, Imported, Options, label};
use crate::cli::CommandError;
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
/// The document holds the passwords: --output keeps it from other users.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev import docker-config --output imagepuller.toml ~/.docker/config.json
  kubectl get secret regcred -o yaml | kata-configdev import docker-config --into imagepuller.toml -
  kata-configdev import docker-config --into imagepuller.toml --strict pull-secret.yaml
  kubectl get secrets -A --field-selector type=kubernetes.io/dockerconfigjson -o yaml |
    kata-configdev import docker-config --by-namespace /etc/kata-configdev/tenants -
  kata-configdev import docker-config --json auth.json | jq .findings"
)]
pub struct Arguments {
    /// The files, or "-" for standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The namespace whose secrets come before those of others.
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Write a document for each namespace that secrets are in, or are exported to, into this
    /// directory: NAMESPACE.toml, mode 0600. Only manifests are taken. A namespace with a secret
    /// that cannot be read gets none, and keeps the file that it has (exit code 65); the others are
    /// written, with --strict none. The files written are listed on standard output.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["into", "output", "namespace"])]
    pub by_namespace: Option<PathBuf>,
    /// Take entries for some repositories for the whole registry, and "*.corp" for every depth
    /// below corp.
    #[arg(long)]
    allow_widening: bool,
    #[command(flatten)]
    pub options: Options,
}

/// Files with their names.
type Contents = Vec<(String, Zeroizing<Vec<u8>>)>;

impl Arguments {
    pub fn read(&self) -> Result<Imported, CommandError> {
        let contents = self.contents()?;
        let namespace = self.namespace.as_deref();
        Ok(of_accounts(import(&files(&contents), namespace, self.widening())))
    }

    /// What is in each of the files.
    pub fn contents(&self) -> Result<Contents, CommandError> {
        self.options.target.require(&self.files)?;
        let contents = self.files.iter().map(|path| Ok((label(path), read_named(path, MAX)?)));
        contents.collect()
    }

    pub fn widening(&self) -> Widening {
        if self.allow_widening { Widening::Allowed } else { Widening::Refused }
    }
}

/// What offers of accounts are for the driver.
pub fn of_accounts(imported: secretgen::Imported) -> Imported {
    let secretgen::Imported { offers, mut findings, unread, faults, .. } = imported;
    findings.extend(unread.into_iter().map(|mut secret| {
        secret.text = format!("left out: {}", secret.text);
        secret
    }));
    let more = json!({"decisions": []});
    Imported {
        is_empty: offers.is_empty(),
        content: Content::Accounts(offers),
        findings,
        faults,
        more,
    }
}

pub fn files(contents: &Contents) -> Vec<SourceFile<'_>> {
    contents.iter().map(|(name, text)| SourceFile { name, text }).collect()
}
