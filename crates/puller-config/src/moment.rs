//! A moment that a document names.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use toml::de::DeValue;
use toml::value::{Datetime, Offset};

use crate::Rule;
use crate::problem::Findings;
use crate::section::{Field, wrong_type};

/// A date and a time with its offset from UTC, since 1970. Shown as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    written: Datetime,
    /// Since the beginning of 1970, UTC.
    seconds: u64,
}

impl Moment {
    /// When that is, in whole seconds.
    #[must_use]
    pub fn time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.seconds)
    }

    pub(crate) fn read(field: &Field<&mut DeValue<'_>>, findings: &mut Findings) -> Option<Self> {
        let rule = match &*field.value {
            DeValue::Datetime(written) => match seconds(written) {
                Some(seconds) => {
                    let written = *written;
                    return Some(Self { written, seconds });
                }
                None => Rule::Moment,
            },
            other => wrong_type("date and time", other),
        };
        findings.problem(&field.place, rule);
        None
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(f)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Since the beginning of 1970; nothing for what does not say where it is that time, or is earlier.
fn seconds(written: &Datetime) -> Option<u64> {
    let (date, time, offset) = (written.date?, written.time?, written.offset?);
    let minutes_east = match offset {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days(date.year.into(), date.month.into(), date.day.into());
    let minutes = (days * 24 + i64::from(time.hour)) * 60 + i64::from(time.minute);
    let second = i64::from(time.second.unwrap_or(0));
    u64::try_from((minutes - minutes_east) * 60 + second).ok()
}

/// The days from the beginning of 1970 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March have their odd day at the end.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}
