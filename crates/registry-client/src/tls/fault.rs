//! What is wrong with a certificate, in words.

use std::fmt;

use registry_config::RootOutsideDates;
use rustls::CertificateError;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::certificate::{Portrait, day};
use super::find_rustls_error;

/// How many roots that do not count are named.
const MAX_ROOTS: usize = 4;

/// Why a certificate is not trusted, and which one that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFault {
    /// Words for the user.
    pub reason: String,
    /// Whether it is a proxy's certificate.
    pub is_proxy: bool,
}

impl CertificateFault {
    /// Tells what is known. The certificates come from the peer and are not verified: they are only
    /// described.
    pub(super) fn new(
        cause: &CertificateError,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        expected: &ServerName<'_>,
        now: UnixTime,
    ) -> Self {
        let chain: Vec<_> = std::iter::once(end_entity)
            .chain(intermediates)
            .map(|certificate| Portrait::of(certificate))
            .collect();
        let offender = match cause {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => chain
                .iter()
                .position(|portrait| portrait.as_ref().is_some_and(|one| !one.is_valid_at(now)))
                .unwrap_or(0),
            _ => 0,
        };
        let shown = match chain.get(offender) {
            Some(Some(portrait)) => portrait.to_string(),
            _ => "one that cannot be read".to_owned(),
        };
        let whose =
            if offender > 0 { "the certificate of an authority on the way, " } else { "it is " };
        let expected = expected.to_str();
        let words = words(cause, now, &chain);
        Self {
            reason: format!("{words} ({whose}{shown}; expected was one for {expected:?})"),
            is_proxy: false,
        }
    }
}

impl CertificateFault {
    /// Adds the roots that do not count: the certificate may be good, and its authority too old.
    pub(super) fn name_roots(&mut self, outside: &[RootOutsideDates]) {
        if outside.is_empty() {
            return;
        }
        let shown: Vec<_> = outside.iter().take(MAX_ROOTS).map(ToString::to_string).collect();
        let more = outside.len().saturating_sub(MAX_ROOTS);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        self.reason.push_str(&format!(
            "; of \"ca-certs\" these count no more or not yet: {}{more}",
            shown.join("; ")
        ));
    }
}

fn words(cause: &CertificateError, now: UnixTime, chain: &[Option<Portrait>]) -> String {
    match cause {
        CertificateError::UnknownIssuer => {
            let mut words = "it was issued by an unknown authority".to_owned();
            if let Some(missing) = missing_issuer(chain) {
                words.push_str(&format!(", {missing}"));
            }
            words
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("it has expired, or the clock of the guest is wrong, which says {}", day(now))
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!(
                "it is not valid yet, or the clock of the guest is wrong, which says \
            {}",
                day(now)
            )
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for other names".to_owned()
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "it is the certificate of an authority and not of a server (issue one \
            with \"CA:FALSE\" and a subject alternative name, or put this one into \"ca-certs\")"
                .to_owned()
        }
        // The library lists the numbers of all algorithms that it knows.
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "it, or an authority on the way, is signed with an algorithm that nobody should take \
            any more, such as SHA-1"
                .to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not for servers (its extended key usage has no serverAuth)".to_owned()
        }
        other => other.to_string(),
    }
}

/// The name at which the chain that the peer sent ends: one of the trusted roots should have it.
fn missing_issuer(chain: &[Option<Portrait>]) -> Option<&str> {
    let mut issuer = &chain.first()?.as_ref()?.issuer;
    // Each certificate is used at most once, so that a circle ends.
    for _ in chain {
        let next = chain
            .iter()
            .skip(1)
            .flatten()
            .find(|portrait| portrait.subject == *issuer && portrait.issuer != *issuer);
        match next {
            Some(next) => issuer = &next.issuer,
            None => break,
        }
    }
    Some(issuer)
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for CertificateFault {}

/// What a failed request says about a peer's certificate, if that is why it failed.
pub fn certificate_fault(error: &(dyn std::error::Error + 'static)) -> Option<CertificateFault> {
    let rustls::Error::InvalidCertificate(fault) = find_rustls_error(error)? else {
        return None;
    };
    let described = match fault {
        CertificateError::Other(other) => other.0.downcast_ref::<CertificateFault>().cloned(),
        _ => None,
    };
    Some(
        described
            .unwrap_or_else(|| CertificateFault { reason: fault.to_string(), is_proxy: false }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
    };

    const DAY: u64 = 24 * 60 * 60;

    fn parameters(name: &str, years: (i32, i32)) -> CertificateParams {
        let mut parameters = CertificateParams::new(vec!["registry.corp".to_owned()]).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.not_before = date_time_ymd(years.0, 1, 1);
        parameters.not_after = date_time_ymd(years.1, 1, 1);
        parameters
    }

    /// A chain of three: a server, an intermediate authority and the root that signed it.
    fn chain(server: (i32, i32), between: (i32, i32)) -> [CertificateDer<'static>; 3] {
        let keys = [(); 3].map(|()| KeyPair::generate().unwrap());
        let authority = |name, years| {
            let mut parameters = parameters(name, years);
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            parameters
        };
        let root = authority("Root", (2000, 2100));
        let middle = authority("Middle", between);
        let server = parameters("a\nserver", server);
        let by_middle = Issuer::from_params(&middle, &keys[1]);
        let by_root = Issuer::from_params(&root, &keys[2]);
        let signed = server.signed_by(&keys[0], &by_middle).unwrap();
        let between = middle.signed_by(&keys[1], &by_root).unwrap();
        let root = root.self_signed(&keys[2]).unwrap();
        [signed, between, root].map(|certificate| certificate.der().clone())
    }

    fn told(cause: CertificateError, chain: &[CertificateDer<'_>]) -> String {
        let expected = ServerName::try_from("registry.corp").unwrap();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(20_000 * DAY));
        CertificateFault::new(&cause, &chain[0], &chain[1..], &expected, now).reason
    }

    #[test]
    fn the_offending_certificate_is_named() {
        let good = chain((2020, 2030), (2020, 2030));
        assert_eq!(
            told(CertificateError::UnknownIssuer, &good[..2]),
            "it was issued by an unknown authority, \"CN=Root\" (it is \"CN=a\\\\0aserver\" \
            for \"registry.corp\", issued by \"CN=Middle\", valid from 2020-01-01 to 2030-01-01; \
            expected was one for \"registry.corp\")"
        );
        assert!(
            told(CertificateError::UnknownIssuer, &good[..1])
                .contains("authority, \"CN=Middle\" (")
        );
        assert!(told(CertificateError::UnknownIssuer, &good).contains("authority, \"CN=Root\" ("));
        let old = chain((2020, 2030), (2019, 2020));
        let text = told(CertificateError::Expired, &old[..2]);
        assert!(
            text.starts_with(
                "it has expired, or the clock of the guest is wrong, which says 2024-10-04 "
            ),
            "{text}"
        );
        assert!(text.contains("authority on the way, \"CN=Middle\" for"), "{text}");
        let old = chain((2019, 2020), (2020, 2030));
        assert!(told(CertificateError::Expired, &old[..2]).contains("it is \"CN=a\\\\0aserver\""));
        let nonsense = [CertificateDer::from(vec![1, 2, 3])];
        assert!(told(CertificateError::BadEncoding, &nonsense).contains("cannot be read"));
    }
}
