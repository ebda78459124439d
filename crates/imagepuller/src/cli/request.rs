//! `imagepuller request`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::{exit_code, fail, print};
use crate::request::{RequestError, pull_image};

/// Where the service listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/guest-services/imagepull.socket";

/// Ask a running service for an image and print the digest of its manifest.
///
/// Exits with 65 if the reference, the image or the configuration is wrong, with 69 if the registry
/// or the service cannot be reached or denies access, or there is no room or no time, with 70 if
/// the service failed.
#[derive(Debug, Args)]
pub struct Request {
    /// Socket of the service
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    /// Print a JSON object instead of the bare digest, or instead of the bare reason
    #[arg(long)]
    json: bool,
    /// How long to wait; Kata's agent waits as long by default. The service gives up in time to say
    /// why
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 1200,
        value_parser = clap::value_parser!(u64).range(1..=86_400),
    )]
    timeout: u64,
    /// The image by digest, such as registry.corp:5000/team/app@sha256:...
    image: String,
    /// Absolute directory to mount it in, at BUNDLE/rootfs
    bundle: String,
}

/// Asks once.
pub async fn run(arguments: Request) -> ExitCode {
    let Request { socket, json, timeout, image, bundle } = arguments;
    let asked = tokio::select! {
        answer = pull_image(&socket, &image, &bundle, Duration::from_secs(timeout)) => answer,
        // Hanging up ends the pull.
        _ = tokio::signal::ctrl_c() => Err(RequestError::Interrupted),
    };
    match asked {
        Ok(digest) => {
            print(&match json {
                true => serde_json::json!({ "manifestDigest": digest }).to_string(),
                false => digest,
            });
            ExitCode::SUCCESS
        }
        Err(error) => {
            if json {
                print(&serde_json::json!({ "error": error.to_string() }).to_string());
            }
            fail(&error.to_string(), exit_code(error.kind()))
        }
    }
}
