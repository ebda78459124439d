//! Processes in the background, and commands that are waited for.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::Scratch;

/// How often a condition outside this process is looked at again.
pub const POLL: Duration = Duration::from_millis(20);

/// A process that runs beside the caller, with its output in a file; killed when dropped.
///
/// The kernel kills it as well when the thread that started it ends, so that not even `SIGKILL`
/// leaves it behind.
#[derive(Debug)]
pub struct Background {
    name: String,
    child: Child,
    log: PathBuf,
    scratch: Scratch,
}

/// A [`Command`] that runs `program` under a parent-death signal.
#[must_use]
pub fn bound_command(program: impl AsRef<OsStr>) -> Command {
    // setpriv(1) sets the signal and execs: the process keeps its number and its descriptors.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command.stdin(Stdio::null());
    command
}

impl Background {
    /// Starts `command`, which [`bound_command`] made, with both outputs in `NAME.log` of
    /// `scratch`.
    ///
    /// # Errors
    ///
    /// Where it cannot be started, or the log file cannot be made.
    pub fn spawn(name: &str, mut command: Command, scratch: &Scratch) -> Result<Self> {
        let log = scratch.path().join(format!("{name}.log"));
        let output = File::create(&log).context("failed to create a log file")?;
        command.stdout(output.try_clone()?).stderr(output);
        let child = scratch.spawn(&mut command)?;
        Ok(Self { name: name.to_owned(), child, log, scratch: scratch.clone() })
    }

    /// What the process wrote so far.
    #[must_use]
    pub fn output(&self) -> String {
        read_lossy(&self.log)
    }

    /// The process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Looks every few milliseconds until `look` finds something in the process's output.
    ///
    /// # Errors
    ///
    /// Where the process ends or `limit` passes before; with the end of the output.
    pub fn wait_for<T>(&mut self, limit: Duration, look: impl Fn(&str) -> Option<T>) -> Result<T> {
        let start = Instant::now();
        loop {
            let ended = self.ended()?;
            if let Some(found) = look(&self.output()) {
                return Ok(found);
            }
            if let Some(status) = ended {
                bail!("{} ended with {status}: {}", self.name, tail(&self.output()));
            }
            ensure!(
                start.elapsed() < limit,
                "{} did not get ready in {} s: {}",
                self.name,
                limit.as_secs(),
                tail(&self.output())
            );
            sleep(POLL);
        }
    }

    /// The exit status, once the process has ended.
    ///
    /// # Errors
    ///
    /// Those of `waitpid(2)`.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.scratch.reap(&mut self.child)?)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // Killed, so it ends soon; only then may its number be forgotten.
        while let Ok(None) = self.scratch.reap(&mut self.child) {
            sleep(POLL);
        }
    }
}

/// As [`run_checked`], with the file `input` as the program's standard input.
///
/// # Errors
///
/// As there, and where the file cannot be opened.
pub fn run_with_input<A: AsRef<OsStr>>(
    scratch: &Scratch,
    program: &str,
    arguments: impl IntoIterator<Item = A>,
    input: &Path,
) -> Result<Output> {
    let mut command = bound_command(program);
    command.args(arguments).stdin(File::open(input)?);
    checked(program, output(scratch, command)?)
}

/// Runs `program` to its end and returns its output, whatever its exit code.
///
/// # Errors
///
/// Where the program cannot be started.
pub fn run<A: AsRef<OsStr>>(
    scratch: &Scratch,
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
) -> Result<Output> {
    let mut command = bound_command(program);
    command.args(arguments);
    output(scratch, command)
}

fn output(scratch: &Scratch, mut command: Command) -> Result<Output> {
    // Files, not pipes: a full pipe would stop the program while this function only looks whether
    // it has ended.
    let mut outputs = [tempfile::tempfile()?, tempfile::tempfile()?];
    let [stdout, stderr] = &outputs;
    command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let mut child = scratch.spawn(&mut command)?;
    let status = loop {
        match scratch.reap(&mut child)? {
            Some(status) => break status,
            None => sleep(POLL),
        }
    };
    let mut texts = [Vec::new(), Vec::new()];
    for (file, text) in outputs.iter_mut().zip(&mut texts) {
        file.rewind()?;
        file.read_to_end(text)?;
    }
    let [stdout, stderr] = texts;
    Ok(Output { status, stdout, stderr })
}

/// As [`run`], but an exit code other than 0 is an error that carries the program's own words.
///
/// # Errors
///
/// Then, and where the program cannot be started.
pub fn run_checked<A: AsRef<OsStr>>(
    scratch: &Scratch,
    program: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<Output> {
    checked(program, run(scratch, program, arguments)?)
}

fn checked(program: &str, output: Output) -> Result<Output> {
    ensure!(
        output.status.success(),
        "{program} ended with {}: {}",
        output.status,
        tail(&String::from_utf8_lossy(&output.stderr))
    );
    Ok(output)
}

pub(crate) fn read_lossy(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The last lines of `text`, enough to see what went wrong.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
