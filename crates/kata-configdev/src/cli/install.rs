//! `kata-configdev install` and `uninstall`: the command line of the node installer.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use node_installer::log::{self, Format};
use node_installer::{Error, Options, Outcome};

use crate::settings::Settings;

/// Installs the wrapper, its settings, the document and Kata's drop-in on a node.
///
/// Meant for a DaemonSet (deploy/ has a chart and plain manifests), but works by hand too. The
/// document comes from a mounted Kubernetes secret, which need not exist. What is in place already
/// is not touched: a second run changes no file. A document that is not valid never replaces one
/// that is.
///
/// Docker configurations, such as mounted secrets of the type kubernetes.io/dockerconfigjson, add
/// their credentials where the document has none for a registry. One without entries adds nothing,
/// so that a placeholder can be filled later. One that is not valid keeps the document that is
/// installed.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev install --check --config installer.toml
  kata-configdev install --watch --log-format json --config /etc/installer/installer.toml
  kata-configdev install --config installer.toml --docker-config ~/.docker/config.json

deploy/README.md describes the configuration and what happens when."
)]
pub struct Install {
    #[command(flatten)]
    common: Common,
    /// Stay, install again whenever secret or node change, and answer /healthz and /readyz; ends at
    /// SIGTERM.
    #[arg(long)]
    watch: bool,
    /// Change nothing: read the configuration and that of Kata's handlers, and say what is wrong
    /// with them.
    #[arg(long, conflicts_with = "watch")]
    check: bool,
    /// A docker configuration for every set, behind those of the configuration; the last one that
    /// has a key counts. The directory of a mounted secret, or a file; may be given more than once.
    #[arg(long, value_name = "PATH")]
    docker_config: Vec<PathBuf>,
}

/// Removes everything that install put on the node, and nothing else.
///
/// A file that somebody changed since is left and named.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Uninstall {
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
struct Common {
    /// The installer's configuration.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
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
        let options = match self.options() {
            Ok(options) => options,
            Err(error) => return report(&error),
        };
        if self.check {
            return finish(Ok(node_installer::check(&options)), Outcome::tell);
        }
        if self.watch {
            return node_installer::watch::run(&options)
                .map_or_else(|error| report(&error), |()| 0);
        }
        finish(node_installer::install(&options), Outcome::report)
    }

    fn options(&self) -> Result<Options, Error> {
        let mut options = load(&self.common.config)?;
        let absolute = |path: &PathBuf| std::path::absolute(path);
        let paths: Vec<PathBuf> = self
            .docker_config
            .iter()
            .map(absolute)
            .collect::<Result<_, _>>()
            .map_err(|source| Error::DockerConfigPath { source })?;
        options.add_docker_configs(&paths)?;
        Ok(options)
    }
}

impl Uninstall {
    /// Runs the installer and returns the exit code.
    pub fn run(&self) -> u8 {
        self.common.start_log();
        let outcome =
            load(&self.common.config).and_then(|options| node_installer::uninstall(&options));
        finish(outcome, Outcome::report)
    }
}

impl Common {
    fn start_log(&self) {
        log::start(match self.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        });
    }
}

/// Reads the configuration. Settings that the wrapper would refuse are refused here.
fn load(path: &Path) -> Result<Options, Error> {
    Options::load(path, Settings::check_text)
}

fn finish(outcome: Result<Outcome, Error>, tell: impl Fn(&Outcome)) -> u8 {
    match outcome {
        Ok(outcome) => {
            tell(&outcome);
            outcome.exit_code()
        }
        Err(error) => report(&error),
    }
}

fn report(error: &Error) -> u8 {
    log::error(error);
    error.exit_code()
}
