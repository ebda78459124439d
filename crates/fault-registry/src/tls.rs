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
    /// HTTP/2 with a client that offers it.
    Both,
    /// HTTP/2, and a TLS alert (RFC 7301) for a client that does not offer it.
    Two,
    /// HTTP/2, and the end of the connection for a client that does not offer it.
    TwoHangsUp,
    /// HTTP/2, in frames also to a client that does not offer it.
    TwoFrames,
}

/// The same for rustls.
pub(super) fn server_config(tls: &Tls<'_>) -> Result<ServerConfig> {
    let mut config = tls.identity.server_config()?;
    let protocols: &[&[u8]] = match tls.http {
        Http::One => &[b"http/1.1"],
        Http::Both | Http::TwoHangsUp | Http::TwoFrames => &[b"h2", b"http/1.1"],
        Http::Two => &[b"h2"],
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}
