//! The rest of a blob: what a server says that it sends, against what was asked for (RFC 9110,
//! section 14).

use std::fmt;
use std::ops::Range;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap};

/// Bytes of a blob to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first one.
    pub from: u64,
    /// The first one that is not asked for; nothing for all the rest.
    pub until: Option<u64>,
}

impl Part {
    /// All the rest.
    pub fn from(from: u64) -> Self {
        Self { from, until: None }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes={}-", self.from)?;
        // The last byte is written, not the one after it.
        self.until.map_or(Ok(()), |until| write!(f, "{}", until.saturating_sub(1)))
    }
}

/// Whether an answer has exactly these bytes of a blob of that size.
pub fn is_exactly(status: StatusCode, headers: &HeaderMap, wanted: &Range<u64>, size: u64) -> bool {
    let is_part = status == StatusCode::PARTIAL_CONTENT;
    let starts = is_part && start(status, headers, wanted.start, size) == Ok(wanted.start);
    let range = headers.get(CONTENT_RANGE).and_then(|range| parse(range.to_str().ok()?));
    starts && range.is_some_and(|(_, end, _)| end.checked_add(1) == Some(wanted.end))
}

/// Where in the blob the bytes of an answer begin.
///
/// # Errors
///
/// [`Contradiction`] if the answer is about other bytes than were asked for, or about a blob of
/// another size.
pub fn start(
    status: StatusCode,
    headers: &HeaderMap,
    wanted: u64,
    size: u64,
) -> Result<u64, Contradiction> {
    let length = content_length(headers);
    match status {
        StatusCode::PARTIAL_CONTENT => {
            let range = headers.get(CONTENT_RANGE).and_then(|range| parse(range.to_str().ok()?));
            let Some((start, end, total)) = range else {
                return Err(Contradiction::Range("does not say which part"));
            };
            if start != wanted || total.is_some_and(|total| total != size) || end >= size {
                return Err(Contradiction::Range("sends another part"));
            }
            // From `parse`: the end is not before the start.
            let part = (end - start).saturating_add(1);
            if length.is_some_and(|length| length != part) {
                return Err(Contradiction::Range("announces a part in another length"));
            }
            Ok(start)
        }
        _ => match length {
            Some(length) if length != size => Err(Contradiction::Length(length)),
            _ => Ok(0),
        },
    }
}

/// How an answer contradicts the question.
#[derive(Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// Other bytes of the blob. Asking for the whole of it may help.
    Range(&'static str),
    /// The whole blob has another length. Nothing helps.
    Length(u64),
}

/// The length of the body, where the answer tells it.
pub fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads `bytes START-END/TOTAL`, where the total may be `*`.
fn parse(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let number = |text: &str| -> Option<u64> {
        // A parser of numbers would also take a sign.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits)
    };
    let (unit, rest) = text.trim().split_once(' ')?;
    let (range, total) = rest.trim_start().split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let total = match total {
        "*" => None,
        total => Some(number(total)?),
    };
    let (start, end) = (number(start)?, number(end)?);
    (unit.eq_ignore_ascii_case("bytes") && start <= end).then_some((start, end, total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reqwest::header::HeaderValue;

    fn answer(status: u16, range: &str, length: Option<&str>) -> Result<u64, Contradiction> {
        let mut headers = HeaderMap::new();
        if !range.is_empty() {
            headers.insert(CONTENT_RANGE, HeaderValue::from_str(range).unwrap());
        }
        if let Some(length) = length {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_str(length).unwrap());
        }
        start(StatusCode::from_u16(status).unwrap(), &headers, 10, 100)
    }

    #[test]
    fn the_right_rest_is_taken() {
        for (status, range, length, start) in [
            (206, "bytes 10-99/100", Some("90"), 10),
            (206, "bytes 10-99/100", None, 10),
            (206, "Bytes 10-99/*", None, 10),
            (206, "bytes 10-19/100", Some("10"), 10),
            (206, "bytes 10-10/100", Some("1"), 10),
            (200, "", Some("100"), 0),
            (200, "", None, 0),
            (200, "bytes 10-99/100", Some("100"), 0),
        ] {
            assert_eq!(answer(status, range, length), Ok(start), "{status} {range} {length:?}");
        }
    }

    #[test]
    fn liars_are_noticed() {
        for (range, length) in [
            ("", Some("90")),
            ("bytes 0-99/100", Some("100")),
            ("bytes 11-99/100", None),
            ("bytes 10-100/100", None),
            ("bytes 10-99/101", None),
            ("bytes 10-99/99", None),
            ("bytes 10-9/100", None),
            ("bytes 10-18446744073709551615/*", None),
            ("bytes 10-99999999999999999999999/100", None),
            ("bytes */100", None),
            ("bytes +10-99/100", None),
            ("items 10-99/100", None),
            ("bytes 10-99", None),
            ("bytes 10-99/100", Some("100")),
        ] {
            let refused = answer(206, range, length);
            assert!(matches!(refused, Err(Contradiction::Range(_))), "{range} {refused:?}");
        }
        assert_eq!(answer(200, "", Some("99")), Err(Contradiction::Length(99)));
        assert_eq!(answer(200, "", Some("101")), Err(Contradiction::Length(101)));
    }

    proptest! {
        /// What is written is read, and what is read can be written.
        #[test]
        fn ranges_survive(start in 0..=u64::MAX, more in 0..=u64::MAX, total in proptest::option::of(any::<u64>())) {
            let end = start.saturating_add(more);
            let shown = total.map_or("*".to_owned(), |total| total.to_string());
            prop_assert_eq!(parse(&format!("bytes {start}-{end}/{shown}")), Some((start, end, total)));
        }

        #[test]
        fn any_range_is_read(text in "\\PC{0,40}") {
            let _ = parse(&text);
        }
    }
}
