//! The ttrpc service: one call, one pull.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use imagepuller_api::message::{ImagePullRequest, ImagePullResponse};
use imagepuller_api::server::ImagePullService;
use tokio::sync::RwLock;
use ttrpc::Code;
use ttrpc::r#async::TtrpcContext;

use crate::error::{Error, Kind, chain};
use crate::pull::Puller;

/// The most of an image's name that is repeated in a message.
const MAX_SHOWN_BYTES: usize = 512;

/// How much of a caller's deadline is kept for the answer, at most.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(1);

/// Answers `PullImage`.
#[derive(Debug)]
pub struct Service {
    puller: Puller,
    /// Held for reading by each pull, so that an end can wait for all of them.
    busy: RwLock<()>,
}

impl Service {
    /// A service for a puller.
    pub fn new(puller: Puller) -> Self {
        Self {
            puller,
            busy: RwLock::new(()),
        }
    }

    /// Waits until no pull is running.
    pub async fn idle(&self) {
        drop(self.busy.write().await);
    }
}

#[async_trait]
impl ImagePullService for Service {
    async fn pull_image(
        &self,
        context: &TtrpcContext,
        request: ImagePullRequest,
    ) -> ttrpc::Result<ImagePullResponse> {
        let _running = self.busy.read().await;
        let pull = self.puller.pull(&request.image_url, &request.bundle_path);
        let result = match u64::try_from(context.timeout_nano) {
            Ok(deadline) if deadline > 0 => {
                let deadline = Duration::from_nanos(deadline);
                let timed = tokio::time::timeout(patience(deadline), pull).await;
                timed.unwrap_or(Err(Error::Deadline {
                    seconds: deadline.as_secs(),
                }))
            }
            // No deadline was sent.
            _ => pull.await,
        };
        let error = match result {
            Ok(pulled) => {
                let manifest_digest = pulled.manifest.to_string();
                return Ok(ImagePullResponse {
                    manifest_digest,
                    ..Default::default()
                });
            }
            Err(error) => error,
        };
        let image: String = request.image_url.chars().take(MAX_SHOWN_BYTES).collect();
        let message = format!("failed to pull {}: {}", image.escape_debug(), chain(&error));
        tracing::error!("{message}");
        Err(ttrpc::Error::RpcStatus(ttrpc::get_status(
            code(error.kind()),
            message,
        )))
    }
}

/// How long a pull may take, so that the answer that it took too long still arrives: the caller's own timer has no words.
fn patience(deadline: Duration) -> Duration {
    deadline.saturating_sub(MAX_ANSWER_TIME.min(deadline / 10))
}

fn code(kind: Kind) -> Code {
    match kind {
        Kind::Request => Code::INVALID_ARGUMENT,
        Kind::Data => Code::FAILED_PRECONDITION,
        Kind::Denied => Code::PERMISSION_DENIED,
        Kind::Unreachable => Code::UNAVAILABLE,
        Kind::Exhausted => Code::RESOURCE_EXHAUSTED,
        Kind::Internal => Code::INTERNAL,
    }
}

/// Serves on sockets until told to stop; then lets running pulls end for a while.
///
/// # Errors
///
/// [`Error::Socket`].
pub async fn serve(
    service: Arc<Service>,
    sockets: Vec<crate::socket::Listening>,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let mut servers = Vec::new();
    for socket in &sockets {
        let failed = |rule: String| Error::Socket {
            path: socket.path().to_owned(),
            rule,
        };
        let listener = socket
            .listener()
            .map_err(|error| failed(format!("cannot be served: {error}")))?;
        let services = imagepuller_api::server::create_image_pull_service(service.clone());
        let mut server = ttrpc::r#async::Server::new()
            .add_listener(listener.into())
            .register_service(services);
        server
            .start()
            .await
            .map_err(|error| failed(format!("cannot be served: {error}")))?;
        tracing::info!(socket = %socket.path().display(), "listening");
        servers.push(server);
    }
    stop.await;
    tracing::info!("stopping");
    for server in &mut servers {
        server.stop_listen().await;
    }
    if tokio::time::timeout(STOP_TIMEOUT, service.idle())
        .await
        .is_err()
    {
        tracing::warn!(
            "pulls are still running after {} s and are given up",
            STOP_TIMEOUT.as_secs()
        );
    }
    for server in &mut servers {
        let _ = server.shutdown().await;
    }
    Ok(())
}

/// How long running pulls may take to end: what service managers grant by default is 90 s, Kata's guests less.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_leaves_time_for_the_answer() {
        for (deadline_ms, patience_ms) in [(1_200_000, 1_199_000), (10_000, 9_000), (2000, 1800)] {
            let deadline = Duration::from_millis(deadline_ms);
            assert_eq!(patience(deadline), Duration::from_millis(patience_ms));
        }
    }
}
