//! What time it is, by the brokers: the guest's own clock is the host's to set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::{DATE, HeaderMap};
use url::Url;

/// The newest time that a broker named to this program, in seconds since 1970; 0 before the first.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// The newest time that a broker named in an answer over TLS, since this program started.
#[must_use]
pub fn broker_time() -> Option<SystemTime> {
    match NEWEST.load(Ordering::Relaxed) {
        0 => None,
        seconds => Some(UNIX_EPOCH + Duration::from_secs(seconds)),
    }
}

/// Remembers what the answer of a server says of the time. In clear anybody could say it.
pub(crate) fn note(server: &Url, headers: &HeaderMap) {
    if server.scheme() != "https" {
        return;
    }
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    if let Some(since) = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok()) {
        NEWEST.fetch_max(since.as_secs(), Ordering::Relaxed);
    }
}
