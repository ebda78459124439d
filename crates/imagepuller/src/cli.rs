//! The program's arguments, and what each command does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use crate::pull::Puller;
use crate::request::{self, RequestError};
use crate::service::{self, Service};
use crate::socket::{Address, Listening};
use crate::store::Store;

/// Exit code for bad data: a document, an image or a reference (`EX_DATAERR`).
const EX_DATAERR: u8 = 65;

/// Exit code for a registry or service that cannot be reached or says no (`EX_UNAVAILABLE`).
const EX_UNAVAILABLE: u8 = 69;

/// Exit code for what should not happen (`EX_SOFTWARE`).
const EX_SOFTWARE: u8 = 70;

/// Pulls container images inside a confidential guest.
///
/// Images are named by digest, and every byte is hashed before it is used: neither the network nor the configuration can
/// change what runs. The configuration (credentials, CAs, proxies, mirrors) comes from the host unverified and can at worst
/// make a pull fail.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Serve),
    Request(Request),
}

/// Serve pulls on unix sockets until SIGTERM.
///
/// Listens at once, with mode 0600. The configuration is read anew for each pull, so a corrected one works without a
/// restart. No file means no credentials and the web's public CAs; a file that is not valid means that every pull is
/// answered with what is wrong with it.
#[derive(Debug, Args)]
struct Serve {
    /// Where to listen, as unix:PATH; may be repeated
    #[arg(long, required = true, value_name = "ADDRESS")]
    listen: Vec<Address>,
    /// Directory for layers, on a file system with trusted extended attributes (tmpfs, ext4)
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// The configuration, commonly /run/insecure-cfg/imagepuller.toml
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Ask a running service for an image and print the digest of its manifest.
///
/// Exits with 65 if the reference, the image or the configuration is wrong, with 69 if the registry or the service cannot
/// be reached or denies access, with 70 if the service failed.
#[derive(Debug, Args)]
struct Request {
    /// Socket of the service
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/run/guest-services/imagepull.socket"
    )]
    socket: PathBuf,
    /// Print a JSON object instead of the bare digest
    #[arg(long)]
    json: bool,
    /// How long to wait; Kata's agent waits as long by default
    #[arg(long, value_name = "SECONDS", default_value_t = 1200, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// The image by digest, such as registry.corp:5000/team/app@sha256:...
    image: String,
    /// Absolute directory to mount it in, at BUNDLE/rootfs
    bundle: String,
}

/// Runs a command; returns the exit code after saying on stderr what went wrong.
pub async fn run(cli: Cli) -> ExitCode {
    match cli.command {
        Command::Serve(arguments) => match serve(arguments).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&format!("failed to serve: {error:#}"), EX_SOFTWARE),
        },
        Command::Request(arguments) => ask(arguments).await,
    }
}

async fn serve(arguments: Serve) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sockets, store) = tokio::task::spawn_blocking(move || -> anyhow::Result<_> {
        let sockets = arguments
            .listen
            .iter()
            .map(Listening::bind)
            .collect::<Result<Vec<_>, _>>()?;
        Ok((sockets, Arc::new(Store::open(&arguments.store)?)))
    })
    .await??;
    let service = Arc::new(Service::new(Puller::new(store, arguments.config)));
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    service::serve(service, sockets, stop).await?;
    Ok(())
}

async fn ask(arguments: Request) -> ExitCode {
    let Request {
        socket,
        json,
        timeout,
        image,
        bundle,
    } = arguments;
    let answer = request::pull_image(&socket, &image, &bundle, Duration::from_secs(timeout)).await;
    match answer {
        Ok(digest) => {
            let text = if json {
                serde_json::json!({ "manifestDigest": digest }).to_string()
            } else {
                digest
            };
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let code = match error {
                RequestError::Refused {
                    is_bad_data: true, ..
                } => EX_DATAERR,
                RequestError::Refused {
                    is_internal: true, ..
                } => EX_SOFTWARE,
                _ => EX_UNAVAILABLE,
            };
            fail(&error.to_string(), code)
        }
    }
}

fn fail(message: &str, code: u8) -> ExitCode {
    eprintln!("imagepuller: {message}");
    ExitCode::from(code)
}
