//! Requests to one repository at one source: the scheme found out, challenges answered, statuses
//! explained.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pull_route::{Settings, Source, host_of};
use reqwest::StatusCode;
use reqwest::header::{HeaderValue, WWW_AUTHENTICATE};
use tokio::time::Instant;
use url::Url;

use crate::attempt::may_pass;
use crate::authorization::{Authorization, Challenged, Renewed};
use crate::challenge::{self, Challenge};
use crate::content_request::ContentRequest;
use crate::error::Error;
use crate::failure::{Again, Failure};
use crate::patience::Patience;
use crate::plain_hosts::PlainHosts;
use crate::range::Part;
use crate::retry::Attempts;
use crate::retry_after::retry_after;
use crate::transport::{Answer, Request, Transport};

/// How many blobs may take too long before their source, if there is another one, is taken to be
/// down.
const MAX_LATE_BLOBS: u32 = 2;

/// How often one request is made with what others were given: none of them asks for less than one
/// answer, so each time there are fewer of them.
const MAX_RENEWALS: usize = 8;

/// One repository at one source.
#[derive(Debug)]
pub struct Session {
    pub(crate) source: Arc<Source>,
    /// The name that it has there.
    pub(crate) repository: String,
    transport: Transport,
    /// The scheme that answered first.
    scheme: OnceLock<&'static str>,
    /// Hosts that spoke no TLS to any session.
    pub(crate) plain_hosts: Arc<PlainHosts>,
    authorization: Authorization,
    /// Whether it ever gave what was asked for.
    is_let_in: AtomicBool,
    /// How many blobs were given up because they took too long.
    late: AtomicU32,
}

impl Session {
    /// A session without connections. Without a repository there is nothing to ask for but to be
    /// let in.
    pub fn new(source: Source, repository: &str, settings: &Settings, patience: &Patience) -> Self {
        let source = Arc::new(source);
        let scheme = OnceLock::new();
        if source.is_scheme_fixed {
            let _ = scheme.set(match source.base.scheme() {
                "http" => "http",
                _ => "https",
            });
        }
        let repository = source.repository.as_deref().unwrap_or(repository).to_owned();
        Self {
            transport: Transport::new(settings.clone(), source.clone(), patience),
            source,
            repository,
            scheme,
            plain_hosts: Arc::default(),
            authorization: Authorization::default(),
            is_let_in: AtomicBool::new(false),
            late: AtomicU32::new(0),
        }
    }

    /// How long things may take.
    pub fn patience(&self) -> &Patience {
        self.transport.patience()
    }

    /// Does not use connections any more that something just failed on.
    pub fn reconnect(&self) {
        self.transport.reconnect();
    }

    /// No attempts yet at something.
    pub fn attempts(&self) -> Attempts {
        Attempts::new(self.patience(), self.budget())
    }

    /// No attempts yet at something that is to be over by then.
    pub fn attempts_until(&self, end: Instant) -> Attempts {
        let left = end.saturating_duration_since(Instant::now());
        Attempts::new(self.patience(), left.min(self.budget()))
    }

    /// How long this source may go without progress.
    pub fn budget(&self) -> Duration {
        let patience = self.patience();
        if self.source.has_fallback || patience.in_turns {
            patience.budget_before_fallback
        } else {
            patience.budget
        }
    }

    /// Whether another source is left to ask.
    pub fn has_fallback(&self) -> bool {
        self.source.has_fallback
    }

    /// How long a blob may be waited for of which so many bytes have come.
    pub fn blob_time(&self, received: u64) -> Duration {
        self.patience().for_blob(received, self.source.has_fallback)
    }

    /// Counts a blob that was lost. The second one that took too long is enough, where another
    /// source can be asked: each costs as much time as a source is given for everything.
    pub fn lost(&self, error: Error) -> Error {
        let is_late = error.is_late() && self.source.has_fallback;
        if is_late && self.late.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_LATE_BLOBS {
            return error.not_the_first();
        }
        error
    }

