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
    #[command(flatten)]
    pub node: Node,
}

/// The options of each kind.
#[derive(Args, Debug)]
pub struct Node {
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
    pub fn files(&self) -> &[PathBuf] {
        std::slice::from_ref(&self.file)
    }

    pub fn certs_d(&self) -> Result<Imported, CommandError> {
        let root = self.node.open([])?;
        self.node.certs_d(&root, &self.file)
    }

    pub fn containerd_config(&self) -> Result<Imported, CommandError> {
        let root = self.node.open([&self.file])?;
        let text = input(&root, &self.file, MAX_CONTAINERD_CONFIG_BYTES)?;
        let loss = if self.file == Path::new("-") { Loss::Note } else { Loss::Lost };
        self.node.containerd_config(&root, &text, &label(&self.file), Some(loss))
    }

    pub fn registries_yaml(&self) -> Result<Imported, CommandError> {
        let root = self.node.open([&self.file])?;
        self.node.registries_yaml(&root, &self.file)
    }

    pub fn registries_conf(&self) -> Result<Imported, CommandError> {
        let root = self.node.open([&self.file])?;
        self.node.registries_conf(&root, &self.file)
    }
}

impl Node {
    /// The node, whose `files` are arguments.
    pub fn open<'a>(
        &'a self,
        files: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Result<NodeRoot, CommandError> {
        self.options.target.require(files)?;
        Ok(NodeRoot::open(self.root.as_deref())?)
    }

    pub fn certs_d(&self, root: &NodeRoot, path: &Path) -> Result<Imported, CommandError> {
        let directories = directories(root, path)?;
        let is_one = directories.is_empty() && !root.is_missing(&path.join(HOSTS_TOML));
        let mut import = certs_d::read(directories, &mut reader(root));
        if is_one {
            let text = "it is the directory of one registry; give the one that it lies in";
            import.report.faults.push(Finding::new(&label(path), "", Loss::Lost, text));
        }
        self.imported(import, root)
    }

    /// Of what `containerd config dump` prints, or of a file.
    pub fn containerd_config(
        &self,
        root: &NodeRoot,
        text: &[u8],
        source: &str,
        loss: Option<Loss>,
    ) -> Result<Imported, CommandError> {
        let config = containerd_config::read(text, source, loss);
        let paths = config.config_paths().into_iter().filter(|path| !root.is_missing(path));
        let all: Result<_, _> = paths.map(|path| directories(root, &path)).collect();
        self.imported(config.import(all?, &mut reader(root)), root)
    }

    pub fn registries_yaml(&self, root: &NodeRoot, file: &Path) -> Result<Imported, CommandError> {
        let text = input(root, file, MAX_REGISTRIES_YAML_BYTES)?;
        let import = registries_yaml::read(&text, &file.to_string_lossy(), &mut reader(root));
        self.imported(import, root)
    }

    pub fn registries_conf(&self, root: &NodeRoot, file: &Path) -> Result<Imported, CommandError> {
        let text = input(root, file, MAX_REGISTRIES_CONF_BYTES)?;
        self.imported(registries_conf::read(&text, &file.to_string_lossy()), root)
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
        content: Content::Configs(vec![(document, sources)]),
        findings,
        faults,
        more: json!({"unlisted": unlisted}),
    }
}

/// A file of the node, or standard input for `-`.
pub fn input(
    root: &NodeRoot,
    path: &Path,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>, CommandError> {
    if path == Path::new("-") {
        let content = read_stream(io::stdin().lock(), limit);
        return Ok(content.map_err(|error| FileFault::from(error).at(label(path)))?);
    }
    Ok(root.read(path, limit).map_err(|fault| root.at(path, fault))?)
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
    Ok(names.into_iter().map(|name| registry(root, path.join(&name), name)).collect())
}

fn registry(root: &NodeRoot, path: PathBuf, name: String) -> Directory {
    let entries = match root.list(&path) {
        Ok(entries) => entries,
        Err(fault) => {
            let hosts_toml = Some(Err(fault.to_string()));
            return Directory { name, path, hosts_toml, files: Vec::new() };
        }
    };
    let files = entries.into_iter();
    // A directory in the place of a file that counts cannot be read, which is told.
    let files = files.filter(|entry| !entry.is_directory || certs_d::counts(&entry.name));
    let mut files: Vec<_> = files.map(|entry| entry.name).collect();
    let hosts_toml = files.iter().position(|name| name == HOSTS_TOML);
    let hosts_toml = hosts_toml.map(|index| {
        let content = root.read(&path.join(files.swap_remove(index)), MAX_HOSTS_TOML_BYTES);
        content.map(HostsToml).map_err(|fault| format!("{HOSTS_TOML}: {fault}"))
    });
    Directory { name, path, hosts_toml, files }
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
