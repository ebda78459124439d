//! `kata-configdev secrets combine`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use credential_sources::secret_manifest::{self, MAX_MANIFEST_BYTES, Object};
use credential_sources::secretgen::{combine, placeholder_namespaces};
use foreign_text::one_line;

use crate::cli::import::outcome::{self, label};
use crate::cli::{CommandError, UsageError};
use crate::host_file::{FileFault, HostFile, read_named};

/// The most bytes of all files together. Free to change.
const MAX_BYTES: usize = 8 * MAX_MANIFEST_BYTES;

/// The most files of a directory. Free to change.
const MAX_FILES: usize = 1024;

/// Combines the secrets that are exported to a namespace, as secretgen-controller does for a
/// placeholder.
///
/// MANIFESTS are directories with manifests (*.yaml, *.yml, *.json), files, or "-" for standard
/// input, as `kubectl get -o yaml` prints them: the secrets of type kubernetes.io/dockerconfigjson,
/// a SecretExport (secretgen.carvel.dev/v1alpha1) for each that others get, and where "*" or a
/// selector is used the Namespace. The result is the value of .dockerconfigjson, in the bytes that
/// the controller writes and without a line end. It is JSON already, so there is no --json; the
/// names of the secrets in it go to standard error.
///
/// Differences: values of the wrong type in fields that the result has not, text that is not UTF-8,
/// and more than 1024 entries in one secret are errors here; a hexadecimal weight counts as none.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev secrets combine --namespace kata manifests/ > dockerconfig.json
  kubectl get secrets,secretexports -A -o yaml |
    kata-configdev secrets combine --namespace kata - > dockerconfig.json
  kubectl -n kata create secret generic pull --type kubernetes.io/dockerconfigjson \\
    --from-file .dockerconfigjson=dockerconfig.json"
)]
pub struct Arguments {
    /// The directories and files with the manifests, or "-".
    #[arg(required = true, value_name = "MANIFESTS")]
    sources: Vec<PathBuf>,
    /// The namespace to combine for [default: that of the placeholder, a secret with the annotation
    /// secretgen.carvel.dev/image-pull-secret].
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

/// Combines the secrets in `arguments.sources`.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    outcome::require_one_stdin(&arguments.sources)?;
    let mut objects: Vec<Object> = Vec::new();
    let mut room = MAX_BYTES;
    for source in &arguments.sources {
        if !source.is_dir() {
            let text = read_named(source, MAX_MANIFEST_BYTES.min(room))?;
            room -= text.len();
            objects.extend(parsed(source, &text)?);
            continue;
        }
        for path in manifests(source)? {
            let text = HostFile::open(&path)
                .and_then(|file| file.read(MAX_MANIFEST_BYTES.min(room)))
                .map_err(|fault| fault.at(&path))?;
            room -= text.len();
            objects.extend(parsed(&path, &text)?);
        }
    }
    let namespace = match &arguments.namespace {
        Some(namespace) => namespace.as_str(),
        None => the_placeholders(&objects)?,
    };
    let combined = combine(&objects, namespace)?;
    let mut err = io::stderr().lock();
    for name in &combined.secret_names {
        let line = format!("note: combined for {namespace}: secret {name}");
        writeln!(err, "{}", one_line(&line))?;
    }
    out.write_all(&combined.json)?;
    Ok(0)
}

/// The objects of one file.
fn parsed(path: &Path, text: &[u8]) -> Result<Vec<Object>, CommandError> {
    secret_manifest::parse(text).map_err(|error| CommandError::Manifest {
        path: label(path).into(),
        reason: error.to_string(),
    })
}

/// The namespace of the only placeholder.
fn the_placeholders(objects: &[Object]) -> Result<&str, UsageError> {
    let mut namespaces = placeholder_namespaces(objects).into_iter();
    match (namespaces.next(), namespaces.next()) {
        (Some(namespace), None) => Ok(namespace),
        (Some(_), Some(_)) => {
            let rule = "there are placeholders in several namespaces";
            Err(UsageError::CombineNamespace(rule))
        }
        (None, _) => Err(UsageError::CombineNamespace("there is no placeholder")),
    }
}

/// The manifests of a directory by name. Hidden ones are left out: a Kubernetes volume keeps its
/// data in such.
fn manifests(directory: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let list = || -> Result<Vec<PathBuf>, FileFault> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            let is_hidden =
                path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
            let extension = path.extension().and_then(|extension| extension.to_str());
            if is_hidden || !matches!(extension, Some("yaml" | "yml" | "json")) {
                continue;
            }
            if paths.len() == MAX_FILES {
                return Err(FileFault::TooManyEntries(MAX_FILES));
            }
            paths.push(path);
        }
        paths.sort();
        Ok(paths)
    };
    Ok(list().map_err(|fault| fault.at(directory))?)
}
