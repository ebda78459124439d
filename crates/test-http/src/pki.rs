//! A private certificate authority and the certificates it signs.

use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

/// A certificate authority that only those clients trust whom a test tells to.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// A server's certificate and key, both PEM.
#[derive(Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS#8.
    pub key: String,
}

impl Authority {
    /// Makes an authority with a fresh P-256 key; `name` becomes its common name.
    ///
    /// # Errors
    ///
    /// Where key or certificate cannot be made.
    pub fn new(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// The authority's own certificate, PEM: what a client puts into `ca-certs`.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Signs a server certificate for `names`, DNS names or IP addresses.
    ///
    /// # Errors
    ///
    /// Where a name is neither, or the certificate cannot be made.
    pub fn sign(&self, names: &[&str]) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut params =
            CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }

    /// Signs a server certificate for `names` that ended years ago.
    ///
    /// # Errors
    ///
    /// As for [`Authority::sign`].
    pub fn sign_expired(&self, names: &[&str]) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut params =
            CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }

    /// Signs a certificate for a TLS client of this name.
    ///
    /// # Errors
    ///
    /// Where the certificate cannot be made.
    pub fn sign_client(&self, name: &str) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }

    /// The rustls configuration of a server that shows a new certificate for `names`.
    ///
    /// # Errors
    ///
    /// As for [`Authority::sign`].
    pub fn server_config(&self, names: &[&str]) -> Result<ServerConfig> {
        self.sign(names)?.server_config()
    }

    /// The same for a server that asks for certificates that `clients` signed, and serves whoever
    /// shows none.
    ///
    /// # Errors
    ///
    /// As for [`Authority::sign`].
    pub fn server_config_asking(&self, names: &[&str], clients: &Self) -> Result<ServerConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(clients.certificate.as_bytes())?)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider());
        let verifier = verifier.allow_unauthenticated().build()?;
        self.sign(names)?.server_config_with(verifier)
    }
}

impl Identity {
    /// The rustls configuration of a server that shows this certificate.
    ///
    /// # Errors
    ///
    /// Where certificate or key cannot be read.
    pub fn server_config(&self) -> Result<ServerConfig> {
        self.server_config_with(WebPkiClientVerifier::no_client_auth())
    }

    fn server_config_with(&self, clients: Arc<dyn ClientCertVerifier>) -> Result<ServerConfig> {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .context("failed to read the certificate")?;
        let key =
            PrivateKeyDer::from_pem_slice(self.key.as_bytes()).context("failed to read the key")?;
        Ok(ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate], key)?)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
