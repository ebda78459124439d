//! When a server wants to be asked again: the `Retry-After` header (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// Longer than any pull: what is beyond it is cut, so that no number of a server's overflows a
/// clock.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Reads it: a number of seconds or a date. Dates count from the `Date` of the same answer where it
/// has one, because a guest's clock is the host's to set.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number holds are a long time too.
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    }
    let then = httpdate::parse_http_date(text).ok()?;
    let now = server_time(headers).unwrap_or_else(SystemTime::now);
    let wait = then.duration_since(now).unwrap_or_default();
    Some(wait.min(MAX_RETRY_AFTER))
}

/// What time it is for the server.
pub fn server_time(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    #[test]
    fn seconds_and_dates_are_read() {
        const DAY: &str = "Wed, 21 Oct 2015 07:28:00 GMT";
        for (value, date, seconds) in [
            ("0", None, Some(0)),
            (" 120 ", None, Some(120)),
            ("99999999999999999999999999", None, Some(MAX_RETRY_AFTER.as_secs())),
            ("Wed, 21 Oct 2015 07:28:30 GMT", Some(DAY), Some(30)),
            ("Wed, 21 Oct 2015 07:00:00 GMT", Some(DAY), Some(0)),
            ("Wednesday, 21-Oct-15 07:29:00 GMT", Some(DAY), Some(60)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(DAY), Some(MAX_RETRY_AFTER.as_secs())),
            (DAY, None, Some(0)),
            ("", None, None),
            ("-1", None, None),
            ("1.5", None, None),
            ("soon", None, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(value));
            if let Some(date) = date {
                headers.insert(DATE, HeaderValue::from_static(date));
            }
            assert_eq!(retry_after(&headers).map(|wait| wait.as_secs()), seconds, "{value:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
