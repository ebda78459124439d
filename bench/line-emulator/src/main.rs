//! Runs a command behind a line: `line-emulator --delay 50 -- COMMAND`.
//!
//! The server is to listen in the namespace in which this is called, on all addresses or on
//! 192.0.2.1. That should not be the machine's own:
//!
//! ```sh
//! unshare --net -- sh -c 'ip link set lo up
//!     docker-registry serve registry.yml &
//!     line-emulator --delay 50 -- imagepuller pull 192.0.2.1:5000/image ...'
//! ```

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use line_emulator::{Line, Quality};
use serde_json::json;

/// Runs a command in a network namespace of its own, whose only way out is a line to this one,
/// where it finds 192.0.2.1
#[derive(Debug, Parser)]
struct Options {
    /// Milliseconds that a packet takes, each way
    #[arg(long, value_name = "MS", default_value_t = 0)]
    delay: u64,
    /// Megabits a second, each way; without it as fast as packets can be carried
    #[arg(long, value_name = "MBIT")]
    bandwidth: Option<u64>,
    /// KiB that may wait to be sent; without it what the line carries in a round trip
    #[arg(long, value_name = "KIB")]
    queue: Option<u64>,
    /// Write seconds, packets, connections as JSON to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<String>,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let line = Line::new(Quality {
        delay: Duration::from_millis(options.delay),
        bytes_per_sec: options.bandwidth.map(|mbit| mbit.saturating_mul(125_000)),
        queue_bytes: options.queue.map(|kib| kib.saturating_mul(1024)),
    })?;
    let (program, arguments) = options.command.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    let start = Instant::now();
    let status = line
        .enter(&command)
        .status()
        .context("failed to start nsenter (Debian package util-linux)")?;
    if let Some(path) = options.report {
        let report = json!({"wall_secs": start.elapsed().as_secs_f64(), "line": line.counts()});
        std::fs::write(path, report.to_string())?;
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
