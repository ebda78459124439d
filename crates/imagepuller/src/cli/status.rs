//! `imagepuller status`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use httpdate::fmt_http_date;
use serde_json::{Value, json};

use super::{DEFAULT_SOCKET, EX_SOFTWARE, exit_code, fail, print};
use crate::activity::Shown;
use crate::reasons::{self, Reason, Reasons};
use crate::request;

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

/// Asks once.
pub async fn run(arguments: Status) -> ExitCode {
    let reasons = match Reasons::read(&arguments.reasons) {
        Ok(reasons) => reasons,
        Err(error) => {
            eprintln!(
                "imagepuller: {} cannot be read: {error}",
                arguments.reasons.display()
            );
            Vec::new()
        }
    };
    let (pulls, code) = match request::status(&arguments.socket, TIMEOUT).await {
        Ok(pulls) => (Some(pulls), ExitCode::SUCCESS),
        Err(error) => (None, fail(&error.to_string(), exit_code(error.kind()))),
    };
    let pulls = pulls.as_deref().map(serde_json::from_str::<Value>);
    let Ok(pulls) = pulls.transpose() else {
        return unreadable();
    };
    if arguments.json {
        print(&json!({"pulls": pulls, "reasons": reasons}).to_string());
        return code;
    }
    if let Some(pulls) = pulls {
        let Ok(pulls) = serde_json::from_value::<Vec<Shown>>(pulls) else {
            return unreadable();
        };
        if pulls.is_empty() {
            print("no pull is under way");
        }
        for pull in pulls {
            print(&pull.to_string());
        }
    }
    for Reason {
        time,
        reference,
        why,
    } in reasons
    {
        let time = fmt_http_date(UNIX_EPOCH + Duration::from_secs(time.min(MAX_TIME_SECS)));
        print(&format!("{time}: {reference}: {why}"));
    }
    code
}

fn unreadable() -> ExitCode {
    fail("the service's answer cannot be read", EX_SOFTWARE)
}
