//! `imagepuller status`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use httpdate::fmt_http_date;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{DEFAULT_SOCKET, EX_SOFTWARE, INTERRUPTED, exit_code, fail, print};
use crate::activity::Shown;
use crate::reasons::{self, Reason, Reasons};
use crate::request;

/// How long a service may take that does not wait for anything.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often a service is asked that is followed.
const PAUSE: Duration = Duration::from_secs(1);

/// After how many times the same is said once more of a pull, with its time.
const SAID_ANEW: u32 = 10;

/// The last second of the year 9999, after which dates have no form.
const MAX_TIME_SECS: u64 = 253_402_300_799;

/// Show what the pulls of a running service are doing: image, time, layers, bytes, sources, and
/// the failure after which something is asked for again. And why references of documents and
/// images gave nothing, which no error and no log says, because the host reads these.
///
/// With --follow a pull has a line each time that something about it changes, at most once a
/// second, and one when it is over.
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
    /// Print a JSON object: "pulls", null where the service cannot be reached, and "reasons"; with
    /// --follow one on a line for each change
    #[arg(long)]
    json: bool,
    /// Go on until no pull is under way, or Ctrl-C
    #[arg(long)]
    follow: bool,
}

/// Why there is no more to show, and the exit code.
type Failed = (String, u8);

/// Asks once, or until the pulls are over.
pub async fn run(arguments: Status) -> ExitCode {
    let shown = match arguments.follow {
        false => show(&arguments).await,
        true => {
            let stopped = match super::terminated() {
                Ok(stopped) => stopped,
                Err(error) => return fail(&error.to_string(), EX_SOFTWARE),
            };
            tokio::select! {
                shown = follow(&arguments) => shown,
                () = stopped => return ExitCode::from(INTERRUPTED),
            }
        }
    };
    let code = match shown {
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

    fn print_object(&self, pulls: &[Value]) {
        print(&json!({"pulls": pulls, "reasons": self.reasons()}).to_string());
    }
}

async fn show(arguments: &Status) -> Result<(), Failed> {
    let pulls = arguments.pulls().await?;
    if arguments.json {
        arguments.print_object(&pulls);
        return Ok(());
    }
    if pulls.is_empty() {
        print("no pull is under way");
    }
    pulls.iter().try_for_each(print_line)
}

async fn follow(arguments: &Status) -> Result<(), Failed> {
    let mut before: Vec<Value> = Vec::new();
    let mut round = 0;
    loop {
        let pulls = arguments.pulls().await?;
        let now: Vec<Value> = pulls.iter().map(without_time).collect();
        let is_anew = round % SAID_ANEW == 0;
        if arguments.json {
            if round == 0 || now != before {
                arguments.print_object(&pulls);
            }
        } else {
            let mut known = before.clone();
            for (pull, still) in pulls.iter().zip(&now) {
                if !take(&mut known, still) || is_anew {
                    print_line(pull)?;
                }
            }
            let images = |pulls: &[Value]| -> Vec<String> {
                let images = pulls.iter().filter_map(|pull| pull["image"].as_str());
                images.map(str::to_owned).collect()
            };
            let mut under_way = images(&now);
            for image in images(&before) {
                if !take(&mut under_way, &image) {
                    print(&format!("{image}: over; the service's log says how"));
                }
            }
            if pulls.is_empty() {
                print("no pull is under way");
            }
        }
        if pulls.is_empty() {
            return Ok(());
        }
        before = now;
        round += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Takes one such value away, if there is one: two pulls of one image are two.
fn take<T: PartialEq>(from: &mut Vec<T>, value: &T) -> bool {
    let found = from.iter().position(|other| other == value);
    found.map(|at| from.swap_remove(at)).is_some()
}

/// A pull as it is compared with what it was a moment ago.
fn without_time(pull: &Value) -> Value {
    let mut pull = pull.clone();
    if let Some(pull) = pull.as_object_mut() {
        pull.remove("seconds");
    }
    pull
}

fn print_line(pull: &Value) -> Result<(), Failed> {
    let pull = Shown::deserialize(pull).map_err(|_| unreadable())?;
    print(&pull.to_string());
    Ok(())
}

fn unreadable() -> Failed {
    let message = "the service's answer cannot be read".to_owned();
    (message, EX_SOFTWARE)
}
