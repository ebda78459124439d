//! Small answers, read whole but never beyond their limit.

use std::time::Duration;

use tokio::time::timeout;

use crate::error::Error;
use crate::explain;
use crate::failure::Failure;
use crate::retry::seconds;
use crate::transport::Answer;
use pull_route::host_of;

/// Reads an answer of at most `limit_bytes` that never stands still for longer than `stall`.
///
/// A drip is not noticed here: whoever calls bounds the whole.
pub async fn read(
    answer: Answer,
    what: &'static str,
    limit_bytes: usize,
    stall: Duration,
) -> Result<Vec<u8>, Failure> {
    let host = host_of(&answer.url);
    let Answer { mut response, .. } = answer;
    let too_large =
        || Error::answer(&host, &format!("sent more than {limit_bytes} bytes of {what}"));
    let announced = response.content_length().unwrap_or_default();
    if announced > limit_bytes as u64 {
        return Err(too_large().into());
    }
    let mut bytes = Vec::new();
    loop {
        let chunk = timeout(stall, response.chunk())
            .await
            .map_err(|_| stalled(&host, stall))?
            .map_err(|error| explain::body(&error, &host))?;
        let Some(chunk) = chunk else {
            return Ok(bytes);
        };
        if bytes.len() + chunk.len() > limit_bytes {
            return Err(too_large().into());
        }
        bytes.extend_from_slice(&chunk);
    }
}

/// A body that stands still.
pub fn stalled(host: &str, stall: Duration) -> Failure {
    let reason = format!("stood still for {}", seconds(stall));
    Failure::passing(Error::late(host, &reason))
}
