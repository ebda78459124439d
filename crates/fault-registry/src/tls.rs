//! TLS as a registry speaks it, and which HTTP inside.

use anyhow::Result;
use rustls::ServerConfig;
use test_http::pki::Identity;

/// TLS as the registry speaks it.
#[derive(Debug)]
pub struct Tls<'a> {
    /// Its certificate and key.
    pub identity: &'a Identity,
    /// The name in its own address, one of the certificate's.
    pub name: &'a str,
    /// What it speaks inside.
    pub http: Http,
}

/// The versions of HTTP that a registry speaks over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.1, whatever the client offers.
    One,
    /// HTTP/2 with who offers it.
    Both,
    /// HTTP/2, and a refusal for who does not offer it.
    Two,
}

/// The same for rustls.
pub(super) fn server_config(tls: &Tls<'_>) -> Result<ServerConfig> {
    let mut config = tls.identity.server_config()?;
    let protocols: &[&[u8]] = match tls.http {
        Http::One => &[b"http/1.1"],
        Http::Both => &[b"h2", b"http/1.1"],
        Http::Two => &[b"h2"],
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}
