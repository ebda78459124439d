//! `kata-configdev import registries-yaml`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use credential_sources::registries_yaml::{self, MAX_REGISTRIES_YAML_BYTES};

use super::registry_file::{self, Options};
use crate::cli::CommandError;
use crate::node_root::NodeRoot;

/// Makes a document of the registries.yaml of K3s or RKE2.
///
/// Of several endpoints the first becomes the mirror. As K3s does, the document has the registry
/// itself asked where the mirror fails; take mirror-fallback out if the node runs
/// with --disable-default-registry-endpoint.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev import registries-yaml /etc/rancher/k3s/registries.yaml > imagepuller.toml
  kata-configdev import registries-yaml --strict /etc/rancher/rke2/registries.yaml > new.toml
  decrypt-my-registries | kata-configdev import registries-yaml -"
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
    let text = registry_file::input(file, &root, MAX_REGISTRIES_YAML_BYTES)?;
    let source = file.to_string_lossy();
    let import = registries_yaml::read(&text, &source, &mut registry_file::reader(&root));
    registry_file::finish(import, &root, options, out)
}
