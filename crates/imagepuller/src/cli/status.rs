//! `imagepuller status`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::{DEFAULT_SOCKET, EX_SOFTWARE, exit_code, fail, print};
use crate::activity::Shown;
use crate::request;

/// How long a service may take that does not wait for anything.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Show what the pulls of a running service are doing: image, time, layers, bytes, sources, and
/// the failure after which something is asked for again.
///
/// Exits with 69 if the service cannot be reached.
#[derive(Debug, Args)]
pub struct Status {
    /// Socket of the service
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    /// Print a JSON array with an object for each pull
    #[arg(long)]
    json: bool,
}

/// Asks once.
pub async fn run(arguments: Status) -> ExitCode {
    let pulls = match request::status(&arguments.socket, TIMEOUT).await {
        Ok(pulls) => pulls,
        Err(error) => return fail(&error.to_string(), exit_code(error.kind())),
    };
    if arguments.json {
        print(&pulls);
        return ExitCode::SUCCESS;
    }
    let Ok(pulls) = serde_json::from_str::<Vec<Shown>>(&pulls) else {
        return fail("the service's answer cannot be read", EX_SOFTWARE);
    };
    if pulls.is_empty() {
        print("no pull is under way");
    }
    for pull in pulls {
        print(&pull.to_string());
    }
    ExitCode::SUCCESS
}
