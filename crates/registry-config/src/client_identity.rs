//! The certificate that the puller shows to a registry.

use std::fmt;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::{Zeroize, Zeroizing};

use crate::problem::{Findings, Place};
use crate::section::{Field, Section};
use crate::{Roots, Rule, Secret};

/// The keys of an entry.
pub(crate) const CERTIFICATE: &str = "client-cert";
pub(crate) const KEY: &str = "client-key";

/// A TLS client certificate with its private key. `Debug` shows neither.
///
/// That they belong together is for those to find out who work with keys: `check` on the host, and
/// TLS in the guest.
#[derive(Clone)]
pub struct ClientIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: Secret,
}

impl ClientIdentity {
    /// The certificate, and those that lead to its authority.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The private key, PEM of PKCS#8, PKCS#1 or SEC1.
    pub fn key_pem(&self) -> &Secret {
        &self.key
    }

    /// The private key as TLS takes it; zeroing it is the caller's.
    pub fn key(&self) -> Option<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(self.key.expose().as_bytes()).ok()
    }

    /// Takes both keys; what is broken is reported. The place is the private key's.
    pub(crate) fn take(
        section: &mut Section<'_, '_>,
        findings: &mut Findings,
    ) -> (Option<Place>, Option<Self>) {
        let chain = Roots::take(CERTIFICATE, section, findings);
        let key = section.take_string(KEY, findings);
        let (chain, key) = match (chain, key) {
            (None, None) => return (None, None),
            (Some(chain), Some(key)) => (chain, key),
            (Some(Field { place, .. }), None) | (None, Some(Field { place, .. })) => {
                findings.problem(&place, Rule::HalfClientIdentity);
                return (None, None);
            }
        };
        let place = key.place.clone();
        let chain_value = chain.value.filter(|roots| {
            let is_there = !roots.trusts_nobody();
            if !is_there {
                findings.problem(&chain.place, Rule::NoClientCertificate);
            }
            is_there
        });
        let key = key.value.and_then(|text| match checked_key(text) {
            Some(key) => Some(key),
            None => {
                findings.problem(&place, Rule::ClientKey);
                None
            }
        });
        let identity = chain_value
            .zip(key)
            .map(|(roots, key)| Self { chain: roots.certificates().to_vec(), key });
        (Some(place), identity)
    }
}

/// The text, if it is PEM with one private key that needs no password.
fn checked_key(text: Zeroizing<String>) -> Option<Secret> {
    let mut keys = PrivateKeyDer::pem_slice_iter(text.as_bytes());
    let mut first = keys.next()?.ok()?;
    first.zeroize();
    let is_alone = keys.next().is_none();
    drop(keys);
    is_alone.then(|| Secret::from(text))
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}
