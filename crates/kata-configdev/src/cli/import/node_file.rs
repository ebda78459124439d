//! The files that container engines of a node have for registries: a reader for each kind.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use credential_sources::certs_d::{self, Directory, HOSTS_TOML, HostsToml, MAX_HOSTS_TOML_BYTES};
use credential_sources::containerd_config::{self, MAX_CONTAINERD_CONFIG_BYTES};
use credential_sources::registries_conf::{self, MAX_REGISTRIES_CONF_BYTES};
use credential_sources::registries_yaml::{self, MAX_REGISTRIES_YAML_BYTES};
use credential_sources::registry_file::{Import, MAX_CA_FILE_BYTES, Report, Written, certificates};
use credential_sources::{Finding, Loss};
use foreign_text::bounded::read_stream;
use registry_config::{Document, MAX_REGISTRIES, Roots};
use serde_json::json;
use zeroize::Zeroizing;

use super::outcome::{Content, Imported, Options, Sources, label};
use crate::cli::CommandError;
use crate::host_file::FileFault;
use crate::node_root::NodeRoot;

/// The arguments of each kind.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The file, or "-" for standard input.
    file: PathBuf,
    /// Take files from this directory as if it were "/": a node's file system, mounted elsewhere.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
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
    pub options: Options,
}

impl Arguments {
    pub fn certs_d(&self) -> Result<Imported, CommandError> {
        self.options.target.require([])?;
        let root = NodeRoot::open(self.root.as_deref())?;
        let path = &self.file;
        let directories = directories(&root, path)?;
        let is_one = directories.is_empty() && !root.is_missing(&path.join(HOSTS_TOML));
        let mut import = certs_d::read(directories, &mut reader(&root));
        if is_one {
            let text = "it is the directory of one registry; give the one that it lies in";
            import.report.faults.push(Finding::new(&label(path), "", Loss::Lost, text));
        }
        self.imported(import, &root)
    }

    pub fn containerd_config(&self) -> Result<Imported, CommandError> {
        let (root, text) = self.open(MAX_CONTAINERD_CONFIG_BYTES)?;
        let file = &self.file;
        let path = match file.as_path() == Path::new("-") {
            true => None,
            false => Some(root.absolute(file).map_err(|error| FileFault::from(error).at(file))?),
        };
        let config = containerd_config::read(&text, &label(file), path.as_deref(), &mut &root);
        let mut all = Vec::new();
        for path in config.config_paths() {
            if !root.is_missing(&path) {
                all.push(directories(&root, &path)?);
            }
        }
        self.imported(config.import(all, &mut reader(&root)), &root)
    }

    pub fn registries_yaml(&self) -> Result<Imported, CommandError> {
        let (root, text) = self.open(MAX_REGISTRIES_YAML_BYTES)?;
        let source = self.file.to_string_lossy();
        self.imported(registries_yaml::read(&text, &source, &mut reader(&root)), &root)
    }

    pub fn registries_conf(&self) -> Result<Imported, CommandError> {
        let (root, text) = self.open(MAX_REGISTRIES_CONF_BYTES)?;
        self.imported(registries_conf::read(&text, &self.file.to_string_lossy()), &root)
    }

    /// The node, and the file of it, or standard input for `-`.
    fn open(&self, limit: usize) -> Result<(NodeRoot, Zeroizing<Vec<u8>>), CommandError> {
        let path = &self.file;
        self.options.target.require([path])?;
        let root = NodeRoot::open(self.root.as_deref())?;
        let text = if path.as_path() == Path::new("-") {
            let content = read_stream(io::stdin().lock(), limit);
            content.map_err(|error| FileFault::from(error).at(label(path)))?
        } else {
            root.read(path, limit).map_err(|fault| root.at(path, fault))?
        };
        Ok((root, text))
    }

    /// What the files say, with the system's roots where those are wanted.
    fn imported(&self, mut import: Import, root: &NodeRoot) -> Result<Imported, CommandError> {
        let has_roots = import.entries.iter().any(|entry| entry.roots().is_some());
        let system_roots = match self.keep_system_roots && has_roots {
            true => Some(system_roots(&self.system_roots, root, &mut import.report)?),
            false => None,
        };
        let named = import.entries.iter();
        let sources = named.map(|entry| (Some(entry.name.clone()), entry.source.clone())).collect();
        Ok(of_written(import.write(system_roots.as_ref()), sources))
    }
}

/// A document that was written, as one to import.
pub fn of_written(Written { document, report }: Written, sources: Sources) -> Imported {
    let Report { findings, mut faults, unlisted } = report;
    let parsed = document.map(|text| Document::parse(text.expose().as_bytes()));
    let document = match parsed {
        Some(Ok(checked)) => checked.document,
        Some(Err(problems)) => {
            faults.extend(problems.iter().map(|problem| {
                Finding::new("the document", &problem.key, Loss::Lost, problem.rule.to_string())
            }));
            Document::default()
        }
        None => Document::default(),
    };
    Imported {
        is_empty: document.written_bytes() == 0,
        content: Content::Config(Box::new(document), sources),
        findings,
        faults,
        more: json!({"unlisted": unlisted}),
    }
}

/// Reads files that other files name.
fn reader(root: &NodeRoot) -> impl FnMut(&Path) -> Result<Zeroizing<Vec<u8>>, String> + '_ {
    |path| root.read(path, MAX_CA_FILE_BYTES).map_err(|fault: FileFault| fault.to_string())
}

/// The directories of all registries in a directory; no more than a document has registries.
fn directories(root: &NodeRoot, path: &Path) -> Result<Vec<Directory>, CommandError> {
    let entries = root.list(path).map_err(|fault| root.at(path, fault))?;
    let directories = entries.into_iter().filter(|entry| entry.is_directory);
    let names: Vec<_> = directories.map(|entry| entry.name).collect();
    if names.len() > MAX_REGISTRIES {
        return Err(root.at(path, FileFault::TooManyEntries(MAX_REGISTRIES)).into());
    }
    names.into_iter().map(|name| registry(root, path.join(&name), name)).collect()
}

fn registry(root: &NodeRoot, path: PathBuf, name: String) -> Result<Directory, CommandError> {
    let entries = root.list(&path).map_err(|fault| root.at(&path, fault))?;
    let mut files = entries
        .into_iter()
        .filter(|entry| !entry.is_directory)
        .map(|entry| entry.name)
        .collect::<Vec<_>>();
    let hosts_toml = match files.iter().position(|name| name == HOSTS_TOML) {
        Some(index) => {
            let file = path.join(files.swap_remove(index));
            let content = root.read(&file, MAX_HOSTS_TOML_BYTES);
            Some(HostsToml(content.map_err(|fault| root.at(&file, fault))?))
        }
        None => None,
    };
    Ok(Directory { name, path, hosts_toml, files })
}

/// The system's certificates; what is wrong with them is a fault of the import.
fn system_roots(path: &Path, root: &NodeRoot, report: &mut Report) -> Result<Roots, CommandError> {
    let bytes = root.read(path, MAX_CA_FILE_BYTES).map_err(|fault| root.at(path, fault))?;
    let source = path.to_string_lossy();
    match certificates(&bytes) {
        Ok((roots, 0)) => Ok(roots),
        Ok((roots, count)) => {
            let text = format!("what is no certificate is left out: {count} of its blocks");
            report.findings.push(Finding::new(&source, "", Loss::Note, text));
            Ok(roots)
        }
        Err(reason) => {
            report.faults.push(Finding::new(&source, "", Loss::Lost, reason.to_owned()));
            Ok(Roots::default())
        }
    }
}
