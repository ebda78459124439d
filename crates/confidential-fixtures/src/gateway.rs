//! The REST gateway that stands on loopback in a guest (`api-server-rest`).

use std::net::SocketAddr;

use anyhow::Result;
use test_http::{Answer, Request, Server};

use crate::Vault;

/// What the gateway's paths begin with.
const PREFIX: &str = "/cdh/resource/";

/// A running gateway; stopped when dropped.
#[derive(Debug)]
pub struct Gateway(Server);

impl Gateway {
    /// Starts a gateway on an address of this machine; port 0 is a free one.
    ///
    /// # Errors
    ///
    /// Where the address cannot be listened on.
    pub fn start(address: SocketAddr, vault: Vault) -> Result<Self> {
        let handler = move |request: &Request| answer(request, &vault);
        Ok(Self(Server::listen(address, None, handler)?))
    }

    /// Its address, as a resource source names it: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn base(&self) -> String {
        format!("http://{}", self.0.address())
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.0.requests()
    }
}

fn answer(request: &Request, vault: &Vault) -> Answer {
    let plain = |status, body: &[u8]| Answer::new(status, &[("Content-Type", "text/plain")], body);
    let Some(path) = request.target.strip_prefix(PREFIX) else {
        return plain(404, b"route not found");
    };
    if request.method != "GET" {
        return plain(405, b"method not allowed");
    }
    match vault.get(path) {
        Some(secret) => Answer::new(200, &[("Content-Type", "application/octet-stream")], secret),
        // As the real one: whatever the data hub says, it is an internal error.
        None => plain(500, b"get resource failed"),
    }
}
