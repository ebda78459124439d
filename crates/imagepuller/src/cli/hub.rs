//! `imagepuller hub`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{EX_DATAERR, EX_SOFTWARE, fail, terminated};
use crate::error::chain;
use crate::hub::configuration::Moved;
use crate::hub::settings::Settings;
use crate::hub::{self};

/// Stand in the confidential data hub's place until SIGTERM.
///
/// Listens where the hub is configured to (by default /run/confidential-containers/cdh.sock), with
/// mode 0600, and relays image pulls to `imagepuller serve` and all other calls to the real hub.
/// Both may be restarted without their callers losing the connection. The hub's own configuration,
/// with its socket moved to upstream-cdh.sock beside, is written to upstream-cdh.toml there.
///
/// A program of the name confidential-data-hub that is this one does the same, so that an agent
/// that starts the hub starts this.
#[derive(Debug, Args)]
pub struct Hub {
    /// The hub's configuration
    /// [default: what CDH_CONFIG names, or initdata's cdh.toml where Kata's agent leaves it]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Which programs are started: `hub`, the real hub's path, and `serve`, the arguments of
    /// `imagepuller serve`; no file means none
    #[arg(long, value_name = "FILE", default_value = "/etc/imagepuller-hub.toml")]
    settings: PathBuf,
}

/// Relays until told to stop.
pub async fn run(arguments: Hub) -> ExitCode {
    let settings = match Settings::load(&arguments.settings) {
        Ok(settings) => settings,
        Err(error) => return fail(&format!("failed to read settings: {error}"), EX_DATAERR),
    };
    let stop = match terminated() {
        Ok(stop) => stop,
        Err(error) => return fail(&format!("failed to serve: {error}"), EX_SOFTWARE),
    };
    match hub::serve(settings, Moved::load(arguments.config), stop).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("failed to serve: {}", chain(&error)), EX_SOFTWARE),
    }
}
