//! `kata-configdev import certs.d`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use credential_sources::certs_d::{self, Directory, HOSTS_TOML, HostsToml, MAX_HOSTS_TOML_BYTES};
use registry_config::MAX_REGISTRIES;

use super::registry_file::{self, Options};
use crate::cli::CommandError;
use crate::host_file::FileFault;
use crate::node_root::NodeRoot;

/// Makes a document of the directories that containerd, Docker and podman have for registries.
///
/// Each directory is named after a registry: registry.corp, registry.corp:5000,
/// registry.corp_5000_, or _default for all others. hosts.toml (containerd) or *.crt (all three) in
/// it say how the registry is reached. Of the hosts in hosts.toml the first becomes the mirror.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev import certs.d /etc/containerd/certs.d > imagepuller.toml
  kata-configdev import certs.d --keep-system-roots /etc/docker/certs.d > imagepuller.toml
  kata-configdev import certs.d --into imagepuller.toml /etc/containerd/certs.d > new.toml
  kata-configdev import certs.d --root /host --strict --json /etc/containers/certs.d | jq .findings"
)]
pub struct Arguments {
    /// The directory with a directory for each registry.
    directory: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// Imports `arguments.directory`.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let Arguments { directory, options } = arguments;
    let root = NodeRoot::open(options.root.as_deref())?;
    let directories = directories(&root, directory)?;
    let import = certs_d::read(directories, &mut registry_file::reader(&root));
    registry_file::finish(import, &root, options, out)
}

/// The directories of all registries in a directory.
pub fn directories(root: &NodeRoot, directory: &Path) -> Result<Vec<Directory>, CommandError> {
    let names = list(root, directory)?.into_iter();
    names.map(|name| registry(root, directory.join(&name), name)).collect()
}

/// The directories in a directory; no more than a document has registries.
fn list(root: &NodeRoot, path: &Path) -> Result<Vec<String>, CommandError> {
    let entries = root.list(path).map_err(|fault| root.at(path, fault))?;
    let directories = entries.into_iter().filter(|entry| entry.is_directory);
    let names: Vec<_> = directories.map(|entry| entry.name).collect();
    if names.len() > MAX_REGISTRIES {
        return Err(root.at(path, FileFault::TooManyEntries(MAX_REGISTRIES)).into());
    }
    Ok(names)
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
