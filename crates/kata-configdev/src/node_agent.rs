//! What keeps a node right, for as long as it runs: passes of the installer, the disks of living
//! sandboxes, what sandboxes leave, and answers for whoever wants to know.
//!
//! The installer's configuration says which of these are done, because each needs something of the
//! node: [`Options::sandboxes`] the directories of sandboxes below `/run`, [`Options::providers`]
//! the kubelet's plugins and the network. Without them it is the installer and nothing else.
//!
//! It needs neither capabilities nor the node's processes: what a sandbox's disk is made of, and
//! whether the sandbox lives, its [record](crate::shared_image::record) says.
//!
//! - [`sandboxes`]: the disks of living sandboxes, and the leavings of others. [`rotation`]: what
//!   the kubelet's plugins add to them, asked again in time. `promises`: that the wrapper need not
//!   ask them. `count`: the numbers for a collector. [`probe_name`]: where a probe asks.

mod count;
mod promises;
mod remaining;
mod root_expiry;
pub mod rotation;
pub mod sandboxes;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use node_health::endpoint::{self, Detail};
use node_health::http::Server;
use node_health::{Numbers, Status, probe};
use node_installer::watch::{RESCAN, termination, watch};
use node_installer::{Error, Options, Outcome};

use self::promises::Promises;
use self::rotation::Rotation;
use crate::digest;

/// Without a pass for so long, the agent is stuck: it makes one at least every [`RESCAN`].
const MAX_SILENCE: Duration = RESCAN.saturating_mul(3);

/// When what did not work with a sandbox is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// How long a startup probe waits for the first pass: as long as `deploy/` gives it.
pub const START_WITHIN: Duration = Duration::from_secs(25);

/// Why the agent ends, as a fragment that fits after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The node cannot be looked after.
    #[error(transparent)]
    Installer(#[from] Error),
    /// Nobody could ask how it is.
    #[error(transparent)]
    Health(#[from] node_health::Error),
}

impl AgentError {
    /// The exit code of a program that ends with this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Installer(error) => error.exit_code(),
            Self::Health(_) => crate::exit::UNAVAILABLE,
        }
    }
}

/// Under which name the agent with the configuration `options` answers probes. The prefix belongs
/// to it alone.
#[must_use]
pub fn probe_name(options: &Options) -> String {
    let node = options.host.join(options.prefix.as_str().trim_start_matches('/'));
    let digest = digest::sha256(node.as_os_str().as_bytes());
    format!("kata-configdev-agent-{}", &digest[..16])
}

/// Keeps the node right until SIGTERM or SIGINT. The answer is the exit code: 0, or where
/// everything should go and something could not, that of the first problem.
///
/// # Errors
///
/// [`AgentError`]. What a pass finds wrong is none: it is logged, and makes the node not ready.
pub fn run(options: &Options) -> Result<u8, AgentError> {
    let stop = termination()?;
    let status = Status::new(MAX_SILENCE);
    let _servers = answer(options, &status)?;
    let mut agent = Agent {
        options,
        status,
        answers_probes: false,
        rotation: Rotation::default(),
        promises: Promises::default(),
        numbers: Numbers::default(),
    };
    if let Some(why) = agent.answer_probes() {
        tracing::warn!("{why}");
    }
    let calls = Promises::places(options);
    Ok(watch(options, &calls, stop, |outcome| agent.after_pass(outcome))?)
}

/// Lets everybody ask who may.
fn answer(options: &Options, status: &Status) -> Result<Vec<Server>, AgentError> {
    let detail = match options.is_on_host_network() {
        true => Detail::Verdict,
        false => Detail::Reason,
    };
    let mut servers = Vec::new();
    if let Some(address) = options.listen {
        let server = endpoint::health(address, status, detail)?;
        tracing::info!("answering health checks on {}", server.address());
        servers.push(server);
    }
    if let Some(address) = metrics_address(options) {
        let server = endpoint::metrics(address, status)?;
        tracing::info!("answering /metrics on {}", server.address());
        servers.push(server);
    }
    Ok(servers)
}

/// Where metrics are had: everywhere within the pod's own network, where a policy says who may ask,
/// and on the node's own network only by who is on the node, unless an address is named.
fn metrics_address(options: &Options) -> Option<SocketAddr> {
    let own = match options.is_on_host_network() {
        true => IpAddr::V4(Ipv4Addr::LOCALHOST),
        false => options.listen.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |listen| listen.ip()),
    };
    let address = options.metrics_address.unwrap_or(own);
    Some(SocketAddr::new(address, options.metrics_port?))
}

struct Agent<'o> {
    options: &'o Options,
    status: Status,
    answers_probes: bool,
    rotation: Rotation,
    promises: Promises,
    /// What is counted over all passes; the rest is of the last one.
    numbers: Numbers,
}

impl Agent<'_> {
    /// Answers probes, unless somebody has taken the name: the predecessor that is about to end, or
    /// another user where the network is the node's. That must not end this; the answer is why it
    /// has to be tried again.
    fn answer_probes(&mut self) -> Option<String> {
        if self.answers_probes {
            return None;
        }
        let answered = probe::answer(&probe_name(self.options), &self.status, START_WITHIN);
        self.answers_probes = answered.is_ok();
        answered.err().map(|error| format!("failed to {error}"))
    }

    /// What is done after each pass of the installer; gives the time until the next one at the
    /// latest.
    fn after_pass(&mut self, outcome: &mut Outcome) -> Duration {
        let mut failed = 0;
        if self.options.sandboxes {
            let looked = sandboxes::keep(self.options, &mut self.rotation);
            if looked.updated > 0 {
                tracing::info!("updated the disks of living sandboxes: {}", looked.updated);
            }
            if looked.swept > 0 {
                tracing::info!("removed what sandboxes left: {}", looked.swept);
            }
            self.numbers.updated += looked.updated;
            self.numbers.update_failures += looked.failed;
            failed = looked.failed;
            self.numbers.swept += looked.swept;
            self.numbers.sandboxes = looked.sandboxes;
            outcome.warnings.extend(looked.warnings);
            outcome.warnings.extend(looked.remaining);
        }
        outcome.warnings.extend(self.answer_probes());
        outcome.warnings.extend(self.rotation.warnings());
        self.numbers.providers = self.rotation.numbers(self.options);
        self.numbers.passes += 1;
        count::node(self.options, &mut self.numbers);
        let problems: Vec<String> = outcome.problems.iter().flat_map(Error::lines).collect();
        self.numbers.problems = outcome.problems.len();
        self.status.note(problems, self.numbers.clone());
        // Last, because a plugin may hang. Who relies on a promise calls after it was given.
        self.promises.keep(self.options, &mut self.rotation);
        match failed {
            0 => self.rotation.due(),
            _ => self.rotation.due().min(AGAIN_AFTER),
        }
    }
}
