//! `kata-configdev install` and `uninstall`: the command line of the node installer.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use node_installer::log::{self, Format};
use node_installer::{Error, Options, Outcome};

use crate::node_agent;
use crate::settings::RULES;

/// Installs the wrapper, its settings, the document and Kata's drop-in on a node.
///
/// Works by hand; node-agent does the same and stays. The
/// document comes from a mounted Kubernetes secret, which need not exist. What is in place already
/// is not touched: a second run changes no file. A document that is not valid never replaces one
/// that is.
///
/// Docker configurations, such as mounted secrets of the type kubernetes.io/dockerconfigjson, add
/// their credentials where the document has none for a registry. One without entries adds nothing,
/// so that a placeholder can be filled later. One that is not valid, or has entries of which none
/// can be used, keeps the document that is installed.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev install --check --config installer.toml
  kata-configdev install --log-format json --config /etc/installer/installer.toml
  kata-configdev install --config installer.toml --docker-config ~/.docker/config.json

deploy/README.md describes the configuration and what happens when."
)]
pub struct Install {
    #[command(flatten)]
    common: Common,
    /// Change nothing: make the pass without writing, with its exit code. The last line says what
    /// it would install.
    #[arg(long)]
    check: bool,
    /// With --check, read the configuration alone, which is for another machine, and the settings
    /// that the wrapper would get.
    #[arg(long, requires = "check")]
    without_node: bool,
    /// Install nothing and remove everything, as with a configuration without sets.
    #[arg(long)]
    remove: bool,
    /// A docker configuration for every set, behind those of the configuration; the last one that
    /// has a key counts. The directory of a mounted secret, or a file; may be given more than once.
    #[arg(long, value_name = "PATH")]
    docker_config: Vec<PathBuf>,
}

/// Removes everything that install put on the node, and nothing else.
///
/// A file that somebody changed since is left and named, each time until somebody removes or
/// renames it; the exit code is 65 then.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Uninstall {
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
pub(super) struct Common {
    /// The installer's configuration.
    #[arg(long, value_name = "FILE")]
    pub(super) config: PathBuf,
    /// How the log is written, to standard error.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Install {
    /// Runs the installer and returns the exit code.
    pub fn run(&self) -> u8 {
        self.common.start_log();
        let options = match options(&self.common, &self.docker_config, self.remove) {
            Ok(options) => options,
            Err(error) => return report(&error),
        };
        if self.without_node {
            tracing::info!("the configuration is valid; no node was looked at");
            return 0;
        }
        match (self.check, self.remove) {
            (true, _) => finish(node_installer::check(&options)),
            (false, true) => finish_removal(node_installer::install(&options), &options),
            (false, false) => finish(node_installer::install(&options)),
        }
    }
}

/// Keeps the node right until it is asked to end, and returns the exit code.
pub(super) fn keep(common: &Common, docker_config: &[PathBuf], remove: bool) -> u8 {
    common.start_log();
    let options = match options(common, docker_config, remove) {
        Ok(options) => options,
        Err(error) => return report(&error),
    };
    match node_agent::run(&options) {
        Ok(code) => code,
        Err(error) => {
            tracing::error!("failed to {error}");
            error.exit_code()
        }
    }
}

fn options(common: &Common, docker_config: &[PathBuf], remove: bool) -> Result<Options, Error> {
    let mut options = load(&common.config)?;
    let paths = docker_config.iter().map(std::path::absolute);
    let paths: Vec<PathBuf> =
        paths.collect::<Result<_, _>>().map_err(|source| Error::DockerConfigPath { source })?;
    options.add_docker_configs(&paths)?;
    if remove {
        options.sets.clear();
    }
    Ok(options)
}

impl Uninstall {
    /// Runs the installer and returns the exit code.
    pub fn run(&self) -> u8 {
        self.common.start_log();
        match load(&self.common.config) {
            Ok(options) => finish_removal(node_installer::uninstall(&options), &options),
            Err(error) => report(&error),
        }
    }
}

/// Removes what dead sandboxes and credential providers left below `/run`. Where something stays,
/// the last line says how it goes.
fn finish_removal(outcome: Result<Outcome, Error>, options: &Options) -> u8 {
    let outcome = outcome.map(|mut outcome| {
        let looked = node_agent::sandboxes::leave(options);
        outcome.warnings.extend(looked.warnings);
        (outcome, looked.remaining)
    });
    match outcome {
        Ok((outcome, remaining)) if remaining.is_empty() => finish(Ok(outcome)),
        Ok((outcome, remaining)) => {
            outcome.tell();
            for line in remaining {
                tracing::warn!("{line}");
            }
            outcome.exit_code()
        }
        Err(error) => report(&error),
    }
}

impl Common {
    pub(super) fn start_log(&self) {
        log::start(match self.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        });
    }
}

/// Reads the configuration. Settings that the wrapper would refuse are refused here.
pub(super) fn load(path: &Path) -> Result<Options, Error> {
    Options::load(path, RULES)
}

fn finish(outcome: Result<Outcome, Error>) -> u8 {
    match outcome {
        Ok(outcome) => {
            outcome.report();
            outcome.exit_code()
        }
        Err(error) => report(&error),
    }
}

pub(super) fn report(error: &Error) -> u8 {
    log::error(error);
    error.exit_code()
}
