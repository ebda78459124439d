//! Checking the peers' certificates, and keeping what was wrong with them for the message.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::fault::CertificateFault;

/// Checks the host by its roots, the proxy by its own, and one host perhaps not at all.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) host: Arc<WebPkiServerVerifier>,
    pub(super) unverified: Option<ServerName<'static>>,
    pub(super) proxy: Option<ProxyVerifier>,
}

#[derive(Debug)]
pub(super) struct ProxyVerifier {
    pub(super) name: ServerName<'static>,
    pub(super) verifier: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.unverified.as_ref() == Some(server_name) {
            return Ok(ServerCertVerified::assertion());
        }
        let proxy = self
            .proxy
            .as_ref()
            .filter(|proxy| proxy.name == *server_name);
        let verifier = proxy.map_or(&self.host, |proxy| &proxy.verifier);
        let verified =
            verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        verified.map_err(|error| {
            let Error::InvalidCertificate(cause) = error else {
                return error;
            };
            let mut fault =
                CertificateFault::new(&cause, end_entity, intermediates, server_name, now);
            fault.is_proxy = proxy.is_some();
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(fault))))
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.host.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.host.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.host.supported_verify_schemes()
    }
}
