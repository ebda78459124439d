//! Whom to trust on a connection: the document's roots or the web's, and nobody where the document says so.

use std::sync::Arc;

use puller_config::Roots;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Makes the configuration of a client.
///
/// `unverified` is the one host whose certificate goes unchecked; a proxy on the way to it is still checked.
///
/// # Errors
///
/// Words about a root that is no certificate, about no root at all, or about the crypto provider.
pub fn client_config(
    roots: Option<&Roots>,
    unverified: Option<&str>,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let store = Arc::new(root_store(roots)?);
    let verifier: Arc<dyn ServerCertVerifier> =
        WebPkiServerVerifier::builder_with_provider(store, provider.clone())
            .build()
            .map_err(|error| error.to_string())?;
    let verifier = match unverified {
        None => verifier,
        Some(host) => {
            let host = ServerName::try_from(host.to_owned())
                .map_err(|error| format!("{host:?}: {error}"))?;
            Arc::new(ExceptHost {
                host,
                others: verifier,
            })
        }
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    // No ALPN, and so HTTP/1.1: over TLS it costs half the CPU of HTTP/2 per byte, and blobs are all that counts.
    Ok(config)
}

fn root_store(roots: Option<&Roots>) -> Result<RootCertStore, String> {
    let Some(roots) = roots else {
        return Ok(RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        });
    };
    let mut store = RootCertStore::empty();
    for (at, certificate) in roots.certificates().iter().enumerate() {
        store.add(certificate.clone()).map_err(|error| {
            format!(
                "certificate {} of \"ca-certs\" cannot be used: {error}",
                at + 1
            )
        })?;
    }
    Ok(store)
}

/// Checks every certificate but one host's.
#[derive(Debug)]
struct ExceptHost {
    host: ServerName<'static>,
    others: Arc<dyn ServerCertVerifier>,
}

impl ServerCertVerifier for ExceptHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *server_name == self.host {
            return Ok(ServerCertVerified::assertion());
        }
        self.others
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.others.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.others.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.others.supported_verify_schemes()
    }
}

/// What a failed request says about the peer's certificate, if that is why it failed.
pub fn certificate_fault(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let fault = find_rustls_error(error)?;
    let rustls::Error::InvalidCertificate(fault) = fault else {
        return None;
    };
    Some(match fault {
        CertificateError::UnknownIssuer => "it was issued by an unknown authority".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("{fault}; check the clock of the guest too")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("{fault}; check the clock of the guest too")
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "it is the certificate of an authority and not of a server (issue one with \"CA:FALSE\" and a subject alternative name)".to_owned()
        }
        fault => fault.to_string(),
    })
}

/// Whether the peer answered, but not in TLS.
pub fn is_not_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(
        find_rustls_error(error),
        Some(rustls::Error::InvalidMessage(_))
    )
}

fn find_rustls_error<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        // An I/O error hides what it wraps from `source`, which goes one step too far.
        let wrapped = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        next = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}
