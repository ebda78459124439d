//! Requests of one source: a client for each host with that host's trust, redirects followed by hand.

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use puller_config::RegistryHost;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, StatusCode};
use url::Url;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::proxy::Proxies;
use crate::settings::{Authority, Settings};
use crate::source::{Source, host_of};
use crate::tls;

/// How many redirects are followed; registries need one or two.
const MAX_REDIRECTS: usize = 10;

/// How many headers an answer may have. Their bytes are bounded by hyper (about 400 KiB).
const MAX_HEADERS: usize = 100;

/// How long name resolution, connecting and the TLS handshake may take together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an answer may stay silent.
const READ_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How this program names itself to registries.
const USER_AGENT: &str = concat!("imagepuller/", env!("CARGO_PKG_VERSION"));

/// The connections of one source.
#[derive(Debug)]
pub struct Transport {
    settings: Settings,
    source: Arc<Source>,
    proxies: Proxies,
    /// One client for each scheme, host and port, for trust belongs to these.
    clients: Mutex<HashMap<String, Client>>,
}

/// A request that may be repeated at another address.
#[derive(Debug)]
pub struct Request<'a> {
    /// Where.
    pub url: Url,
    /// Media types, or nothing.
    pub accept: Option<&'static str>,
    /// Sent to the host of `url` alone, and only until another one is asked.
    pub authorization: Option<&'a HeaderValue>,
    /// A form to post instead of getting; then no redirect is followed.
    pub form: Option<Zeroizing<String>>,
}

/// An answer, and who gave it in the end.
#[derive(Debug)]
pub struct Answer {
    /// The answer.
    pub response: Response,
    /// Where it came from after redirects.
    pub url: Url,
}

/// Why no answer came.
#[derive(Debug)]
pub struct Failure {
    /// In words for the user.
    pub error: Error,
    /// Whether the host may still answer over plain HTTP: nothing there spoke TLS.
    pub is_without_tls: bool,
}

/// How one host is to be treated.
struct Trust {
    authority: Authority,
    is_own: bool,
    skip_verify: bool,
    plain_http: bool,
}

impl Transport {
    /// A transport without connections.
    pub fn new(settings: Settings, source: Arc<Source>) -> Self {
        let proxies = Proxies::new(&settings.document().extra_env);
        Self {
            settings,
            source,
            proxies,
            clients: Mutex::default(),
        }
    }

    /// Sends a request and follows its redirects.
    pub async fn send(&self, request: Request<'_>) -> Result<Answer, Failure> {
        let mut url = request.url.clone();
        // Once another host has chosen the address, credentials do not come back, even if the address is at home.
        let mut is_at_home = true;
        for _ in 0..=MAX_REDIRECTS {
            is_at_home &= same_origin(&request.url, &url);
            let authorization = request.authorization.filter(|_| is_at_home);
            let response = self.send_once(&request, &url, authorization).await?;
            let Some(next) = self.redirection(&request, &response, &url)? else {
                return Ok(Answer { response, url });
            };
            tracing::debug!(from = host_of(&url), to = host_of(&next), "redirected");
            url = next;
        }
        Err(answer(
            &request.url,
            format!("redirects more than {MAX_REDIRECTS} times"),
        )
        .into())
    }

    async fn send_once(
        &self,
        request: &Request<'_>,
        url: &Url,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, Failure> {
        let trust = self.trust(url);
        let client = self.client(url, &trust)?;
        let method = if request.form.is_some() {
            Method::POST
        } else {
            Method::GET
        };
        let mut builder = client.request(method, url.clone());
        if let Some(accept) = request.accept {
            builder = builder.header(ACCEPT, accept);
        }
        if let Some(authorization) = authorization {
            builder = builder.header(AUTHORIZATION, authorization.clone());
        }
        if let Some(form) = &request.form {
            builder = builder
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form.as_bytes().to_vec());
        }
        builder
            .send()
            .await
            .map_err(|error| self.explain(url, &trust, error))
    }

    /// Where an answer sends the request on, if it does.
    fn redirection(
        &self,
        request: &Request<'_>,
        response: &Response,
        from: &Url,
    ) -> Result<Option<Url>, Error> {
        let redirects = [
            StatusCode::MOVED_PERMANENTLY,
            StatusCode::FOUND,
            StatusCode::SEE_OTHER,
            StatusCode::TEMPORARY_REDIRECT,
            StatusCode::PERMANENT_REDIRECT,
        ];
        if !redirects.contains(&response.status()) {
            return Ok(None);
        }
        if request.form.is_some() {
            return Err(answer(
                from,
                "redirects a request that carries a token".to_owned(),
            ));
        }
        let location = response
            .headers()
            .get(LOCATION)
            .and_then(|location| location.to_str().ok());
        let next = location.and_then(|location| from.join(location).ok());
        let Some(next) = next
            .filter(|next| matches!(next.scheme(), "http" | "https") && next.host_str().is_some())
        else {
            return Err(answer(
                from,
                "redirects to something that is no HTTP address".to_owned(),
            ));
        };
        if !next.username().is_empty() || next.password().is_some() {
            return Err(answer(
                from,
                "redirects to an address with a password in it".to_owned(),
            ));
        }
        // What is asked over plain HTTP in the first place may be so again.
        if next.scheme() == "http" && !same_origin(&request.url, &next) {
            let trust = self.trust(&next);
            if !trust.plain_http {
                return Err(Error::PlainHttp {
                    host: host_of(&next),
                    authority: trust.authority.to_string(),
                });
            }
        }
        Ok(Some(next))
    }

