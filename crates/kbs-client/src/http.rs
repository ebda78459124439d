//! Requests with limits: no redirects, no proxies, no environment, and never more bytes or time
//! than announced.

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use foreign_text::shown;
use puller_config::Roots;
use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, StatusCode};
use rustls::crypto::aws_lc_rs;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::time::timeout;
use url::Url;
use zeroize::Zeroizing;

use crate::buffer::Buffer;
use crate::clock;
use crate::error::Fault;

/// How many headers an answer may have. Their bytes are bounded by hyper (about 400 KiB).
const MAX_HEADERS: usize = 100;

/// How much of an answer without success is read: a broker's errors are one line.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// What `localhost` is, whoever answers for names; the ports are those of the URLs.
const LOCALHOST: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0),
];

/// How this program names itself.
const USER_AGENT: &str = concat!("imagepuller/", env!("CARGO_PKG_VERSION"));

/// A client for one server.
#[derive(Debug)]
pub struct Http {
    client: Client,
    /// For a request with its whole answer.
    limit: Duration,
    roots: &'static str,
}

/// An answer, read to its end.
pub struct Answer {
    /// Its status; never one of redirection.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; without success only the beginning.
    pub body: Zeroizing<Vec<u8>>,
}

impl Http {
    /// A client that trusts `roots` alone, or else the web's.
    ///
    /// # Errors
    ///
    /// What is wrong with a root, or with the library.
    pub fn new(roots: Option<&Roots>, limit: Duration) -> Result<Self, String> {
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(root_store(roots)?)
            .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            // The environment's proxies are not measured.
            .no_proxy()
            .resolve_to_addrs("localhost", &LOCALHOST)
            .http1_only()
            .http1_max_headers(MAX_HEADERS)
            // A few requests per pull: better a new connection than one that was closed while it
            // waited.
            .pool_max_idle_per_host(0)
            .user_agent(USER_AGENT)
            .build()
            .map_err(|error| shown(&error.to_string()).to_string())?;
        let roots = match roots {
            Some(_) => "only \"kbs-ca-certs\" of [resources] are trusted",
            None => {
                "the web's authorities are trusted; name others as \"kbs-ca-certs\" in [resources]"
            }
        };
        Ok(Self { client, limit, roots })
    }

    /// A request for what is at a URL.
    pub fn get(&self, url: Url) -> RequestBuilder {
        self.client.get(url)
    }

    /// A request that brings JSON.
    pub fn post(&self, url: Url, json: Vec<u8>) -> RequestBuilder {
        let builder = self.client.post(url).body(json);
        builder.header(reqwest::header::CONTENT_TYPE, "application/json")
    }

    /// Sends a request and reads an answer of at most `limit_bytes`.
    pub async fn send(&self, request: RequestBuilder, limit_bytes: usize) -> Result<Answer, Fault> {
        let whole = async {
            let response = request.send().await.map_err(|error| self.explain(&error))?;
            self.read(response, limit_bytes).await
        };
        timeout(self.limit, whole).await.unwrap_or(Err(Fault::Late(self.limit)))
    }

    async fn read(
        &self,
        mut response: reqwest::Response,
        limit_bytes: usize,
    ) -> Result<Answer, Fault> {
        clock::note(response.url(), response.headers());
        let status = response.status();
        if status.is_redirection() {
            return Err(Fault::Redirect);
        }
        let announced = response.content_length().unwrap_or_default();
        if status.is_success() && announced > limit_bytes as u64 {
            return Err(Fault::TooLarge { limit_bytes });
        }
        let mut body = Buffer::default();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.explain(&error))? {
            if !status.is_success() {
                let room = MAX_ERROR_BYTES - body.len();
                body.push(&chunk[..chunk.len().min(room)]);
                if chunk.len() >= room {
                    break;
                }
                continue;
            }
            if chunk.len() > limit_bytes - body.len() {
                return Err(Fault::TooLarge { limit_bytes });
            }
            body.push(&chunk);
        }
        Ok(Answer { status, headers: response.headers().clone(), body: body.finish() })
    }

    /// Why a request failed. A peer's certificate is not quoted, nor is anything that the peer
    /// sent.
    fn explain(&self, error: &reqwest::Error) -> Fault {
        let tls = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>());
        let reason = match tls {
            Some(rustls::Error::InvalidCertificate(fault)) => {
                return Fault::Certificate { reason: certificate(fault), roots: self.roots };
            }
            Some(rustls::Error::InvalidMessage(_)) => "it does not speak TLS".to_owned(),
            Some(rustls::Error::AlertReceived(alert)) => {
                format!("it refused the TLS handshake ({alert:?})")
            }
            Some(_) => "the TLS handshake failed".to_owned(),
            None => connection(error),
        };
        Fault::Unreachable { reason }
    }
}

/// An address below a server's own.
pub fn at(server: &Url, path: &str, query: Option<&str>) -> Url {
    let mut url = server.clone();
    url.set_path(&format!("{}{path}", server.path().trim_end_matches('/')));
    url.set_query(query);
    url.set_fragment(None);
    url
}

/// An empty store is an error here. In a registry's entry it is not: it forbids the registry.
fn root_store(roots: Option<&Roots>) -> Result<RootCertStore, String> {
    let Some(roots) = roots else {
        return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
    };
    let mut store = RootCertStore::empty();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let roots = roots.at(now.map_or(0, |now| now.as_secs()));
    for (at, certificate) in roots.counting.into_iter().enumerate() {
        store.add(certificate.clone()).map_err(|error| {
            format!("certificate {} of \"kbs-ca-certs\" cannot be used: {error}", at + 1)
        })?;
    }
    if store.is_empty() && !roots.others.is_empty() {
        let others: Vec<_> = roots.others.iter().map(ToString::to_string).collect();
        let others = others.join("; ");
        return Err(format!("no root of \"kbs-ca-certs\" counts now: {others}"));
    }
    if store.is_empty() {
        return Err("\"kbs-ca-certs\" holds no certificate, so no server is trusted".to_owned());
    }
    Ok(store)
}

fn certificate(fault: &CertificateError) -> &'static str {
    match fault {
        CertificateError::UnknownIssuer => {
            "it was issued by an authority that the guest does not know"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired, or the clock of the guest is wrong"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet, or the clock of the guest is wrong"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name"
        }
        _ => "it breaks a rule for certificates",
    }
}

/// What became of a connection on which TLS did not fail.
fn connection(error: &reqwest::Error) -> String {
    let system = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).last();
    match system {
        // A name that is not found has no error kind of its own; the system's words for it hold
        // nothing from the peer.
        Some(system) if error.is_connect() => shown(&system.to_string()).to_string(),
        Some(system) => system.kind().to_string(),
        None if error.is_connect() => "no connection came about".to_owned(),
        None => "it hung up, or does not speak HTTP".to_owned(),
    }
}

fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| inner(error))
}

/// An I/O error hides what it was made of.
fn inner<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}