    /// Asks as one account after another, as long as they are refused.
    pub async fn ask(&self, wanted: ContentRequest<'_>) -> Result<Answer, Failure> {
        loop {
            let account = self.authorization.account();
            let failure = match self.ask_as_account(wanted).await {
                Ok(answer) => {
                    self.is_let_in.store(true, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            if wanted.is_aside && self.is_let_in.load(Ordering::Relaxed) {
                return Err(failure);
            }
            self.authorization.next_account(account, &self.source, failure).await?;
        }
    }

    /// Asks for a part of a blob at the address that the registry sent the puller to before.
    pub async fn ask_elsewhere(&self, url: Url, part: Part) -> Result<Answer, Failure> {
        let request = Request { part: Some(part), ..Request::get(url) };
        self.transport.send(request).await
    }

    /// The shortest time in which an answer began; nothing before the first one.
    pub fn quickest(&self) -> Option<Duration> {
        self.transport.quickest()
    }

    /// The account in use: its place in the entry, if there is one.
    pub fn account(&self) -> Option<usize> {
        let account = self.source.accounts.get(self.authorization.account());
        account.map(|account| account.number)
    }

    /// The scheme by which the source answered; nothing before the first answer.
    pub fn scheme(&self) -> Option<&'static str> {
        self.scheme.get().copied()
    }

    /// The words that name the proxy on the way to the source, if there is one.
    pub fn via(&self) -> String {
        let mut url = self.source.base.clone();
        // Between http and https the scheme may always be changed.
        let _ = url.set_scheme(self.scheme().unwrap_or("https"));
        self.transport.via(&url)
    }

    /// Whether the source was told who the puller is.
    pub async fn is_told(&self) -> bool {
        self.authorization.is_told().await
    }

    /// Asks once, and once more with what the answer asks for. Requests at the same time share what
    /// was made for one of them, so it may be over when the others come with it.
    async fn ask_as_account(&self, wanted: ContentRequest<'_>) -> Result<Answer, Failure> {
        let authorization = &self.authorization;
        let mut sent =
            authorization.current(&self.transport, &self.source, &self.repository).await?;
        let mut is_last = false;
        for _ in 0..MAX_RENEWALS {
            let answer = self.send(wanted, sent.as_ref()).await?;
            let is_refused = answer.response.status() == StatusCode::UNAUTHORIZED;
            if is_last && is_refused && !authorization.may_be_used_up(sent.as_ref()).await {
                break;
            }
            // Only the registry itself may say where credentials go, not a host that it redirects
            // to.
            if !is_refused || !self.source.is_own(&answer.url) {
                return self.accept(answer, wanted, sent.is_some());
            }
            let challenged = Challenged {
                challenges: challenges(&answer),
                sent,
                is_plain: answer.url.scheme() == "http",
            };
            drop(answer);
            let renewed = authorization
                .renew(&self.transport, &self.source, &self.repository, challenged)
                .await?;
            (sent, is_last) = match renewed {
                Renewed::Own(header) => (Some(header), true),
                Renewed::Shared(header) => (Some(header), false),
            };
        }
        Err(Failure { is_about_account: wanted.is_first(), ..Error::refused(&self.source).into() })
    }

    /// Sends a request; the first one finds out whether the host speaks TLS, where plain HTTP is
    /// allowed at all.
    async fn send(
        &self,
        wanted: ContentRequest<'_>,
        authorization: Option<&HeaderValue>,
    ) -> Result<Answer, Failure> {
        let scheme = self.scheme.get().copied();
        let request = |scheme| -> Result<Request<'_>, Error> {
            let url = self.source.url(scheme, &self.repository, wanted.kind, wanted.name)?;
            // A token that everyone is given is no secret.
            let is_safe = self.source.may_tell(scheme) || self.source.accounts.is_empty();
            Ok(Request {
                accept: wanted.accept,
                part: wanted.part,
                authorization: authorization.filter(|_| is_safe),
                ..Request::get(url)
            })
        };
        if scheme.is_none() && self.was_plain() {
            match self.transport.send(request("http")?).await {
                // What is said to plain HTTP at a port that speaks TLS.
                Ok(answer) if answer.response.status() != StatusCode::BAD_REQUEST => {
                    let _ = self.scheme.set("http");
                    return Ok(answer);
                }
                _ => self.plain_hosts.forget(&self.source.host()),
            }
        }
        let first = scheme.unwrap_or("https");
        let failure = match self.transport.send(request(first)?).await {
            Ok(answer) => {
                let _ = self.scheme.set(first);
                return Ok(answer);
            }
            Err(failure) => failure,
        };
        if scheme.is_some() || !failure.is_without_tls || !self.source.may_be_plain() {
            return Err(failure);
        }
        tracing::warn!(
            registry = self.source.host(),
            "no TLS there, asking over plain HTTP as {} allows",
            self.source.authority
        );
        let answer = self.transport.send(request("http")?).await;
        let answer = answer.map_err(|plain| plain.after_tls(&failure.error))?;
        let _ = self.scheme.set("http");
        self.plain_hosts.insert(self.source.host());
        Ok(answer)
    }

    /// Whether the host is to be asked over plain HTTP first: its entry says that this is as good,
    /// and the last time there was no TLS.
    fn was_plain(&self) -> bool {
        self.source.may_tell("http") && self.plain_hosts.has(&self.source.host())
    }

    /// `has_account`: whether it was asked as anybody.
    fn accept(
        &self,
        answer: Answer,
        wanted: ContentRequest<'_>,
        has_account: bool,
    ) -> Result<Answer, Failure> {
        let status = answer.response.status();
        let host = host_of(&answer.url);
        let is_own = self.source.is_own(&answer.url);
        let meaning = match status {
            StatusCode::OK => return Ok(answer),
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE
                if wanted.part.is_some() =>
            {
                return Ok(answer);
            }
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                let via = self.transport.via(&answer.url);
                let reason =
                    "the proxy wants other credentials (407 Proxy Authentication Required)";
                return Err(Error::unreachable(&host, &via, reason).into());
            }
            StatusCode::FORBIDDEN if is_own && wanted.is_greeting() => {
                "the account may not use this registry"
            }
            StatusCode::NOT_FOUND if wanted.is_greeting() => "there is no registry at this address",
            StatusCode::FORBIDDEN if is_own => "the account may not read this repository",
            StatusCode::FORBIDDEN => {
                "the address that the registry sent the puller to is not good there"
            }
            StatusCode::NOT_FOUND => "not there, or the account may not see this repository",
            StatusCode::TOO_MANY_REQUESTS => {
                "too many pulls; wait, or use an account with a higher limit"
            }
            _ if status.is_server_error() => "the registry is out of order",
            _ => "this is no answer of a registry",
        };
        let separator = if wanted.name.contains(':') { '@' } else { ':' };
        let what = match wanted.is_greeting() {
            true => "/v2/".to_owned(),
            false => format!("{} {}{separator}{}", wanted.kind, self.repository, wanted.name),
        };
        let is_anonymous = self.source.accounts.is_empty();
        let error = Error::status_of(&host, status, &what, meaning, is_anonymous);
        let is_rest = wanted.part.is_some_and(|part| part.from > 0);
        if status == StatusCode::FORBIDDEN && !is_own && is_rest {
            // It was good for the first part: a signature that has expired, and the registry makes
            // a new one.
            return Err(Failure::passing(error));
        }
        let is_denied = status == StatusCode::FORBIDDEN && is_own;
        Err(Failure {
            is_about_account: is_denied && has_account && wanted.is_first(),
            ..refusal(error, status, &answer)
        })
    }
}

/// A status that is none of those that were hoped for: some pass, and some answers say when.
pub(crate) fn refusal(error: Error, status: StatusCode, answer: &Answer) -> Failure {
    let again = match retry_after(answer.response.headers()) {
        _ if !may_pass(status) => Again::Never,
        Some(wait) => Again::After(wait),
        None => Again::Perhaps,
    };
    Failure { again, ..error.into() }
}

fn challenges(answer: &Answer) -> Vec<Challenge> {
    let headers = answer.response.headers().get_all(WWW_AUTHENTICATE);
    headers.iter().flat_map(|header| challenge::parse(header.as_bytes())).collect()
}