    /// Whether the source's credentials may go to a token server.
    ///
    /// # Errors
    ///
    /// [`Error::Realm`] unless it is reached over verified TLS, or is the source's own host, treated as the source is, or
    /// the source itself was asked in clear and may be sent credentials that way. Without leave for the latter there are no
    /// credentials: a source asked in clear is told none.
    pub fn check_realm(&self, realm: &Url, is_source_plain: bool) -> Result<(), Error> {
        let refuse = |rule| {
            let mut shown = realm.clone();
            shown.set_query(None);
            shown.set_fragment(None);
            // Only an address without a host refuses this, and that has no user either.
            let _ = (shown.set_username(""), shown.set_password(None));
            Err(Error::Realm {
                host: self.source.host(),
                realm: shown.to_string(),
                rule,
            })
        };
        let trust = self.trust(realm);
        match realm.scheme() {
            _ if !realm.username().is_empty() || realm.password().is_some() => {
                refuse("has a password in its address")
            }
            "https" if trust.skip_verify && !trust.is_own => {
                refuse("is not asked because its own entry leaves its certificate unchecked")
            }
            "https" => Ok(()),
            "http"
                if trust.plain_http
                    || is_source_plain
                        && (trust.is_own || self.source.authority.registry.plain_http) =>
            {
                Ok(())
            }
            "http" => refuse("is not asked over plain HTTP"),
            _ => refuse("is no HTTP address"),
        }
    }

    fn trust(&self, url: &Url) -> Trust {
        let is_own = self.source.is_own(url);
        let named = if is_own {
            None
        } else {
            RegistryHost::of_url(url).and_then(|host| self.settings.named(&host))
        };
        let is_named = named.is_some();
        let authority = named.unwrap_or_else(|| self.source.authority.clone());
        let registry = &authority.registry;
        Trust {
            // What weakens the transport concerns the host that the entry names, and nobody it sends the puller to.
            skip_verify: registry.insecure_skip_verify && (is_own || is_named),
            plain_http: registry.plain_http && (is_own || is_named),
            is_own,
            authority,
        }
    }

    fn client(&self, url: &Url, trust: &Trust) -> Result<Client, Error> {
        let host = host_of(url);
        let key = format!("{}://{host}", url.scheme());
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let roots = trust.authority.registry.ca_certs.as_ref();
        if roots.is_some_and(|roots| roots.trusts_nobody()) {
            return Err(Error::Forbidden {
                host,
                authority: trust.authority.to_string(),
            });
        }
        let unverified = if trust.skip_verify {
            url.host_str()
        } else {
            None
        };
        let failed = |reason: String| Error::Client {
            host: host.clone(),
            reason,
        };
        let tls = tls::client_config(roots, unverified.map(|host| host.trim_matches(['[', ']'])))
            .map_err(|reason| failed(format!("{reason} ({})", trust.authority)))?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .http1_max_headers(MAX_HEADERS)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            // First the environment's proxies off, which the host may control, then the document's on.
            .no_proxy()
            .proxy(self.proxies.client_rule())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_IDLE_TIMEOUT)
            .user_agent(USER_AGENT)
            .build()
            .map_err(|error| failed(innermost(&error)))?;
        clients.insert(key, client.clone());
        Ok(client)
    }

    fn explain(&self, url: &Url, trust: &Trust, error: reqwest::Error) -> Failure {
        let host = host_of(url);
        let proxy = self.proxies.for_url(url);
        if let Some(reason) = tls::certificate_fault(&error) {
            let roots = match &trust.authority.registry.ca_certs {
                Some(roots) => {
                    let count = roots.certificates().len();
                    format!(
                        "the only trusted roots are the {count} in \"ca-certs\" of {}",
                        trust.authority
                    )
                }
                None => format!(
                    "the web's public roots were used: {}",
                    trust.authority.no_roots()
                ),
            };
            return Failure {
                error: Error::Certificate {
                    host,
                    reason,
                    roots,
                },
                is_without_tls: false,
            };
        }
        let is_not_tls = tls::is_not_tls(&error);
        let reason = if error.is_timeout() && error.is_connect() {
            format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())
        } else if error.is_timeout() {
            format!("no answer within {} s", READ_IDLE_TIMEOUT.as_secs())
        } else if is_not_tls {
            "it does not speak TLS".to_owned()
        } else {
            innermost(&error)
        };
        let via = proxy
            .map(|proxy| format!(" through the proxy {proxy} of [extra-env]"))
            .unwrap_or_default();
        // Behind a proxy a refused connection may be the proxy's own, so it says nothing about the registry.
        let is_refused =
            proxy.is_none() && error.is_connect() && !error.is_timeout() && is_refused(&error);
        Failure {
            error: Error::Unreachable { host, via, reason },
            is_without_tls: is_not_tls || is_refused,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            error,
            is_without_tls: false,
        }
    }
}

fn answer(url: &Url, rule: String) -> Error {
    Error::Answer {
        host: host_of(url),
        rule,
    }
}

fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host() == other.host()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// The cause at the end of a chain. Only that one: the outer ones repeat the URL, which may carry a signature.
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<reqwest::Error>() {
        Some(error) if error.is_builder() => "the HTTP client refuses its settings".to_owned(),
        Some(_) => "the request failed".to_owned(),
        None => innermost.to_string(),
    }
}

fn is_refused(error: &reqwest::Error) -> bool {
    let mut next = error.source();
    while let Some(error) = next {
        let kind = error
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        if kind == Some(std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        next = error.source();
    }
    false
}
