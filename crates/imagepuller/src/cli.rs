//! The program's arguments, and what each command does.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tracing::Level;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::error::Kind;

mod documents;
mod hub;
mod limits;
mod probe;
mod pull;
mod request;
mod serve;
mod status;

pub use request::DEFAULT_SOCKET;

/// The rooms whose debug lines a `--log-level` shows.
const OWN_ROOMS: [&str; 4] = ["imagepuller", "registry_client", "layer_store", "kbs_client"];

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

/// Exit code for wrong arguments (`EX_USAGE`).
pub const EX_USAGE: u8 = 64;

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
    /// Reads the program's arguments, the first of which is its name.
    ///
    /// # Errors
    ///
    /// Usage, or help that was asked for.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::try_parse_from(arguments)
    }

    /// Starts logging to standard error, as much as the command wants.
    pub fn start_logging(&self) {
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

/// Runs a command; returns the exit code after saying on stderr what went wrong.
pub async fn run(cli: Cli) -> ExitCode {
    raise_open_files();
    match cli.command {
        Command::Serve(arguments) => serve::run(arguments).await,
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
