//! `kata-configdev node-agent`: what keeps a node right.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use node_health::probe::{Question, ask};

use super::CommandError;
use super::install::{Common, keep, load, report};
use crate::exit;
use crate::node_agent::{self, START_WITHIN};

/// Keeps a node right until it is asked to end.
///
/// It installs what install installs, and again whenever a secret or Kata's configuration changes.
/// Where the configuration says so, it also updates the disks of running sandboxes when their
/// document changes, removes what sandboxes leave, asks the kubelet's credential providers again
/// before their answers expire, and answers /healthz, /readyz and /metrics. Ends at SIGTERM; what
/// is installed stays.
///
/// With --probe it asks the agent that runs with the same configuration in the same container, and
/// prints the answer: the exit code is 0 for yes and 69 for no.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev node-agent --config /etc/kata-configdev/agent.toml
  kata-configdev node-agent --probe ready --config /etc/kata-configdev/agent.toml

deploy/README.md describes the configuration, and what each task needs of the node."
)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// A docker configuration for every set, behind those of the configuration; see install.
    #[arg(long, value_name = "PATH")]
    docker_config: Vec<PathBuf>,
    /// Install nothing and remove everything, as with a configuration without sets.
    #[arg(long, conflicts_with = "probe")]
    remove: bool,
    /// Ask the agent that runs instead: whether its first pass has ended, for which the answer
    /// waits; or whether the node is ready.
    #[arg(long, value_enum, value_name = "QUESTION", conflicts_with = "docker_config")]
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Probe {
    /// Whether the first pass has ended, whatever it found.
    Started,
    /// Whether the node is as it should be; if not, why.
    Ready,
}

impl Arguments {
    /// Runs the agent, or asks it, and returns the exit code.
    pub fn run(&self, out: &mut impl Write) -> Result<u8, CommandError> {
        let Some(probe) = self.probe else {
            return Ok(keep(&self.common, &self.docker_config, self.remove));
        };
        self.common.start_log();
        let options = match load(&self.common.config) {
            Ok(options) => options,
            Err(error) => return Ok(report(&error)),
        };
        let (question, patience) = match probe {
            Probe::Started => (Question::Started, START_WITHIN),
            Probe::Ready => (Question::Ready, Duration::ZERO),
        };
        let verdict = ask(&node_agent::probe_name(&options), question, patience);
        write!(out, "{}", verdict.reason)?;
        Ok(if verdict.good { 0 } else { exit::UNAVAILABLE })
    }
}
