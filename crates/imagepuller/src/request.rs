//! The client of a running service, for people, scripts and tests.

use std::path::Path;
use std::time::Duration;

use imagepuller_api::client::{ImagePullServiceClient, ImageStoreServiceClient};
use imagepuller_api::message::{ImagePullRequest, StatusRequest};
use ttrpc::Code;
use ttrpc::r#async::Client;

use crate::error::Kind;

/// Why a request got no image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No service there.
    #[error("cannot connect to the image puller at {socket}: {reason}")]
    Connect {
        /// The socket.
        socket: String,
        /// What the kernel said.
        reason: String,
    },
    /// The service says why.
    #[error("{message}")]
    Refused {
        /// The service's words.
        message: String,
        /// What kind of failure it is.
        kind: Kind,
    },
    /// The connection ended without an answer.
    #[error("the image puller gave no answer: {0}")]
    NoAnswer(String),
    /// The user did not want to wait any longer.
    #[error("interrupted")]
    Interrupted,
}

impl RequestError {
    /// Which kind of failure this is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Refused { kind, .. } => *kind,
            Self::Connect { .. } | Self::NoAnswer(_) | Self::Interrupted => Kind::Unreachable,
        }
    }
}

/// Asks the service at a socket for an image; gives the digest of its manifest. Dropping the future
/// ends the pull.
///
/// # Errors
///
/// [`RequestError`].
pub async fn pull_image(
    socket: &Path,
    image: &str,
    bundle: &str,
    timeout: Duration,
) -> Result<String, RequestError> {
    let client = ImagePullServiceClient::new(connect(socket).await?);
    let request = ImagePullRequest {
        image_url: image.to_owned(),
        bundle_path: bundle.to_owned(),
        ..Default::default()
    };
    let answer = client.pull_image(ttrpc::context::with_duration(timeout), &request);
    Ok(answer.await.map_err(refused)?.manifest_digest)
}

/// Asks the service at a socket what its pulls are doing; gives a JSON array.
///
/// # Errors
///
/// [`RequestError`].
pub async fn status(socket: &Path, timeout: Duration) -> Result<String, RequestError> {
    let client = ImageStoreServiceClient::new(connect(socket).await?);
    let request = StatusRequest::default();
    let answer = client.status(ttrpc::context::with_duration(timeout), &request);
    Ok(answer.await.map_err(refused)?.pulls)
}

async fn connect(socket: &Path) -> Result<Client, RequestError> {
    let stream = tokio::net::UnixStream::connect(socket).await;
    let stream = stream.map_err(|error| RequestError::Connect {
        socket: socket.display().to_string(),
        reason: error.to_string(),
    })?;
    Ok(Client::new(stream.into()))
}

fn refused(error: ttrpc::Error) -> RequestError {
    let ttrpc::Error::RpcStatus(status) = error else {
        return RequestError::NoAnswer(error.to_string());
    };
    let kind = match status.code() {
        Code::INVALID_ARGUMENT | Code::FAILED_PRECONDITION => Kind::Data,
        Code::INTERNAL | Code::UNKNOWN => Kind::Internal,
        _ => Kind::Unreachable,
    };
    RequestError::Refused { message: status.message, kind }
}
