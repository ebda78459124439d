//! `imagepuller status`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use httpdate::fmt_http_date;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{DEFAULT_SOCKET, EX_SOFTWARE, exit_code, fail, print};
use crate::reasons::{self, Reason, Reasons};
use crate::request;
use crate::watch::Snapshot;

/// How long a service may take that does not wait for anything.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The last second of the year 9999, after which dates have no form.
const MAX_TIME_SECS: u64 = 253_402_300_799;

/// Show what the pulls of a running service are doing: image, time, layers, bytes, sources, and
/// the failure after which something is asked for again. And why references of documents and
/// images gave nothing, which no error and no log says, because the host reads these.
///
/// Exits with 69 if the service cannot be reached.
#[derive(Debug, Args)]
pub struct Status {
    /// Socket of the service
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    /// Where the service keeps the reasons
    #[arg(long, value_name = "FILE", default_value = reasons::DEFAULT_PATH)]
    reasons: PathBuf,
    /// Print a JSON object: "pulls", null where the service cannot be reached, and "reasons"
    #[arg(long)]
    json: bool,
}

/// Why there is no more to show, and the exit code.
type Failed = (String, u8);

/// Asks once.
pub async fn run(arguments: Status) -> ExitCode {
    let code = match show(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err((message, code)) => {
            // The reasons are there all the same.
            if arguments.json {
                print(&json!({"pulls": null, "reasons": arguments.reasons()}).to_string());
            }
            fail(&message, code)
        }
    };
    if !arguments.json {
        for reason in arguments.reasons() {
            let time = UNIX_EPOCH + Duration::from_secs(reason.time.min(MAX_TIME_SECS));
            let Reason { reference, why, .. } = reason;
            print(&format!("{}: {reference}: {why}", fmt_http_date(time)));
        }
    }
    code
}

impl Status {
    /// Why references gave nothing.
    fn reasons(&self) -> Vec<Reason> {
        Reasons::read(&self.reasons).unwrap_or_else(|error| {
            let path = self.reasons.display();
            eprintln!("imagepuller: {path} cannot be read: {error}");
            Vec::new()
        })
    }

    /// The pulls, as the service writes them.
    async fn pulls(&self) -> Result<Vec<Value>, Failed> {
        let pulls = request::status(&self.socket, TIMEOUT).await;
        let pulls = pulls.map_err(|error| (error.to_string(), exit_code(error.kind())))?;
        serde_json::from_str(&pulls).map_err(|_| unreadable())
    }
}

async fn show(arguments: &Status) -> Result<(), Failed> {
    let pulls = arguments.pulls().await?;
    if arguments.json {
        print(&json!({"pulls": pulls, "reasons": arguments.reasons()}).to_string());
        return Ok(());
    }
    if pulls.is_empty() {
        print("no pull is under way");
    }
    pulls.iter().try_for_each(print_line)
}

fn print_line(pull: &Value) -> Result<(), Failed> {
    let pull = Snapshot::deserialize(pull).map_err(|_| unreadable())?;
    print(&pull.to_string());
    Ok(())
}

fn unreadable() -> Failed {
    let message = "the service's answer cannot be read".to_owned();
    (message, EX_SOFTWARE)
}
