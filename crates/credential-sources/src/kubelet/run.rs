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
//! A process that moves to a group or session of its own stays, unless a child of ours asks, which
//! adopts and ends it: plugins are programs of the node's administrator. Where this process was
//! started with SIGCHLD ignored, a plugin's number may belong to somebody else as soon as it has
//! ended, so its group is then left alone.

mod host_network;
mod process;

use std::fmt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linux_sys::memfd;
use linux_sys::plugin_process::{
    end_with_parent, execute_only_programs, keep_standard_descriptors_only,
};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use self::process::Running;
use super::config::Provider;
use super::protocol::{self, MAX_MESSAGE_BYTES, Response, Version, line};

/// How long the kubelet lets a plugin run; this project's own deadline is never later.
pub const MAX_RUN: Duration = Duration::from_secs(60);

/// How much longer a child of ours may take that asks: it ends what plugins left running.
const CHILD_MORE: Duration = Duration::from_secs(5);

/// A question to one plugin.
#[derive(Deserialize, Serialize)]
pub struct Question {
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, Zeroizing<String>)>,
    version: Version,
    image: String,
}

/// Arguments and environment may hold secrets.
impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Question({}: {})", self.program.display(), self.image)
    }
}

impl Question {
    /// The question of `provider`, whose program is in `directory`, about `image`.
    #[must_use]
    pub fn new(directory: &Path, provider: &Provider, image: String) -> Self {
        let env = provider.env.iter();
        let env = env.map(|(name, value)| (name.clone(), value.expose().to_owned().into()));
        Self {
            program: program(directory, provider),
            args: provider.args.clone(),
            env: env.collect(),
            version: provider.version,
            image,
        }
    }
}

/// Why a plugin gave no answer. Holds nothing that it wrote.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Failure {
    /// The reason, as a fragment.
    pub why: String,
    /// Whether it ran too long and was killed.
    pub hung: bool,
}

impl Failure {
    fn of(why: impl Into<String>) -> Self {
        Self { why: why.into(), hung: false }
    }

    fn start(error: impl fmt::Display) -> Self {
        Self::of(format!("it cannot be started: {error}"))
    }

    fn output(error: impl fmt::Display) -> Self {
        Self::of(format!("its output cannot be read: {error}"))
    }

    fn unusable(rule: impl fmt::Display) -> Self {
        Self::of(format!("its answer is not usable: {rule}"))
    }

    /// Somebody else took the exit code: this process was started with SIGCHLD ignored.
    fn lost() -> Self {
        Self::of("its exit code is lost")
    }

    fn hung() -> Self {
        let why = "it took longer than the time for all plugins, and was killed";
        Self { why: why.into(), hung: true }
    }
}

/// The answers to questions, in their order.
pub type Answers = Vec<Result<Response, Failure>>;

/// Asks all `questions` at once and waits until each is answered, failed, or it is `deadline`. No
/// thread is left, and no plugin nor what is in its process group.
pub fn ask(questions: &[Question], deadline: Instant) -> Answers {
    let deadline = deadline.min(Instant::now() + MAX_RUN);
    std::thread::scope(|scope| {
        let threads: Vec<_> = questions
            .iter()
            .map(|question| {
                let builder = std::thread::Builder::new().name("credential provider".into());
                builder.spawn_scoped(scope, move || ask_one(question, deadline))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                let answer = thread.map_err(Failure::start)?.join();
                answer.unwrap_or_else(|_| Err(Failure::start("internal error")))
            })
            .collect()
    })
}

/// [`ask`] by a child of this process: `command`, which does [`ask_for_parent`]. One that is not
/// done a while after the deadline is killed, and every plugin with it.
pub fn ask_by(command: Command, questions: &[Question], deadline: Instant) -> Answers {
    by_child(command, questions, deadline)
        .unwrap_or_else(|failure| questions.iter().map(|_| Err(failure.clone())).collect())
}

fn by_child(
    mut command: Command,
    questions: &[Question],
    deadline: Instant,
) -> Result<Answers, Failure> {
    let left = deadline.saturating_duration_since(Instant::now());
    // No pipe, which may be narrower than the questions are long.
    let request = memfd::sealed(c"questions", &line(&(left, questions))).map_err(Failure::start)?;
    command.stdin(request);
    let most = questions.len() * MAX_MESSAGE_BYTES;
    let output = run(command, &[], most, deadline + CHILD_MORE)?;
    let answers: Option<Answers> = serde_json::from_slice(&output).ok();
    let whole = answers.filter(|answers| answers.len() == questions.len());
    whole.ok_or_else(|| Failure::unusable("it is not whole"))
}

/// The answers to what [`ask_by`] hands to its child, as text; `None` where that is none of it.
#[must_use]
pub fn ask_for_parent(request: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (left, questions): (Duration, Vec<Question>) = serde_json::from_slice(request).ok()?;
    Some(line(&ask(&questions, Instant::now() + left.min(MAX_RUN))))
}

/// The program of a plugin.
#[must_use]
pub fn program(directory: &Path, provider: &Provider) -> PathBuf {
    directory.join(&provider.name)
}

fn ask_one(question: &Question, deadline: Instant) -> Result<Response, Failure> {
    let mut command = Command::new(&question.program);
    command
        .args(&question.args)
        .envs(question.env.iter().map(|(name, value)| (name, value.as_str())))
        .stdin(Stdio::piped());
    host_network::enter().map_err(Failure::start)?;
    let request = protocol::request(question.version, &question.image);
    let text = run(command, &request, MAX_MESSAGE_BYTES, deadline)?;
    Response::parse(&text, question.version).map_err(Failure::unusable)
}

/// Runs `command` with `input` for the pipe on its standard input, where it has one, and returns
/// its standard output, where it ends in time, well and with at most so many bytes.
///
/// # Errors
///
/// [`Failure`].
pub fn run(
    mut command: Command,
    input: &[u8],
    most: usize,
    deadline: Instant,
) -> Result<Zeroizing<Vec<u8>>, Failure> {
    if Instant::now() >= deadline {
        return Err(Failure::hung());
    }
    command
        // Kata's shims start programs in the sandbox's directory, which is none of a plugin's
        // business.
        .current_dir("/")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // So that what it starts can be killed with it.
        .process_group(0);
    keep_standard_descriptors_only(&mut command);
    end_with_parent(&mut command);
    execute_only_programs(&mut command).map_err(Failure::start)?;
    let mut child = command.spawn().map_err(Failure::start)?;
    let mut running = Running::of(&mut child)?;
    let output = running.converse(input, most, deadline);
    let status = running.end();
    let output = output?;
    let status = status?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(output),
        (Some(code), _) => Err(Failure::of(format!("it failed with exit code {code}"))),
        (None, Some(signal)) => Err(Failure::of(format!("signal {signal} ended it"))),
        (None, None) => Err(Failure::lost()),
    }
}
