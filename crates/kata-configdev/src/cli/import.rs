//! `kata-configdev import`: other people's files in, a document out.

mod by_namespace;
mod cdh;
mod certs_d;
mod containerd_config;
mod decryption_secret;
mod docker_config;
pub(super) mod outcome;
mod proxy_environment;
mod registries_conf;
mod registries_yaml;
mod registry_file;

use std::io::Write;

use clap::{Args, Subcommand};

use crate::cli::CommandError;

/// Makes a document of files that others use: credentials, CA certificates, mirrors, proxies,
/// decryption keys.
///
/// The document goes to standard output, with the secrets of the files; what could not be taken
/// over as it stands goes to standard error.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Import {
    #[command(subcommand)]
    source: Source,
}

#[derive(Debug, Subcommand)]
enum Source {
    DockerConfig(docker_config::Arguments),
    DecryptionSecret(decryption_secret::Arguments),
    #[command(name = "certs.d")]
    CertsD(certs_d::Arguments),
    ContainerdConfig(containerd_config::Arguments),
    RegistriesYaml(registries_yaml::Arguments),
    RegistriesConf(registries_conf::Arguments),
    ProxyEnvironment(proxy_environment::Arguments),
    Cdh(cdh::Arguments),
}

/// Imports what `arguments` name.
pub fn run(arguments: &Import, out: &mut impl Write) -> Result<u8, CommandError> {
    match &arguments.source {
        Source::DockerConfig(arguments) => docker_config::run(arguments, out),
        Source::DecryptionSecret(arguments) => decryption_secret::run(arguments, out),
        Source::CertsD(arguments) => certs_d::run(arguments, out),
        Source::ContainerdConfig(arguments) => containerd_config::run(arguments, out),
        Source::RegistriesYaml(arguments) => registries_yaml::run(arguments, out),
        Source::RegistriesConf(arguments) => registries_conf::run(arguments, out),
        Source::ProxyEnvironment(arguments) => proxy_environment::run(arguments, out),
        Source::Cdh(arguments) => cdh::run(arguments, out),
    }
}
