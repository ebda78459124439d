//! Failures that were met more than once, and which are worth meeting again.

use reqwest::StatusCode;

use crate::error::Error;

/// How many different failures are told, half of them the first and half the last.
const MAX_SHOWN: usize = 8;

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
    if attempts.len() <= MAX_SHOWN {
        let failures: Vec<_> = attempts.iter().map(show).collect();
        return format!("{total} attempts: {}", failures.join("; "));
    }
    // A server that sends ten bytes at a time fails fifty times, each at another place.
    let (first, rest) = attempts.split_at(MAX_SHOWN / 2);
    let (left_out, last) = rest.split_at(rest.len() - MAX_SHOWN / 2);
    let [first, last] = [first, last].map(|some| some.iter().map(show).collect::<Vec<_>>());
    format!(
        "{total} attempts: {}; and {} failures more; at last {}",
        first.join("; "),
        left_out.len(),
        last.join("; ")
    )
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
