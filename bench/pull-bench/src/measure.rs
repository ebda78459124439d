//! What a command costs, measured by a small parent process of its own.
//!
//! The kernel keeps CPU time and the largest resident memory of all children that a process waited
//! for, so a process that has only ever had one child knows them exactly. (The peak cannot be less
//! than the parent's own memory, which is why it is small.)

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

use crate::daemon::{bound, last_words};

/// What a command cost, with everything that it started and waited for.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// From start to end.
    pub wall_secs: f64,
    /// User and system.
    pub cpu_secs: f64,
    /// Of the largest process.
    pub peak_kib: u64,
}

/// Runs `command` and returns what it cost; where it fails, its last words are the error.
pub fn cost(command: &Command, work: &Path) -> Result<Cost> {
    let (report, log) = (work.join("cost.json"), work.join("command.log"));
    let output = File::create(&log)?;
    let mut measured = Command::new(std::env::current_exe()?);
    measured
        .arg("measure")
        .arg(&report)
        .arg("--")
        .arg(command.get_program())
        .args(command.get_args());
    for (key, value) in command.get_envs() {
        value.map(|value| measured.env(key, value));
    }
    let status = bound(&measured)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()?;
    if !status.success() {
        bail!("{}", last_words(&String::from_utf8_lossy(&fs::read(&log)?)));
    }
    Ok(serde_json::from_slice(&fs::read(&report)?)?)
}

/// The parent process: runs `command`, writes its cost to the file `report`.
pub fn measure(report: &Path, command: &[String]) -> Result<()> {
    let (program, arguments) = command.split_first().context("no command")?;
    let mut child = Command::new(program);
    let mut child = bound(child.args(arguments));
    let start = Instant::now();
    let status = child.status()?;
    let wall_secs = start.elapsed().as_secs_f64();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    ensure!(status.success(), "{program} ended with {status}");
    let cost = Cost {
        wall_secs,
        cpu_secs: micros as f64 / 1e6,
        peak_kib: u64::try_from(usage.max_rss())?,
    };
    Ok(fs::write(report, serde_json::to_vec(&cost)?)?)
}

/// Runs `command` to its end; where it fails, its last words are the error.
pub fn checked(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("failed to start {name}"))?;
    ensure!(
        output.status.success(),
        "{name} ended with {}: {}",
        output.status,
        last_words(&String::from_utf8_lossy(&output.stderr))
    );
    Ok(())
}
