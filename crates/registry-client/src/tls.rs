//! Whom to trust on a connection: the document's roots or the web's, and nobody where the document
//! says so.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use registry_config::{ClientIdentity, Roots};
use rustls::crypto::aws_lc_rs;
use rustls::{AlertDescription, ClientConfig};
use rustls_pki_types::ServerName;

use crate::explain::causes;

use self::judge::Judge;
use self::verifier::{ProxyVerifier, Verifier};

mod certificate;
mod fault;
mod judge;
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
    /// What it is shown when it asks who the puller is. The TLS library would show it to a proxy
    /// too, so it never stands beside one.
    pub client: Option<&'a ClientIdentity>,
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
/// Words about a root that is no certificate, about no root at all, about a client certificate and
/// a key that do not belong together, or about the crypto provider.
pub fn client_config(peers: &Peers<'_>, protocol: Protocol) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let proxy = peers.proxy.filter(|(name, _)| *name != peers.host);
    let is_same_name = proxy.is_none() && peers.proxy.is_some();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let judge = |roots| Judge::new(roots, &provider, now);
    let verifier = Verifier {
        algorithms: provider.signature_verification_algorithms,
        host: judge(peers.roots)?,
        unverified: (peers.skip_verify && !is_same_name)
            .then(|| server_name(peers.host))
            .transpose()?,
        proxy: proxy
            .map(|(name, roots)| -> Result<_, String> {
                Ok(ProxyVerifier { name: server_name(name)?, judge: judge(roots)? })
            })
            .transpose()?,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match peers.client {
        None => builder.with_no_client_auth(),
        Some(client) => {
            let unusable = |reason: &dyn std::fmt::Display| {
                format!("\"client-cert\" and \"client-key\" cannot be used: {reason}")
            };
            let key = client.key().ok_or_else(|| unusable(&"the key is none"))?;
            builder
                .with_client_auth_cert(client.chain().to_vec(), key)
                .map_err(|error| unusable(&error))?
        }
    };
    // Not both at first, because then servers choose HTTP/2, and over TLS that costs twice the CPU
    // time per byte.
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(config)
}

/// Has the TLS library gather its randomness, which it does with the first connection of a process
/// otherwise: it measures how evenly the processor works, and that takes 30 ms of it. Blocks.
pub fn gather_randomness() {
    // What goes wrong goes wrong again where somebody waits for it.
    let _ = aws_lc_rs::default_provider().secure_random.fill(&mut [0]);
}

fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned()).map_err(|error| format!("{host:?}: {error}"))
}

/// Whether the peer answered, but not in TLS.
pub fn is_not_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(find_rustls_error(error), Some(rustls::Error::InvalidMessage(_)))
}

/// Whether the peer speaks TLS but not the version of HTTP that was offered.
pub fn is_other_protocol(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(
        find_rustls_error(error),
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol))
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
