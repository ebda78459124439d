//! The portrait of a certificate that nobody vouches for, so every word of it may be a lie.

use std::fmt;
use std::time::Duration;

use der::{DateTime, Decode as _};
use foreign_text::shown;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_cert::Certificate;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The most characters of a name that are shown; real ones have a few dozen.
const MAX_NAME_CHARS: usize = 120;

/// The most alternative names that are shown; content delivery networks have a hundred.
const MAX_NAMES: usize = 5;

/// What a person wants to know about a certificate.
#[derive(Debug)]
pub(super) struct Portrait {
    pub(super) subject: String,
    pub(super) issuer: String,
    names: Vec<String>,
    valid: (DateTime, DateTime),
}

impl Portrait {
    /// Reads it, if that can be done at all.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = Certificate::from_der(certificate).ok()?;
        let certificate = certificate.tbs_certificate();
        let names = certificate.get_extension::<SubjectAltName>().ok().flatten();
        let names = names.map_or_else(Vec::new, |(_, names)| names.0);
        let validity = certificate.validity();
        Some(Self {
            subject: printable(&certificate.subject().to_string()),
            issuer: printable(&certificate.issuer().to_string()),
            names: names.iter().map(alternative).collect(),
            valid: (
                validity.not_before.to_date_time(),
                validity.not_after.to_date_time(),
            ),
        })
    }

    /// Whether this is its time.
    pub(super) fn is_valid_at(&self, now: UnixTime) -> bool {
        moment(now).is_none_or(|now| self.valid.0 <= now && now <= self.valid.1)
    }
}

impl fmt::Display for Portrait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.subject)?;
        for (at, name) in self.names.iter().take(MAX_NAMES).enumerate() {
            write!(f, "{}{name}", if at == 0 { " for " } else { ", " })?;
        }
        if self.names.len() > MAX_NAMES {
            write!(f, " and {} more names", self.names.len() - MAX_NAMES)?;
        }
        let (from, to) = (date(self.valid.0), date(self.valid.1));
        write!(f, ", issued by {}, valid from {from} to {to}", self.issuer)
    }
}

/// A moment as in messages, to the minute.
pub(super) fn day(now: UnixTime) -> String {
    let Some(now) = moment(now) else {
        return "no time at all".to_owned();
    };
    let (hour, minute) = (now.hour(), now.minutes());
    format!("{} {hour:02}:{minute:02} UTC", date(now))
}

fn moment(now: UnixTime) -> Option<DateTime> {
    DateTime::from_unix_duration(Duration::from_secs(now.as_secs())).ok()
}

fn date(moment: DateTime) -> String {
    let (year, month, day) = (moment.year(), moment.month(), moment.day());
    format!("{year:04}-{month:02}-{day:02}")
}

fn alternative(name: &GeneralName) -> String {
    let bytes = match name {
        GeneralName::DnsName(name) => return printable(name.as_str()),
        GeneralName::IpAddress(address) => address.as_bytes(),
        _ => return printable("a name that is neither a host nor an address"),
    };
    match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (Ok(bytes), _) => printable(&std::net::Ipv4Addr::from(bytes).to_string()),
        (_, Ok(bytes)) => printable(&std::net::Ipv6Addr::from(bytes).to_string()),
        _ => printable("an address of no known kind"),
    }
}

/// In quotes, on one line, as a terminal may show it.
fn printable(text: &str) -> String {
    shown(text).up_to(MAX_NAME_CHARS).quoted().to_string()
}
