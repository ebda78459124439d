//! A token server for `docker-registry`, over TLS: it signs tokens for who knows the password or
//! the refresh token.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "test code; each test file uses a part of it"
)]

use std::process::Child;
use std::time::{Duration, SystemTime};

use super::server::Server;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use vm_harness::pki::Authority;
use vm_harness::{Registry, Scratch, TokenSigner};

pub const REFRESH_TOKEN: &str = "a-refresh-token";

/// A token server in a thread, and the key that its tokens are signed with.
pub struct TokenServer {
    pub port: u16,
    signer: TokenSigner,
    server: Server,
}

impl TokenServer {
    pub fn start(scratch: &Scratch, authority: &Authority) -> Self {
        let signer = TokenSigner::new(scratch).unwrap();
        let ours = signer.clone();
        let server = Server::start(Some(authority), move |request| answer(&ours, request));
        Self {
            port: server.port,
            signer,
            server,
        }
    }

    /// First line and body of each request.
    pub fn requests(&self) -> Vec<String> {
        self.server.requests()
    }

    /// A registry that takes these tokens, with the storage of another one.
    pub fn registry(
        &self,
        scratch: &Scratch,
        authority: &Authority,
        storage_of: &Registry,
    ) -> Registry {
        let realm = format!("https://localhost:{}/token?kept=1", self.port);
        storage_of
            .with_tokens(scratch, authority, &["localhost"], &self.signer, &realm)
            .unwrap()
    }
}

/// A process that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn answer(signer: &TokenSigner, request: &str) -> String {
    let basic = BASE64_STANDARD.encode(format!("{}:{}", super::USER, super::PASSWORD));
    let is_known = request.contains(&format!("Basic {basic}"))
        || request.starts_with("POST ")
            && request.contains("grant_type=refresh_token")
            && request.contains(&format!("refresh_token={REFRESH_TOKEN}"));
    if !is_known {
        return "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            .to_owned();
    }
    let field = if request.starts_with("POST ") {
        "access_token"
    } else {
        "token"
    };
    let end = SystemTime::now() + Duration::from_secs(300);
    let token = signer.sign("team/app", end).unwrap();
    let body = format!("{{\"{field}\":\"{token}\",\"expires_in\":300}}");
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
