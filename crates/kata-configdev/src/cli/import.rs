//! `kata-configdev import`: other people's files in, a document out.

mod by_namespace;
mod cdh;
mod decryption_secret;
mod docker_config;
mod node;
mod node_file;
pub(super) mod outcome;
pub(super) mod target;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use credential_sources::{Finding, Loss};
use registry_config::MAX_DOCUMENT_BYTES;

use crate::cli::{CommandError, foreign_kind};
use crate::host_file::read_named;

/// Makes a document of files that others use: credentials, CA certificates, mirrors, proxies,
/// decryption keys.
///
/// The document goes to standard output, with the secrets of the files, or with --output into a
/// file of mode 0600. With --into it goes into the document that is added to, which loses its
/// comments. What could not be taken over as it stands goes to standard error.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Import {
    #[command(subcommand)]
    kind: Kind,
}

/// What the argument of `certs.d` is.
const CERTS_D: &str = "The directory with a directory for each registry";

#[derive(Debug, Subcommand)]
enum Kind {
    DockerConfig(docker_config::Arguments),
    DecryptionSecret(decryption_secret::Arguments),
    /// Makes a document of the directories that containerd, Docker and podman have for registries.
    ///
    /// Each directory is named after a registry: registry.corp, registry.corp:5000,
    /// registry.corp_5000_, or _default for all others. hosts.toml (containerd) or *.crt (all
    /// three) in it say how the registry is reached. Of the hosts in hosts.toml the first becomes
    /// the mirror.
    #[command(
        name = "certs.d",
        verbatim_doc_comment,
        mut_arg("file", |file| file.value_name("DIRECTORY").help(CERTS_D)),
        after_help = "\
Examples:
  kata-configdev import certs.d --output imagepuller.toml /etc/containerd/certs.d
  kata-configdev import certs.d --keep-system-roots /etc/docker/certs.d > imagepuller.toml
  kata-configdev import certs.d --into imagepuller.toml /etc/containerd/certs.d
  kata-configdev import certs.d --root /host --strict --json /etc/containers/certs.d | jq .findings"
    )]
    CertsD(node_file::Arguments),
    /// Makes a document of containerd's config.toml, of version 1, 2, 3 or 4: the registries of its
    /// CRI plugin.
    ///
    /// The directories of config_path are read as import certs.d does, and beside it only the
    /// credentials of the file count. Files that it imports are not read: "containerd config dump"
    /// prints all of them as one, which import node takes.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  kata-configdev import containerd-config --output imagepuller.toml /etc/containerd/config.toml
  kata-configdev import containerd-config --root /host --strict /etc/containerd/config.toml
  containerd config dump | kata-configdev import containerd-config --output imagepuller.toml -"
    )]
    ContainerdConfig(node_file::Arguments),
    /// Makes a document of the registries.yaml of K3s or RKE2.
    ///
    /// Of several endpoints the first becomes the mirror. As K3s does, the document has the
    /// registry itself asked where the mirror fails; take mirror-fallback out if the node runs with
    /// --disable-default-registry-endpoint.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  kata-configdev import registries-yaml --output new.toml /etc/rancher/k3s/registries.yaml
  kata-configdev import registries-yaml --strict /etc/rancher/rke2/registries.yaml > new.toml
  decrypt-my-registries | kata-configdev import registries-yaml -"
    )]
    RegistriesYaml(node_file::Arguments),
    /// Makes a document of the registries.conf (version 2) of podman, CRI-O, skopeo or buildah.
    ///
    /// Taken over are whole hosts with their mirrors, insecure and blocked ones, and tables for
    /// some repositories where mirrors with a prefix can say the same. Certificates are in another
    /// place: see import certs.d.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  kata-configdev import registries-conf --output imagepuller.toml /etc/containers/registries.conf
  kata-configdev import registries-conf --json /etc/containers/registries.conf | jq .findings"
    )]
    RegistriesConf(node_file::Arguments),
    Node(node::Arguments),
    Cdh(cdh::Arguments),
}

impl Kind {
    /// The command, and the files that it is given.
    fn files(&self) -> (&'static str, &[PathBuf]) {
        match self {
            Self::DockerConfig(of) => ("import docker-config", &of.files),
            Self::DecryptionSecret(of) => ("import decryption-secret", &of.files),
            Self::CertsD(of) => ("import certs.d", of.files()),
            Self::ContainerdConfig(of) => ("import containerd-config", of.files()),
            Self::RegistriesYaml(of) => ("import registries-yaml", of.files()),
            Self::RegistriesConf(of) => ("import registries-conf", of.files()),
            Self::Node(of) => ("import node --shown", of.shown.as_slice()),
            // It tells its neighbours apart itself.
            Self::Cdh(_) => ("import cdh", &[]),
        }
    }
}

/// Imports what `arguments` name.
pub fn run(arguments: &Import, out: &mut impl Write) -> Result<u8, CommandError> {
    let (options, mut imported) = match &arguments.kind {
        Kind::DockerConfig(of) => match &of.by_namespace {
            Some(directory) => return by_namespace::run(of, directory, out),
            None => (&of.options, of.read()?),
        },
        Kind::DecryptionSecret(of) => (&of.options, of.read()?),
        Kind::CertsD(of) => (&of.node.options, of.certs_d()?),
        Kind::ContainerdConfig(of) => (&of.node.options, of.containerd_config()?),
        Kind::RegistriesYaml(of) => (&of.node.options, of.registries_yaml()?),
        Kind::RegistriesConf(of) => (&of.node.options, of.registries_conf()?),
        Kind::Node(of) => (&of.node.options, of.read()?),
        Kind::Cdh(of) => (&of.options, of.read()?),
    };
    let (command, files) = arguments.kind.files();
    let files = if imported.has_nothing() { files } else { &[] };
    for file in files.iter().filter(|file| file.is_file()) {
        let told = read_named(file, MAX_DOCUMENT_BYTES).ok();
        let told = told.and_then(|text| foreign_kind::told_by_import(&text, command));
        let fault = |told| Finding::new(&outcome::label(file), "", Loss::Lost, told);
        imported.faults.extend(told.map(fault));
    }
    imported.finish(options, out)
}
