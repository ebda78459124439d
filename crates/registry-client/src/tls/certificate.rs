//! The portrait of a certificate that nobody vouches for, so every word of it may be a lie.

use std::fmt;
use std::time::Duration;

use der::oid::ObjectIdentifier;
use der::{DateTime, Decode as _};
use foreign_text::shown;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_cert::Certificate;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{ExtendedKeyUsage, SubjectAltName};

/// The most characters of a name that are shown; real ones have a few dozen.
const MAX_NAME_CHARS: usize = 120;

/// The most alternative names that are shown; content delivery networks have a hundred.
const MAX_NAMES: usize = 5;

/// `id-kp-serverAuth` and `anyExtendedKeyUsage` (RFC 5280, section 4.2.1.12).
const ID_KP_SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const ANY_EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37.0");

/// What a person wants to know about a certificate.
#[derive(Debug)]
pub(super) struct Portrait {
    pub(super) subject: String,
    pub(super) issuer: String,
    names: Vec<String>,
    valid: (DateTime, DateTime),
    /// Whether its extended key usage, if it has one, is that of a server.
    pub(super) is_for_servers: bool,
}

impl Portrait {
    /// Reads it, if that can be done at all.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = Certificate::from_der(certificate).ok()?;
        let certificate = certificate.tbs_certificate();
        let names = certificate.get_extension::<SubjectAltName>().ok().flatten();
        let names = names.map_or_else(Vec::new, |(_, names)| names.0);
        let usage = certificate.get_extension::<ExtendedKeyUsage>().ok()?;
        let is_server =
            |usage: &ObjectIdentifier| [ID_KP_SERVER_AUTH, ANY_EXTENDED_KEY_USAGE].contains(usage);
        let validity = certificate.validity();
        Some(Self {
            subject: printable(&certificate.subject().to_string()),
            issuer: printable(&certificate.issuer().to_string()),
            names: names.iter().map(alternative).collect(),
            is_for_servers: usage.is_none_or(|(_, usage)| usage.0.iter().any(is_server)),
            valid: (validity.not_before.to_date_time(), validity.not_after.to_date_time()),
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
