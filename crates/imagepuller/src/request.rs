//! The asking side, for people, scripts and tests.

use std::path::Path;
use std::time::Duration;

use imagepuller_api::client::ImagePullServiceClient;
use imagepuller_api::message::ImagePullRequest;
use ttrpc::Code;

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
        /// Whether the request, an image or a document is wrong, and not a registry out of reach.
        is_bad_data: bool,
        /// Whether the service itself failed.
        is_internal: bool,
    },
    /// The connection ended without an answer.
    #[error("the image puller gave no answer: {0}")]
    NoAnswer(String),
}

/// Asks the service at a socket for an image; gives the digest of its manifest.
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
    let connect = |reason: String| RequestError::Connect {
        socket: socket.display().to_string(),
        reason,
    };
    let stream = tokio::net::UnixStream::connect(socket)
        .await
        .map_err(|error| connect(error.to_string()))?;
    let client = ImagePullServiceClient::new(ttrpc::r#async::Client::new(stream.into()));
    let request = ImagePullRequest {
        image_url: image.to_owned(),
        bundle_path: bundle.to_owned(),
        ..Default::default()
    };
    match client
        .pull_image(ttrpc::context::with_duration(timeout), &request)
        .await
    {
        Ok(response) => Ok(response.manifest_digest),
        Err(ttrpc::Error::RpcStatus(status)) => {
            let code = status.code();
            Err(RequestError::Refused {
                message: status.message,
                is_bad_data: matches!(code, Code::INVALID_ARGUMENT | Code::FAILED_PRECONDITION),
                is_internal: matches!(code, Code::INTERNAL | Code::UNKNOWN),
            })
        }
        Err(error) => Err(RequestError::NoAnswer(error.to_string())),
    }
}
