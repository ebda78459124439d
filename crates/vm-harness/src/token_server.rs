//! A token server for `docker-registry`: over TLS, it gives a short-lived token for one repository
//! to who knows the password.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::Scratch;
use crate::pki::Authority;
use crate::token::{SERVICE, TokenSigner};

/// How long a registry takes a token of this server.
const LIFETIME: Duration = Duration::from_secs(120);

/// The largest request; a few hundred bytes are usual.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// A running token server on a free port of 127.0.0.1; stopped when dropped.
#[derive(Debug)]
pub struct TokenServer {
    name: String,
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    signer: TokenSigner,
    /// The value of `Authorization` that gets a token.
    authorization: String,
    tls: Arc<ServerConfig>,
    is_stopped: AtomicBool,
    /// One request at a time: the signer writes a file of one name.
    given: Mutex<Given>,
}

/// What came of the requests so far.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The scopes that tokens were given for.
    pub scopes: Vec<String>,
    /// The tokens.
    pub tokens: Vec<String>,
    /// First lines of the requests that got none.
    pub refused: Vec<String>,
}

impl TokenServer {
    /// Starts a server that shows a certificate of `authority` for `name`.
    ///
    /// # Errors
    ///
    /// Where the key for the tokens cannot be made, or there is no port.
    pub fn start(
        scratch: &Scratch,
        authority: &Authority,
        name: &str,
        username: &str,
        password: &str,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("failed to listen")?;
        let port = listener.local_addr()?.port();
        let login = STANDARD.encode(format!("{username}:{password}"));
        let shared = Arc::new(Shared {
            signer: TokenSigner::new(scratch)?,
            authorization: format!("Basic {login}"),
            tls: Arc::new(server_config(authority, name)?),
            is_stopped: AtomicBool::new(false),
            given: Mutex::default(),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || accepting.accept(&listener));
        Ok(Self {
            name: name.to_owned(),
            port,
            shared,
        })
    }

    /// The port it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The key that a registry has to know.
    #[must_use]
    pub fn signer(&self) -> &TokenSigner {
        &self.shared.signer
    }

    /// Where a registry sends its callers.
    #[must_use]
    pub fn realm(&self) -> String {
        format!("https://{}:{}/token", self.name, self.port)
    }

    /// What it gave and refused so far.
    #[must_use]
    pub fn given(&self) -> Given {
        let given = self.shared.given.lock();
        given.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for TokenServer {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // The listener looks up only when somebody comes.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            if self.is_stopped.load(Ordering::SeqCst) {
                return;
            }
            let shared = self.clone();
            // Who does not get through the handshake has had its answer.
            std::thread::spawn(move || shared.serve(stream));
        }
    }

    /// Serves one request.
    fn serve(&self, stream: TcpStream) -> Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut stream = StreamOwned::new(ServerConnection::new(self.tls.clone())?, stream);
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        while !request.ends_with(b"\r\n\r\n") && request.len() < MAX_REQUEST_BYTES {
            let read = stream.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            request.extend_from_slice(&buffer[..read]);
        }
        let (status, body) = match self.token(&String::from_utf8_lossy(&request))? {
            Some(token) => {
                let body = json!({"token": token, "expires_in": LIFETIME.as_secs()});
                ("200 OK", body.to_string())
            }
            None => ("401 Unauthorized", String::new()),
        };
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )?;
        stream.conn.send_close_notify();
        Ok(stream.flush()?)
    }

    /// The token that a request gets, if it gets one.
    fn token(&self, request: &str) -> Result<Option<String>> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let first = request.lines().next().unwrap_or_default();
        let is_known = request.lines().any(|line| {
            line.split_once(": ").is_some_and(|(name, value)| {
                name.eq_ignore_ascii_case("authorization") && value == self.authorization
            })
        });
        let scope = asked_scope(first).filter(|_| is_known);
        let Some((scope, repository)) = scope else {
            given.refused.push(first.to_owned());
            return Ok(None);
        };
        let token = self
            .signer
            .sign(&repository, SystemTime::now() + LIFETIME)?;
        given.scopes.push(scope);
        given.tokens.push(token.clone());
        Ok(Some(token))
    }
}

/// The one scope of a request to this server, and the repository in it: to pull from one repository
/// and nothing else.
fn asked_scope(first_line: &str) -> Option<(String, String)> {
    let rest = first_line.strip_prefix("GET /token?")?;
    let query = rest.split(' ').next()?;
    let query = query.replace("%3A", ":").replace("%2F", "/");
    let values = |name: &str| -> Vec<String> {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .filter(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
            .collect()
    };
    let (services, scopes) = (values("service"), values("scope"));
    let ([service], [scope]) = (&services[..], &scopes[..]) else {
        return None;
    };
    let repository = scope.strip_prefix("repository:")?.strip_suffix(":pull")?;
    (service == SERVICE).then(|| (scope.clone(), repository.to_owned()))
}

fn server_config(authority: &Authority, name: &str) -> Result<ServerConfig> {
    let identity = authority.sign(&[name])?;
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())
        .context("failed to read the certificate")?;
    let key =
        PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("failed to read the key")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Ok(ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_scope_is_asked_for() {
        let asked = |query: &str| asked_scope(&format!("GET /token?{query} HTTP/1.1"));
        assert_eq!(
            asked("service=registry.test&scope=repository%3Ateam%2Fapp%3Apull"),
            Some(("repository:team/app:pull".to_owned(), "team/app".to_owned()))
        );
        for query in [
            "service=registry.test",
            "service=other&scope=repository:team/app:pull",
            "service=registry.test&scope=repository:team/app:pull,push",
            "service=registry.test&scope=repository:a:pull&scope=repository:b:pull",
        ] {
            assert_eq!(asked(query), None, "{query}");
        }
    }
}
