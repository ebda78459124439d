//! Plugins as processes: all side by side, each bounded in time and output, and killed in the end.
//!
//! A plugin is a program or a script with `#!`; anything else is an "exec format error", as for the
//! kubelet, and given to no shell. It gets this process's user, its environment with what the
//! configuration adds, the question on standard input, and no descriptor but its own three. What it
//! writes to standard error goes nowhere: it may hold secrets.
//!
//! It runs in the machine's own network, where the kubelet's run: Kata starts its hypervisor, and
//! so its wrapper, in the network namespace of the pod, from which neither a cloud's metadata
//! service nor its token service need be reachable.
//!
//! It is done when it has ended, not when its output is closed: what a process that it left behind
//! still writes is not waited for, and the plugin with its process group is killed in any case.
//! What moves to a group or session of its own is not: plugins are programs of the node's
//! administrator, and this is for those that fail, not for those that flee. Where this process was
//! started with SIGCHLD ignored, a plugin's number may belong to somebody else as soon as it has
//! ended, so its group is then left alone.

mod host_network;
mod process;

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linux_sys::plugin_process::{execute_only_programs, keep_standard_descriptors_only};
use zeroize::Zeroizing;

use self::process::Running;
use super::config::Provider;
use super::protocol::{self, MessageError, Response};

/// How long the kubelet lets a plugin run; this project's own deadline is never later.
pub const MAX_RUN: Duration = Duration::from_secs(60);

/// A question to one plugin.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The plugin.
    pub provider: &'a Provider,
    /// The image that it is asked about.
    pub image: String,
}

/// A plugin's answer, in the bytes that it wrote and as they were understood.
#[derive(Clone)]
pub struct Answer {
    /// The bytes.
    pub text: Zeroizing<Vec<u8>>,
    /// Their meaning.
    pub response: Response,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.response.fmt(f)
    }
}

/// Why a plugin gave no answer, as a fragment. Holds nothing that it wrote.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It could not be started.
    #[error("it cannot be started: {0}")]
    Start(io::Error),
    /// It ran too long and was killed.
    #[error("it took longer than the time for all plugins, and was killed")]
    TimedOut,
    /// It ended with another exit code than 0.
    #[error("it failed with exit code {0}")]
    ExitCode(i32),
    /// A signal ended it.
    #[error("signal {0} ended it")]
    Signal(i32),
    /// Its exit code was taken by somebody else: this process was started with SIGCHLD ignored.
    #[error("its exit code is lost")]
    Lost,
    /// Its output could not be read.
    #[error("its output cannot be read: {0}")]
    Output(io::Error),
    /// Its output is no answer.
    #[error("its answer is not usable: {0}")]
    Message(MessageError),
}

/// Asks all `questions` at once, of programs in `directory`, and waits until each is answered,
/// failed, or it is `deadline`. The answers are in the order of the questions. No thread is left,
/// and no plugin nor what is in its process group.
pub fn ask(
    directory: &Path,
    questions: &[Question<'_>],
    deadline: Instant,
) -> Vec<Result<Answer, RunError>> {
    let deadline = deadline.min(Instant::now() + MAX_RUN);
    std::thread::scope(|scope| {
        let threads: Vec<_> = questions
            .iter()
            .map(|question| {
                let builder = std::thread::Builder::new().name("credential provider".into());
                builder.spawn_scoped(scope, move || ask_one(directory, question, deadline))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                let answer = thread.map_err(RunError::Start)?.join();
                answer.unwrap_or_else(|_| Err(RunError::Start(io::Error::other("internal error"))))
            })
            .collect()
    })
}

/// The program of a plugin.
#[must_use]
pub fn program(directory: &Path, provider: &Provider) -> PathBuf {
    directory.join(&provider.name)
}

fn ask_one(
    directory: &Path,
    question: &Question<'_>,
    deadline: Instant,
) -> Result<Answer, RunError> {
    let provider = question.provider;
    let mut command = Command::new(program(directory, provider));
    command
        .args(&provider.args)
        .envs(provider.env.iter().map(|(name, value)| (name, value.expose())));
    host_network::enter().map_err(RunError::Start)?;
    let request = protocol::request(provider.version, &question.image);
    let text = run(command, &request, deadline)?;
    let response = Response::parse(&text, provider.version).map_err(RunError::Message)?;
    Ok(Answer { text, response })
}

/// Runs `command` with `input` as its standard input and returns its standard output, where it ends
/// in time, well and with little output.
///
/// # Errors
///
/// [`RunError`].
pub fn run(
    mut command: Command,
    input: &[u8],
    deadline: Instant,
) -> Result<Zeroizing<Vec<u8>>, RunError> {
    if Instant::now() >= deadline {
        return Err(RunError::TimedOut);
    }
    command
        // Kata's shims start programs in the sandbox's directory, which is none of a plugin's
        // business.
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // So that what it starts can be killed with it.
        .process_group(0);
    keep_standard_descriptors_only(&mut command);
    execute_only_programs(&mut command).map_err(RunError::Start)?;
    let mut child = command.spawn().map_err(RunError::Start)?;
    let mut running = Running::of(&mut child)?;
    let output = running.converse(input, deadline);
    let status = running.end();
    let output = output?;
    let status = status?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(output),
        (Some(code), _) => Err(RunError::ExitCode(code)),
        (None, Some(signal)) => Err(RunError::Signal(signal)),
        (None, None) => Err(RunError::Lost),
    }
}
