//! Which certificates an entry's roots verify.

use std::sync::Arc;

use registry_config::{RootOutsideDates, Roots};
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier as _};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::certificate::Portrait;

/// The roots of an entry, or the web's.
#[derive(Debug)]
pub(super) struct Judge {
    /// None where no root counts.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    /// The entry's own roots that count.
    pinned: Vec<CertificateDer<'static>>,
    /// Those that do not, for the message.
    pub(super) outside: Vec<RootOutsideDates>,
}

/// What a peer shows.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) end_entity: &'a CertificateDer<'a>,
    pub(super) intermediates: &'a [CertificateDer<'a>],
    pub(super) ocsp_response: &'a [u8],
}

impl Judge {
    /// Takes the roots that count at a time in seconds since 1970.
    pub(super) fn new(
        roots: Option<&Roots>,
        provider: &Arc<CryptoProvider>,
        now: u64,
    ) -> Result<Self, String> {
        let at = roots.map(|roots| roots.at(now));
        let (counting, outside) = at.map(|at| (at.counting, at.others)).unwrap_or_default();
        let pinned: Vec<CertificateDer<'static>> = counting.into_iter().cloned().collect();
        let store = store(roots.is_none_or(Roots::is_beside_web), &pinned)?;
        let verifier = if store.is_empty() && !outside.is_empty() {
            None
        } else {
            let builder =
                WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone());
            Some(builder.build().map_err(|error| error.to_string())?)
        };
        Ok(Self { verifier, pinned, outside })
    }

    /// Judges what a peer shows.
    ///
    /// A server's certificate that is one of the entry's own roots, byte for byte, is believed as
    /// it stands, whatever it says of being an authority: `openssl req -x509` makes such ones, and
    /// people pin them. Its names and its dates are checked all the same.
    pub(super) fn verify(
        &self,
        shown: Shown<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Shown { end_entity, intermediates, ocsp_response } = shown;
        if self.pinned.iter().any(|pinned| pinned == end_entity) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
            let portrait = Portrait::of(end_entity);
            let portrait = portrait.ok_or(CertificateError::BadEncoding)?;
            if !portrait.is_valid_at(now) {
                return Err(CertificateError::Expired.into());
            }
            if !portrait.is_for_servers {
                return Err(CertificateError::InvalidPurpose.into());
            }
            return Ok(ServerCertVerified::assertion());
        }
        match &self.verifier {
            Some(verifier) => {
                verifier.verify_server_cert(end_entity, intermediates, name, ocsp_response, now)
            }
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }
}

fn store(with_web: bool, given: &[CertificateDer<'static>]) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    if with_web {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    for (at, certificate) in given.iter().enumerate() {
        store.add(certificate.clone()).map_err(|error| {
            format!("certificate {} of \"ca-certs\" cannot be used: {error}", at + 1)
        })?;
    }
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_roots_replace_the_webs_or_stand_beside_them() {
        let authority = test_http::pki::Authority::new("given").unwrap();
        let given = authority.certificate();
        let count = |keys: &str| {
            let text = format!("[registries.\".\"]\nca-certs = '''\n{given}'''\n{keys}");
            let checked = registry_config::Document::parse(text.as_bytes()).unwrap();
            let (_, entry) = checked.document.registries.iter().next().unwrap();
            let roots = entry.ca_certs.as_ref().unwrap();
            store(roots.is_beside_web(), roots.certificates()).unwrap().len()
        };
        let web = store(true, &[]).unwrap().len();
        assert!(web > 1);
        assert_eq!([count(""), count("web-roots = true")], [1, web + 1]);
    }
}
