//! When the roots of an entry count.
//!
//! RFC 5280 gives a trust anchor no dates, and TLS libraries read it so. Users do not: they replace
//! an authority when its certificate ends, and whoever found its key later must not be believed. So
//! a root counts between its dates. The guest acts by [`Roots::at`], and the host's programs warn
//! by it.

use std::fmt;

use der::Decode as _;
use foreign_text::shown;
use rustls_pki_types::CertificateDer;
use x509_cert::name::Name;
use x509_cert::time::{Time, Validity};

use crate::Roots;
use crate::der_element::{CONTEXT_0, INTEGER, SEQUENCE, element};

/// The most characters of a subject that are shown; real ones have a few dozen.
const MAX_SUBJECT_CHARS: usize = 120;

/// The roots of an entry at a time.
#[derive(Debug)]
pub struct RootsAt<'a> {
    /// Those that count.
    pub counting: Vec<&'a CertificateDer<'static>>,
    /// Those that verify nobody, each with the reason.
    pub others: Vec<RootOutsideDates>,
}

/// A root outside of its dates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootOutsideDates {
    /// Which one of `ca-certs`, from 1.
    pub number: usize,
    words: String,
}

impl fmt::Display for RootOutsideDates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl Roots {
    /// Which roots count at a time in seconds since 1970. A root whose dates cannot be read does
    /// not. The web's own roots have none.
    #[must_use]
    pub fn at(&self, seconds: u64) -> RootsAt<'_> {
        let mut at = RootsAt { counting: Vec::new(), others: Vec::new() };
        for (number, certificate) in (1..).zip(self.certificates()) {
            match outside(certificate, number, seconds) {
                None => at.counting.push(certificate),
                Some(words) => at.others.push(RootOutsideDates { number, words }),
            }
        }
        at
    }
}

/// How a certificate misses a time, if it does. Its subject is quoted as a terminal may show it.
fn outside(certificate: &[u8], number: usize, seconds: u64) -> Option<String> {
    let Some((subject, validity)) = read(certificate) else {
        return Some(format!("certificate {number}, whose dates cannot be read"));
    };
    let subject = subject.to_string();
    let subject = shown(&subject).up_to(MAX_SUBJECT_CHARS).quoted();
    let (from, to) = (validity.not_before, validity.not_after);
    if seconds < from.to_unix_duration().as_secs() {
        Some(format!("{subject}, which begins on {}", day(from)))
    } else if seconds > to.to_unix_duration().as_secs() {
        Some(format!("{subject}, which ended on {}", day(to)))
    } else {
        None
    }
}

fn day(time: Time) -> String {
    let moment = time.to_date_time();
    let (year, month, day) = (moment.year(), moment.month(), moment.day());
    format!("{year:04}-{month:02}-{day:02}")
}

/// Subject and validity of a certificate (RFC 5280, section 4.1). Nothing else of it is read: roots
/// of private authorities have serial numbers and extensions that strict readers refuse.
fn read(certificate: &[u8]) -> Option<(Name, Validity)> {
    let (content, _) = element(SEQUENCE, certificate)?;
    let (tbs, _) = element(SEQUENCE, content)?;
    let rest = element(CONTEXT_0, tbs).map_or(tbs, |(_, rest)| rest);
    let (_, rest) = element(INTEGER, rest)?;
    let (_algorithm, rest) = element(SEQUENCE, rest)?;
    let (_issuer, validity) = element(SEQUENCE, rest)?;
    let (_, subject) = element(SEQUENCE, validity)?;
    let (_, rest) = element(SEQUENCE, subject)?;
    let whole = |from: &[u8], rest: &[u8]| from.len() - rest.len();
    let validity = Validity::from_der(&validity[..whole(validity, subject)]).ok()?;
    let subject = Name::from_der(&subject[..whole(subject, rest)]).ok()?;
    Some((subject, validity))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = include_str!("../tests/data/root.pem");

    fn roots() -> Roots {
        Roots::parse(ROOT).unwrap()
    }

    fn said_of(roots: &Roots, seconds: u64) -> Vec<String> {
        let at = roots.at(seconds);
        assert_eq!(at.counting.len() + at.others.len(), roots.certificates().len());
        at.others.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_root_counts_between_its_dates() {
        let (_, validity) = read(&roots().certificates()[0]).unwrap();
        let from = validity.not_before.to_unix_duration().as_secs();
        let to = validity.not_after.to_unix_duration().as_secs();
        for inside in [from, from + 1, to - 1, to] {
            assert!(said_of(&roots(), inside).is_empty(), "{inside}");
        }
        for (outside, words) in [(from - 1, "which begins on "), (to + 1, "which ended on ")] {
            let said = said_of(&roots(), outside);
            assert!(said[0].starts_with("\"CN="), "{said:?}");
            assert!(said[0].contains(words), "{said:?}");
        }
    }

    #[test]
    fn a_root_without_readable_dates_does_not_count() {
        let text = "-----BEGIN CERTIFICATE-----\nMAcwADAAAwEA\n-----END CERTIFICATE-----";
        let roots = Roots::parse(text).unwrap();
        assert_eq!(said_of(&roots, 0), ["certificate 1, whose dates cannot be read"]);
    }
}
