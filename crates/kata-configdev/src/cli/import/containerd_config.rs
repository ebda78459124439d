//! `kata-configdev import containerd-config`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use credential_sources::containerd_config::{self, MAX_CONTAINERD_CONFIG_BYTES};

use super::certs_d;
use super::outcome::label;
use super::registry_file::{self, Options};
use crate::cli::CommandError;
use crate::host_file::FileFault;
use crate::node_root::NodeRoot;

/// Makes a document of containerd's config.toml, of version 1, 2, 3 or 4: the registries of its CRI
/// plugin.
///
/// Files that it imports are read as containerd does, and the directories of config_path as import
/// certs.d does. Beside config_path, only the credentials of the file count. From standard input no
/// other file is imported: "containerd config dump" has them in it.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  umask 077
  kata-configdev import containerd-config /etc/containerd/config.toml > imagepuller.toml
  kata-configdev import containerd-config --root /host --strict /etc/containerd/config.toml
  containerd config dump | kata-configdev import containerd-config - > imagepuller.toml"
)]
pub struct Arguments {
    /// The file, or "-" for standard input.
    file: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// Imports `arguments.file`.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let Arguments { file, options } = arguments;
    options.require_one_stdin(file)?;
    let root = NodeRoot::open(options.root.as_deref())?;
    let text = registry_file::input(file, &root, MAX_CONTAINERD_CONFIG_BYTES)?;
    let path = match file.as_path() == Path::new("-") {
        true => None,
        false => Some(root.absolute(file).map_err(|error| FileFault::from(error).at(file))?),
    };
    let config = containerd_config::read(&text, &label(file), path.as_deref(), &mut &root);
    let mut directories = Vec::new();
    for path in config.config_paths() {
        if !root.is_missing(&path) {
            directories.push(certs_d::directories(&root, &path)?);
        }
    }
    let import = config.import(directories, &mut registry_file::reader(&root));
    registry_file::finish(import, &root, options, out)
}
