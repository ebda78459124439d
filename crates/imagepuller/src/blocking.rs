//! File system work, done where it may block.

use tokio::task::spawn_blocking;

use crate::error::Error;

/// Runs work on a thread that may block. Dropping the future does not end the work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}
