//! Checking the peers' certificates, and keeping what was wrong with them for the message.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::fault::CertificateFault;
use super::judge::{Judge, Shown};

/// Checks the host by its roots, the proxy by its own, and one host perhaps not at all.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) algorithms: WebPkiSupportedAlgorithms,
    pub(super) host: Judge,
    pub(super) unverified: Option<ServerName<'static>>,
    pub(super) proxy: Option<ProxyVerifier>,
}

#[derive(Debug)]
pub(super) struct ProxyVerifier {
    pub(super) name: ServerName<'static>,
    pub(super) judge: Judge,
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
        let proxy = self.proxy.as_ref().filter(|proxy| proxy.name == *server_name);
        let judge = proxy.map_or(&self.host, |proxy| &proxy.judge);
        let shown = Shown { end_entity, intermediates, ocsp_response };
        judge.verify(shown, server_name, now).map_err(|error| {
            let Error::InvalidCertificate(cause) = error else {
                return error;
            };
            let mut fault =
                CertificateFault::new(&cause, end_entity, intermediates, server_name, now);
            fault.is_proxy = proxy.is_some();
            fault.name_roots(&judge.outside);
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(fault))))
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
