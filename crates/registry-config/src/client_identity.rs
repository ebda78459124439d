//! The certificate that the puller shows to a registry.

use std::fmt;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroize as _;

use crate::section::Section;
use crate::{Roots, Rule, Secret};

/// A TLS client certificate with its private key. `Debug` shows neither.
///
/// That they belong together is for those to find out who work with keys: `check` on the host, and
/// TLS in the guest.
#[derive(Clone)]
pub struct ClientIdentity {
    chain: Roots,
    key: Secret,
}

impl ClientIdentity {
    /// Both, if a document can hold them.
    #[must_use]
    pub fn new(chain: Roots, key: Secret) -> Option<Self> {
        let is_whole = !chain.trusts_nobody() && is_key(key.expose());
        is_whole.then_some(Self { chain, key })
    }

    /// The certificate, and those that lead to its authority.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        self.chain.certificates()
    }

    /// The private key, PEM of PKCS#8, PKCS#1 or SEC1.
    pub fn key_pem(&self) -> &Secret {
        &self.key
    }

    /// The length of both as they are written.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        self.chain.written_bytes() + self.key.expose().len()
    }

    /// The private key as TLS takes it; zeroing it is the caller's.
    pub fn key(&self) -> Option<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(self.key.expose().as_bytes()).ok()
    }

    /// Reads both keys; what is broken is reported.
    pub(crate) fn read(section: &mut Section<'_, '_>) -> Option<Self> {
        let chain = Roots::read("client-cert", section);
        let key = section.text("client-key");
        let [has_chain, has_key] = ["client-cert", "client-key"].map(|key| section.has(key));
        section.needs("client-cert", has_key, Rule::HalfClientIdentity);
        section.needs("client-key", has_chain, Rule::HalfClientIdentity);
        if has_chain != has_key {
            return None;
        }
        let is_empty = chain.as_ref().is_some_and(Roots::trusts_nobody);
        section.needs("client-cert", !is_empty, Rule::NoClientCertificate);
        let key = key?;
        section.needs("client-key", is_key(key), Rule::ClientKey);
        Self::new(chain?, key.to_owned().into())
    }
}

/// Whether a text is PEM with one private key that needs no password.
fn is_key(text: &str) -> bool {
    let mut keys = PrivateKeyDer::pem_slice_iter(text.as_bytes());
    let Some(Ok(mut first)) = keys.next() else {
        return false;
    };
    first.zeroize();
    keys.next().is_none()
}

impl PartialEq for ClientIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.chain == other.chain && self.key.expose() == other.key.expose()
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}
