//! The program's arguments, and what each command does.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use rustix::process::{DumpableBehavior, Resource, getrlimit, set_dumpable_behavior, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tracing::Level;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::error::Kind;
use crate::service::Timing;

mod documents;
mod hub;
mod probe;
mod pull;
mod request;
mod serve;
mod status;

pub use request::DEFAULT_SOCKET;

/// The rooms whose debug lines a `--log-level` shows.
const OWN_ROOMS: [&str; 4] = ["imagepuller", "registry_client", "layer_store", "cdh_client"];

/// Who says what is asked for again, and nothing else: somebody at a terminal waits for it.
const WAITING_ROOMS: [&str; 2] = ["registry_client::retry", "imagepuller::pull::sources"];

/// How log lines are written.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LogFormat {
    /// A line for people.
    Text,
    /// A JSON object on a line.
    Json,
}

/// How long threads with file system work get to end when the program ends.
const BLOCKING_TIMEOUT: Duration = Duration::from_secs(2);

/// Exit code for wrong arguments (`EX_USAGE`).
const EX_USAGE: u8 = 64;

/// Exit code for bad data: a document, an image or a reference (`EX_DATAERR`).
const EX_DATAERR: u8 = 65;

/// Exit code for a registry or service that cannot be reached or says no (`EX_UNAVAILABLE`).
const EX_UNAVAILABLE: u8 = 69;

/// Exit code for what should not happen (`EX_SOFTWARE`).
const EX_SOFTWARE: u8 = 70;

/// Exit code of a program that the user stops, as shells count.
const INTERRUPTED: u8 = 130;

/// Pulls container images inside a confidential guest.
///
/// Images are named by digest, and every byte is hashed before it is used: neither the network nor
/// the configuration can change what runs. The configuration (credentials, CAs, proxies, mirrors)
/// comes from the host unverified and can at worst make a pull fail.
#[derive(Debug, Parser)]
#[command(version, long_version = program_version::VERSION, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Hub(hub::Hub),
    Pull(pull::Pull),
    Probe(probe::Probe),
    Request(request::Request),
    Status(status::Status),
}

impl Cli {
    /// Starts logging to standard error, as much as the command wants.
    fn start_logging(&self) {
        let (most, format) = match &self.command {
            Command::Serve(serve) => serve.log(),
            Command::Pull(pull) if pull.is_quiet() => (Level::WARN, LogFormat::Text),
            // All that they have to say is in their lines.
            Command::Probe(_) => (Level::ERROR, LogFormat::Text),
            _ => (Level::INFO, LogFormat::Text),
        };
        // The libraries below say for programmers what this program says itself.
        let ours = tracing_subscriber::filter::Targets::new()
            .with_default(most.min(Level::INFO))
            .with_targets(OWN_ROOMS.map(|room| (room, most)));
        let ours = match &self.command {
            Command::Pull(pull) if pull.has_meter() => {
                ours.with_targets(WAITING_ROOMS.map(|room| (room, Level::INFO)))
            }
            _ => ours,
        };
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(pull::meter::Log::default)
            .with_ansi(false)
            .with_target(false);
        let lines = match format {
            LogFormat::Text => lines.boxed(),
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        tracing_subscriber::registry().with(lines.with_filter(ours)).init();
    }
}

/// Runs the program by its arguments, the first of which is its name. The product's timing is the
/// default; tests have another one.
pub fn main(arguments: impl IntoIterator<Item = OsString>, timing: Timing) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EX_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    cli.start_logging();
    // The passwords and keys of the documents do not belong in a core file.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "core dumps stay possible");
    }
    linux_sys::heap::share_arenas();
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(run(cli, timing));
            // A thread may be in the middle of a large file; what it leaves behind is cleared at
            // the next start.
            runtime.shutdown_timeout(BLOCKING_TIMEOUT);
            code
        }
        Err(error) => fail(&format!("failed to start: {error}"), EX_SOFTWARE),
    }
}

/// Runs a command; returns the exit code after saying on stderr what went wrong.
async fn run(cli: Cli, timing: Timing) -> ExitCode {
    raise_open_files();
    match cli.command {
        Command::Serve(arguments) => serve::run(arguments, timing).await,
        Command::Hub(arguments) => hub::run(arguments).await,
        Command::Pull(arguments) => pull::run(arguments).await,
        Command::Probe(arguments) => probe::run(arguments).await,
        Command::Request(arguments) => request::run(arguments).await,
        Command::Status(arguments) => status::run(arguments).await,
    }
}

/// Allows as many open files as may be allowed: a mount of 500 layers holds one for each.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the number of open files cannot be raised");
    }
}

/// Ends when the program is told to end: by SIGTERM, or by SIGINT as of Ctrl-C.
fn terminated() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// The exit code for a kind of failure.
fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Request | Kind::Data => EX_DATAERR,
        Kind::Denied | Kind::Unreachable | Kind::Exhausted => EX_UNAVAILABLE,
        Kind::Internal => EX_SOFTWARE,
    }
}

/// Prints a line. A closed standard output is no failure.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn fail(message: &str, code: u8) -> ExitCode {
    eprintln!("imagepuller: {message}");
    ExitCode::from(code)
}
