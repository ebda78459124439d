//! The least time that the guest believes: its clock is the host's to set, and decides whether
//! certificates, tokens and signatures still count.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::Error;

/// When the sources of this program were as they are, in seconds since 1970: the build says it, so
/// that the same sources give the same program. Unknown where the build does not.
const BUILT: Option<&str> = option_env!("SOURCE_DATE_EPOCH");

/// The beginning of the year 9999.
const CALENDAR_END: Duration = Duration::from_secs(253_370_764_800);

/// Refuses to go on with a clock that is certainly wrong.
///
/// # Errors
///
/// [`Error::Clock`].
pub fn check() -> Result<(), Error> {
    check_at(BUILT, SystemTime::now())
}

fn check_at(built: Option<&str>, now: SystemTime) -> Result<(), Error> {
    let built = built.and_then(|seconds| seconds.parse().ok());
    let built = built.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    match built {
        Some(built) if now < built => Err(Error::Clock { built: shown(built), now: shown(now) }),
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
    fn no_clock_is_before_the_program() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        for (built, now, wrong) in [
            (None, 0, false),
            (Some(""), 0, false),
            (Some("18446744073709551615"), 0, false),
            (Some("1000"), 999, true),
            (Some("1000"), 1000, false),
        ] {
            assert_eq!(check_at(built, at(now)).is_err(), wrong, "{built:?} {now}");
        }
    }
}
