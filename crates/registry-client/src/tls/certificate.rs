//! The portrait of a certificate that nobody vouches for, so every word of it may be a lie.

use std::fmt;

use foreign_text::shown;
use rustls_pki_types::{CertificateDer, UnixTime};
use time::OffsetDateTime;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::x509::X509Name;

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
    valid: (OffsetDateTime, OffsetDateTime),
}

impl Portrait {
    /// Reads it, if that can be done at all.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let extension = certificate.subject_alternative_name().ok().flatten();
        let names = extension.map_or(&[][..], |extension| &extension.value.general_names);
        let validity = certificate.validity();
        Some(Self {
            subject: distinguished(certificate.subject()),
            issuer: distinguished(certificate.issuer()),
            names: names.iter().map(alternative).collect(),
            valid: (
                validity.not_before.to_datetime(),
                validity.not_after.to_datetime(),
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
        let (from, to) = (self.valid.0.date(), self.valid.1.date());
        write!(f, ", issued by {}, valid from {from} to {to}", self.issuer)
    }
}

/// A moment as in messages, to the minute.
pub(super) fn day(now: UnixTime) -> String {
    let Some(now) = moment(now) else {
        return "no time at all".to_owned();
    };
    format!("{} {:02}:{:02} UTC", now.date(), now.hour(), now.minute())
}

fn moment(now: UnixTime) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(i64::try_from(now.as_secs()).ok()?).ok()
}

fn distinguished(name: &X509Name<'_>) -> String {
    printable(&name.to_string())
}

fn alternative(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) => printable(name),
        GeneralName::IPAddress(bytes) => {
            match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
                (Ok(bytes), _) => printable(&std::net::Ipv4Addr::from(bytes).to_string()),
                (_, Ok(bytes)) => printable(&std::net::Ipv6Addr::from(bytes).to_string()),
                _ => printable("an address of no known kind"),
            }
        }
        other => printable(&other.to_string()),
    }
}

/// In quotes, on one line, as a terminal may show it.
fn printable(text: &str) -> String {
    shown(text).up_to(MAX_NAME_CHARS).quoted().to_string()
}
