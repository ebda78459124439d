//! Small answers, read whole but never beyond their limit.

use std::time::Duration;

use crate::error::Error;
use crate::source::host_of;
use crate::transport::{Answer, innermost};

/// How long a small answer may take from its first byte to its last, however steadily it drips.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads an answer of at most `limit_bytes`.
pub async fn read(
    answer: Answer,
    what: &'static str,
    limit_bytes: usize,
) -> Result<Vec<u8>, Error> {
    let host = host_of(&answer.url);
    let Answer { mut response, .. } = answer;
    let whole = async {
        let mut bytes = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| cut_off(&host, &error))?
        {
            if bytes.len() + chunk.len() > limit_bytes {
                return Err(Error::TooLarge {
                    host: host.clone(),
                    what,
                    limit_bytes,
                });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    };
    let timed = tokio::time::timeout(WHOLE_TIMEOUT, whole).await;
    timed.unwrap_or_else(|_| {
        let reason = format!(
            "{what} was not complete after {} s",
            WHOLE_TIMEOUT.as_secs()
        );
        Err(Error::Unreachable {
            host: host.clone(),
            via: String::new(),
            reason,
        })
    })
}

/// A body that ended before its time.
pub fn cut_off(host: &str, error: &reqwest::Error) -> Error {
    let reason = if error.is_timeout() {
        "the transfer stood still for too long".to_owned()
    } else {
        format!("the transfer broke off: {}", innermost(error))
    };
    Error::Unreachable {
        host: host.to_owned(),
        via: String::new(),
        reason,
    }
}
