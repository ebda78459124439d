//! The REST gateway that stands on loopback in a guest (`api-server-rest`).

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;

use super::Vault;
use super::http::{Answer, Asked, Server};

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
        let handler = move |asked: &Asked| answer(asked, &vault);
        Ok(Self(Server::start(address, None, Arc::new(handler))?))
    }

    /// Its address, as a resource source names it: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn base(&self) -> String {
        format!("http://{}", self.0.address())
    }

    /// Every request so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.0.asked()
    }
}

fn answer(asked: &Asked, vault: &Vault) -> Answer {
    let Some(path) = asked.target.strip_prefix(PREFIX) else {
        return Answer::new(404, "text/plain", "route not found");
    };
    if asked.method != "GET" {
        return Answer::new(405, "text/plain", "method not allowed");
    }
    match vault.get(path) {
        Some(secret) => Answer::new(200, "application/octet-stream", secret),
        // As the real one: whatever the data hub says, it is an internal error.
        None => Answer::new(500, "text/plain", "get resource failed"),
    }
}
