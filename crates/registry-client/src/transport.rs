//! Requests of one source: each host by its own rules, redirects followed by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pull_route::trust::{self, Trust};
use pull_route::{Settings, Source, host_of};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RANGE};
use reqwest::{Method, RequestBuilder, Response};
use tokio::time::{Instant, timeout};
use url::Url;
use zeroize::Zeroizing;

use crate::client::Clients;
use crate::error::Error;
use crate::explain;
use crate::failure::Failure;
use crate::patience::Patience;
use crate::range::Part;
use crate::redirect::{self, same_origin};
use crate::retry::seconds;
use crate::tls;

/// How many redirects are followed; registries need one or two.
const MAX_REDIRECTS: usize = 10;

/// The connections of one source.
#[derive(Debug)]
pub struct Transport {
    settings: Settings,
    source: Arc<Source>,
    patience: Patience,
    clients: Clients,
    quickest: Quickest,
}

/// The shortest time in which an answer began, in microseconds; 0 before the first one.
#[derive(Debug, Default)]
struct Quickest(AtomicU64);

impl Quickest {
    fn tell(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let shorter = |known| (known == 0 || micros < known).then_some(micros);
        // Not changed where it was shorter before.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shorter);
    }

    fn get(&self) -> Option<Duration> {
        let micros = self.0.load(Ordering::Relaxed);
        (micros > 0).then(|| Duration::from_micros(micros))
    }
}

/// A request that may be repeated at another address.
#[derive(Debug)]
pub struct Request<'a> {
    /// Where.
    pub url: Url,
    /// Media types, or nothing.
    pub accept: Option<&'static str>,
    /// Only these bytes.
    pub part: Option<Part>,
    /// Sent to the host of `url` alone, and only until another one is asked.
    pub authorization: Option<&'a HeaderValue>,
    /// A form to post instead of getting; then no redirect is followed.
    pub form: Option<Zeroizing<String>>,
}

impl Request<'_> {
    /// Gets what is at a URL.
    pub fn get(url: Url) -> Self {
        Self { url, accept: None, part: None, authorization: None, form: None }
    }
}

/// An answer, and who gave it in the end.
#[derive(Debug)]
pub struct Answer {
    /// The answer.
    pub response: Response,
    /// Where it came from after redirects.
    pub url: Url,
}

impl Transport {
    /// A transport without connections.
    pub fn new(settings: Settings, source: Arc<Source>, patience: &Patience) -> Self {
        Self {
            clients: Clients::new(settings.clone(), patience),
            settings,
            source,
            patience: *patience,
            quickest: Quickest::default(),
        }
    }

    /// How long things may take.
    pub fn patience(&self) -> &Patience {
        &self.patience
    }

    /// The shortest time in which an answer began; nothing before the first one.
    pub fn quickest(&self) -> Option<Duration> {
        self.quickest.get()
    }

    /// Does not use connections any more that something just failed on.
    pub fn reconnect(&self) {
        self.clients.reconnect();
    }

    /// Sends a request and follows its redirects.
    pub async fn send(&self, request: Request<'_>) -> Result<Answer, Failure> {
        let mut url = request.url.clone();
        // Once another host has chosen the address, credentials do not come back, even if the
        // address is at home.
        let mut is_at_home = true;
        for redirects in 0..=MAX_REDIRECTS {
            is_at_home &= same_origin(&request.url, &url);
            let authorization = request.authorization.filter(|_| is_at_home);
            let response = self.send_once(&request, &url, authorization).await;
            // Whoever redirects has spoken, so the host that was asked is not the one without TLS.
            let response = response.map_err(|failure| Failure {
                is_without_tls: failure.is_without_tls && redirects == 0,
                ..failure
            })?;
            let Some(next) = redirect::target(&response, &url, &request.url, &self.settings)?
            else {
                return Ok(Answer { response, url });
            };
            if request.form.is_some() {
                return Err(answer(&url, "redirects a request that carries a token").into());
            }
            // What is asked over plain HTTP in the first place may be so again.
            if !same_origin(&request.url, &next) {
                trust::check_plain(&next, &self.trust(&next)).map_err(Error::from)?;
            }
            tracing::debug!(from = host_of(&url), to = host_of(&next), "redirected");
            url = next;
        }
        let rule = format!("redirects more than {MAX_REDIRECTS} times");
        Err(answer(&request.url, &rule).into())
    }

    async fn send_once(
        &self,
        request: &Request<'_>,
        url: &Url,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, Failure> {
        let trust = self.trust(url);
        loop {
            let (client, protocol) = self.clients.client(url, &trust)?;
            let method = if request.form.is_some() { Method::POST } else { Method::GET };
            let builder = headers(client.request(method, url.clone()), request, authorization);
            let limit = self.patience.connect + self.patience.silence;
            let proxy = self.clients.proxies().for_url(url);
            let asked = Instant::now();
            let Ok(sent) = timeout(limit, builder.send()).await else {
                let reason = format!("no answer within {}", seconds(limit));
                let error = Error::unreachable(&host_of(url), &explain::via(proxy), &reason);
                return Err(Failure::passing(error));
            };
            let error = match sent {
                Ok(response) => {
                    self.clients.answered(url);
                    self.quickest.tell(asked.elapsed());
                    return Ok(response);
                }
                Err(error) => error,
            };
            if let Some(refused) = self.clients.refused(url) {
                return Err(Error::from(refused).into());
            }
            // Few servers speak HTTP/2 alone. Some say so in the handshake, others hang up or
            // answer in frames.
            let is_refusal = tls::is_other_protocol(&error) || explain::is_nonsense(&error);
            let is_odd = is_refusal || explain::is_hang_up(&error);
            if is_odd && self.clients.offer_http2(url, &trust, protocol)? && is_refusal {
                continue;
            }
            let (settings, patience) = (&self.settings, &self.patience);
            return Err(explain::request(&error, url, &trust, proxy, settings, patience));
        }
    }

    /// Whether the source's credentials may go to a token server.
    pub fn check_realm(&self, realm: &Url, is_source_plain: bool) -> Result<(), Error> {
        Ok(trust::check_realm(realm, &self.source, &self.settings, is_source_plain)?)
    }

    /// The words that name the proxy on the way to a URL, if there is one.
    pub fn via(&self, url: &Url) -> String {
        explain::via(self.clients.proxies().for_url(url))
    }

    fn trust(&self, url: &Url) -> Trust {
        Trust::of(url, &self.source, &self.settings)
    }
}

fn headers(
    mut builder: RequestBuilder,
    request: &Request<'_>,
    authorization: Option<&HeaderValue>,
) -> RequestBuilder {
    if let Some(accept) = request.accept {
        builder = builder.header(ACCEPT, accept);
    }
    if let Some(part) = request.part {
        builder = builder.header(RANGE, part.to_string());
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
}

fn answer(url: &Url, rule: &str) -> Error {
    Error::answer(&host_of(url), rule)
}
