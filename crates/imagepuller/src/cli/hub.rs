//! `imagepuller hub`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{EX_SOFTWARE, fail, terminated};
use crate::error::chain;
use crate::hub::configuration::Moved;
use crate::hub::{self};

/// Stand in the confidential data hub's place until SIGTERM.
///
/// Listens where the hub is configured to (by default /run/confidential-containers/cdh.sock), with
/// mode 0600, and relays image pulls to `imagepuller serve` and all other calls to the real hub.
/// Both may be restarted without their callers losing the connection. The hub's own configuration,
/// with its socket moved to upstream-cdh.sock beside, is written to upstream-cdh.toml there.
///
/// Starts neither: that is for systemd or the init. The agent must not start a hub itself: the
/// kernel's parameters say agent.guest_components_procs=none or =attestation-agent.
#[derive(Debug, Args)]
pub struct Hub {
    /// The hub's configuration
    /// [default: what CDH_CONFIG names, or initdata's cdh.toml where Kata's agent leaves it]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Relays until told to stop.
pub async fn run(arguments: Hub) -> ExitCode {
    let stop = match terminated() {
        Ok(stop) => stop,
        Err(error) => return fail(&format!("failed to serve: {error}"), EX_SOFTWARE),
    };
    match hub::serve(Moved::load(arguments.config), stop).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("failed to serve: {}", chain(&error)), EX_SOFTWARE),
    }
}
