//! Failures that were met more than once, and which are worth meeting again.

use reqwest::StatusCode;

use crate::error::Error;

/// A failure, and how often it was the same.
#[derive(Debug)]
pub struct Attempt {
    /// The failure.
    pub error: Error,
    /// How often.
    pub count: u32,
}

/// Each failure once, with its count where there was another one.
pub(crate) fn shown(attempts: &[Attempt]) -> String {
    let total: u32 = attempts.iter().map(|attempt| attempt.count).sum();
    let show = |Attempt { error, count }: &Attempt| match count {
        _ if attempts.len() == 1 => error.to_string(),
        1 => error.to_string(),
        2 => format!("{error} (twice)"),
        count => format!("{error} ({count} times)"),
    };
    let failures: Vec<_> = attempts.iter().map(show).collect();
    format!("{total} attempts: {}", failures.join("; "))
}

/// Whether a status is one of those that can be another one a little later.
pub(crate) fn may_pass(status: StatusCode) -> bool {
    [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ]
    .contains(&status)
}
