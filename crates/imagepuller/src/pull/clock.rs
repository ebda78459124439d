//! The least time that the guest believes: its clock is the host's to set, and decides whether
//! certificates, tokens and signatures still count.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pull_route::Settings;

use crate::error::Error;

/// When the sources of this program were as they are, in seconds since 1970: the build says it, so
/// that the same sources give the same program. Unknown where the build does not.
const BUILT: Option<&str> = option_env!("SOURCE_DATE_EPOCH");

/// The beginning of the year 9999.
const CALENDAR_END: Duration = Duration::from_secs(253_370_764_800);

/// A time that has certainly passed, and who says so.
type Floor = (SystemTime, &'static str);

/// Refuses to go on with a clock that is certainly wrong.
///
/// # Errors
///
/// [`Error::Clock`].
pub fn check(settings: &Settings) -> Result<(), Error> {
    let owner = settings.clock_not_before().map(|moment| moment.time());
    let floor = floor(BUILT, owner);
    let now = SystemTime::now();
    match floor {
        Some((time, reason)) if now < time => {
            Err(Error::Clock { time: shown(time), reason, now: shown(now) })
        }
        _ => Ok(()),
    }
}

/// A time for people. The host may have set the clock to what no calendar has.
fn shown(time: SystemTime) -> String {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) if since < CALENDAR_END => httpdate::fmt_http_date(time),
        Ok(_) => "after the year 9998".to_owned(),
        Err(_) => "before the year 1970".to_owned(),
    }
}

/// The newest of what is known.
fn floor(built: Option<&str>, owner: Option<SystemTime>) -> Option<Floor> {
    let built = built.and_then(|seconds| seconds.parse().ok());
    let built = built.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    [
        built.map(|time| (time, "when this program was made")),
        owner.map(|time| (time, "\"clock-not-before\" of the measured document")),
    ]
    .into_iter()
    .flatten()
    .max_by_key(|(time, _)| *time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_can_be_shown() {
        for (time, expected) in [
            (UNIX_EPOCH, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (UNIX_EPOCH - Duration::from_secs(1), "before the year 1970"),
            (UNIX_EPOCH + CALENDAR_END, "after the year 9998"),
            (UNIX_EPOCH + CALENDAR_END - Duration::from_secs(1), "Thu, 31 Dec 9998 23:59:59 GMT"),
        ] {
            assert_eq!(shown(time), expected);
        }
    }

    #[test]
    fn the_newest_of_what_is_known_counts() {
        let at = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
        for (built, owner, expected) in [
            (None, None, None),
            (Some(""), None, None),
            (Some("18446744073709551615"), None, None),
            (Some("1000"), None, Some((1000, "when this"))),
            (Some("1000"), at(999), Some((1000, "when this"))),
            (Some("1000"), at(1001), Some((1001, "\"clock-not"))),
        ] {
            let found = floor(built, owner);
            let found = found.map(|(time, reason)| (Some(time), reason));
            match (found, expected) {
                (Some((time, reason)), Some((seconds, start))) => {
                    assert_eq!(time, at(seconds));
                    assert!(reason.starts_with(start), "{reason}");
                }
                (found, expected) => assert!(found.is_none() && expected.is_none(), "{found:?}"),
            }
        }
    }
}
