//! Whom to trust on a connection: the document's roots or the web's, and nobody where the document
//! says so.

use std::sync::Arc;

use puller_config::Roots;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{AlertDescription, ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;

use crate::explain::causes;

use self::verifier::{ProxyVerifier, Verifier};

mod certificate;
mod fault;
mod verifier;

pub use self::fault::certificate_fault;

/// The versions of HTTP that are offered in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1 alone: the first choice.
    Http1,
    /// HTTP/2 too, which servers then prefer: for those that seem to speak nothing else.
    Http2,
}

/// Whose certificates are checked, and how.
#[derive(Clone, Copy, Debug)]
pub struct Peers<'a> {
    /// The host of the URL, without brackets.
    pub host: &'a str,
    /// Roots for it, instead of the web's.
    pub roots: Option<&'a Roots>,
    /// Whether its certificate goes unchecked.
    pub skip_verify: bool,
    /// A proxy on the way that speaks TLS itself, and the roots for it. It is always checked.
    pub proxy: Option<(&'a str, Option<&'a Roots>)>,
}

/// Makes the configuration of a client.
///
/// The TLS library tells peers apart by name only. So where a proxy has the same name as the host
/// behind it, the host's roots hold for both, and both are checked.
///
/// # Errors
///
/// Words about a root that is no certificate, about no root at all, or about the crypto provider.
pub fn client_config(peers: &Peers<'_>, protocol: Protocol) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let proxy = peers.proxy.filter(|(name, _)| *name != peers.host);
    let is_same_name = proxy.is_none() && peers.proxy.is_some();
    let verifier = Verifier {
        host: web_pki(peers.roots, &provider)?,
        unverified: (peers.skip_verify && !is_same_name)
            .then(|| server_name(peers.host))
            .transpose()?,
        proxy: proxy
            .map(|(name, roots)| -> Result<_, String> {
                Ok(ProxyVerifier {
                    name: server_name(name)?,
                    verifier: web_pki(roots, &provider)?,
                })
            })
            .transpose()?,
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // Not both at first, because then servers choose HTTP/2, and over TLS that costs twice the CPU
    // time per byte.
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(config)
}

fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned()).map_err(|error| format!("{host:?}: {error}"))
}

fn web_pki(
    roots: Option<&Roots>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let store = Arc::new(root_store(roots)?);
    WebPkiServerVerifier::builder_with_provider(store, provider.clone())
        .build()
        .map_err(|error| error.to_string())
}

fn root_store(roots: Option<&Roots>) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    if roots.is_none_or(Roots::is_beside_web) {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let given = roots.map(Roots::certificates).unwrap_or_default();
    for (at, certificate) in given.iter().enumerate() {
        store.add(certificate.clone()).map_err(|error| {
            format!(
                "certificate {} of \"ca-certs\" cannot be used: {error}",
                at + 1
            )
        })?;
    }
    Ok(store)
}

/// Whether the peer answered, but not in TLS.
pub fn is_not_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(
        find_rustls_error(error),
        Some(rustls::Error::InvalidMessage(_))
    )
}

/// Whether the peer speaks TLS but not the version of HTTP that was offered.
pub fn is_other_protocol(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(
        find_rustls_error(error),
        Some(rustls::Error::AlertReceived(
            AlertDescription::NoApplicationProtocol
        ))
    )
}

/// Whether it is TLS that failed, and not the connection below it.
pub fn is_tls_error(error: &(dyn std::error::Error + 'static)) -> bool {
    find_rustls_error(error).is_some()
}

fn find_rustls_error<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a rustls::Error> {
    causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>())
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
            let checked = puller_config::Document::parse(text.as_bytes()).unwrap();
            let (_, entry) = checked.document.registries.iter().next().unwrap();
            root_store(entry.ca_certs.as_ref()).unwrap().len()
        };
        let web = root_store(None).unwrap().len();
        assert!(web > 1);
        assert_eq!([count(""), count("web-roots = true")], [1, web + 1]);
    }
}
