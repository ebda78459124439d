//! `kata-configdev import registries-conf`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use credential_sources::registries_conf::{self, MAX_REGISTRIES_CONF_BYTES};

use super::registry_file::{self, Options};
use crate::cli::CommandError;
use crate::node_root::NodeRoot;

/// Makes a document of the registries.conf (version 2) of podman, CRI-O, skopeo or buildah.
///
/// Taken over are whole hosts with their mirrors, insecure and blocked ones, and tables for some
/// repositories where mirrors with a prefix can say the same. Certificates are in another place:
/// see import certs.d.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev import registries-conf /etc/containers/registries.conf > imagepuller.toml
  kata-configdev import registries-conf --json /etc/containers/registries.conf | jq .findings"
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
    let text = registry_file::input(file, &root, MAX_REGISTRIES_CONF_BYTES)?;
    let import = registries_conf::read(&text, &file.to_string_lossy());
    registry_file::finish(import, &root, options, out)
}
