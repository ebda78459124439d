//! The pull side of one registry or mirror: manifests and blobs by digest (OCI distribution specification, "Pull").

use std::sync::{Arc, OnceLock};

use puller_config::Credentials;
use reqwest::StatusCode;
use reqwest::header::{HeaderValue, WWW_AUTHENTICATE};
use tokio::sync::Mutex;

use crate::body;
use crate::challenge::{self, Challenge};
use crate::digest::{Digest, Unverified};
use crate::error::Error;
use crate::settings::Settings;
use crate::source::Source;
use crate::token::{self, TokenRequest};
use crate::transport::{Answer, Failure, Request, Transport};

/// The largest manifest or index; the distribution specification asks registries to take 4 MiB and no more.
pub const MAX_MANIFEST_BYTES: usize = 4 << 20;

/// The largest image configuration. It has a few KiB; a long history makes it tens.
pub const MAX_CONFIG_BYTES: usize = 4 << 20;

/// Every kind of manifest that can be pulled, so that registries do not convert it to what they take for older clients.
const MANIFEST_TYPES: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// One repository at one source.
#[derive(Debug)]
pub struct Registry {
    source: Arc<Source>,
    repository: String,
    transport: Transport,
    /// The scheme that answered first.
    scheme: OnceLock<&'static str>,
    authorization: Mutex<Option<HeaderValue>>,
}

impl Registry {
    /// A session without connections.
    pub fn new(source: Source, repository: &str, settings: &Settings) -> Self {
        let source = Arc::new(source);
        let scheme = OnceLock::new();
        if source.is_scheme_fixed {
            let _ = scheme.set(if source.base.scheme() == "http" {
                "http"
            } else {
                "https"
            });
        }
        Self {
            transport: Transport::new(settings.clone(), source.clone()),
            source,
            repository: repository.to_owned(),
            scheme,
            authorization: Mutex::default(),
        }
    }

    /// Host and port, as in messages.
    pub fn host(&self) -> String {
        self.source.host()
    }

    /// The bytes that the registry has under the digest of a manifest.
    pub async fn manifest(&self, digest: &Digest) -> Result<Unverified, Error> {
        let answer = self
            .fetch("manifests", digest, Some(MANIFEST_TYPES))
            .await?;
        body::read(answer, "manifest", MAX_MANIFEST_BYTES)
            .await
            .map(Unverified::new)
    }

    /// The bytes that the registry has under the digest of an image configuration.
    pub async fn config(&self, digest: &Digest) -> Result<Unverified, Error> {
        let answer = self.fetch("blobs", digest, None).await?;
        body::read(answer, "image configuration", MAX_CONFIG_BYTES)
            .await
            .map(Unverified::new)
    }

    /// The stream of a blob, to be hashed by who reads it.
    pub async fn blob(&self, digest: &Digest) -> Result<Answer, Error> {
        self.fetch("blobs", digest, None).await
    }

    async fn fetch(
        &self,
        kind: &str,
        digest: &Digest,
        accept: Option<&'static str>,
    ) -> Result<Answer, Error> {
        let sent = self.authorization().await?;
        let answer = self.send(kind, digest, accept, sent.as_ref()).await?;
        // Only the registry itself may say where credentials go, not a host that it redirects to.
        if answer.response.status() != StatusCode::UNAUTHORIZED || !self.source.is_own(&answer.url)
        {
            return self.accept(answer, kind, digest);
        }
        let is_plain = answer.url.scheme() == "http";
        let renewed = self.authorize(&challenges(&answer), sent, is_plain).await?;
        let answer = self.send(kind, digest, accept, Some(&renewed)).await?;
        if answer.response.status() == StatusCode::UNAUTHORIZED {
            return Err(self.refused());
        }
        self.accept(answer, kind, digest)
    }

    /// Sends a request; the first one finds out whether the host speaks TLS, where plain HTTP is allowed at all.
    async fn send(
        &self,
        kind: &str,
        digest: &Digest,
        accept: Option<&'static str>,
        authorization: Option<&HeaderValue>,
    ) -> Result<Answer, Error> {
        let scheme = self.scheme.get().copied();
        let request = |scheme| -> Result<Request<'_>, Error> {
            let url = self
                .source
                .url(scheme, &self.repository, kind, &digest.to_string())?;
            // A token that everyone is given is no secret.
            let is_safe = scheme == "https"
                || self.source.authority.registry.plain_http
                || matches!(self.source.credentials, Credentials::Anonymous);
            Ok(Request {
                url,
                accept,
                authorization: authorization.filter(|_| is_safe),
                form: None,
            })
        };
        let first = scheme.unwrap_or("https");
        let failure = match self.transport.send(request(first)?).await {
            Ok(answer) => {
                let _ = self.scheme.set(first);
                return Ok(answer);
            }
            Err(failure) => failure,
        };
        if scheme.is_some() || !failure.is_without_tls || !self.source.may_be_plain() {
            return Err(failure.error);
        }
        tracing::warn!(
            registry = self.host(),
            "no TLS there, asking over plain HTTP as {} allows",
            self.source.authority
        );
        let answer = self
            .transport
            .send(request("http")?)
            .await
            .map_err(|Failure { error, .. }| error)?;
        let _ = self.scheme.set("http");
        Ok(answer)
    }

    /// What to send with a request before being asked: a token from the document, or what was accepted before.
    async fn authorization(&self) -> Result<Option<HeaderValue>, Error> {
        let mut authorization = self.authorization.lock().await;
        if let (None, Credentials::RegistryToken(token)) =
            (&*authorization, &self.source.credentials)
        {
            *authorization = Some(token::bearer_header(token.expose())?);
        }
        Ok(authorization.clone())
    }

    /// Answers a challenge. Holding the lock, so that several layers in flight ask for one token.
    async fn authorize(
        &self,
        challenges: &[Challenge],
        sent: Option<HeaderValue>,
        is_plain: bool,
    ) -> Result<HeaderValue, Error> {
        let mut authorization = self.authorization.lock().await;
        if let Some(renewed) = authorization
            .as_ref()
            .filter(|current| Some(*current) != sent.as_ref())
        {
            return Ok(renewed.clone());
        }
        let (host, authority) = (self.host(), &self.source.authority);
        let credentials = &self.source.credentials;
        let is_anonymous = matches!(credentials, Credentials::Anonymous);
        if is_plain && !is_anonymous && !authority.registry.plain_http {
            return Err(Error::CredentialsInClear {
                host,
                authority: authority.to_string(),
            });
        }
        let find = |scheme: &str| {
            challenges
                .iter()
                .find(|challenge| challenge.scheme == scheme)
        };
        let header = match (find("bearer"), find("basic"), credentials) {
            (_, _, Credentials::RegistryToken(_)) => return Err(self.refused()),
            (Some(bearer), _, _) => {
                let repository = &self.repository;
                let request = TokenRequest {
                    host: &host,
                    repository,
                    credentials,
                    authority,
                    is_plain,
                };
                token::fetch(&self.transport, bearer, &request).await?
            }
            (None, Some(_), Credentials::Basic { username, password }) => {
                if sent.is_some() {
                    return Err(self.refused());
                }
                token::basic_header(username, password.expose())?
            }
            (None, _, Credentials::Anonymous) => return Err(self.refused()),
            (None, Some(_), Credentials::IdentityToken { .. }) => {
                let rule = format!(
                    "asks for user name and password, but {authority} has an \"identitytoken\""
                );
                return Err(Error::Challenge { host, rule });
            }
            (None, None, _) => {
                let offered: Vec<_> = challenges
                    .iter()
                    .map(|challenge| challenge.scheme.as_str())
                    .collect();
                let rule = format!(
                    "offers no way to authenticate that is known here ({:?})",
                    offered.join(", ")
                );
                return Err(Error::Challenge { host, rule });
            }
        };
        *authorization = Some(header.clone());
        Ok(header)
    }

    fn refused(&self) -> Error {
        let (host, authority) = (self.host(), self.source.authority.to_string());
        match self.source.credentials {
            Credentials::Anonymous => Error::CredentialsMissing { host, authority },
            _ => Error::CredentialsRefused { host, authority },
        }
    }

    fn accept(&self, answer: Answer, kind: &str, digest: &Digest) -> Result<Answer, Error> {
        let status = answer.response.status();
        let meaning = match status {
            StatusCode::OK => return Ok(answer),
            StatusCode::FORBIDDEN => "the account may not read this repository",
            StatusCode::NOT_FOUND => "not there, or the account may not see this repository",
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                "the proxy of [extra-env] wants other credentials"
            }
            StatusCode::TOO_MANY_REQUESTS => {
                "too many pulls; wait, or use an account with a higher limit"
            }
            _ if status.is_server_error() => "the registry is out of order",
            _ => "this is no answer of a registry",
        };
        let what = format!("{kind} {}@{digest}", self.repository);
        Err(Error::Refused {
            host: crate::source::host_of(&answer.url),
            status: status.to_string(),
            what,
            meaning,
        })
    }
}

fn challenges(answer: &Answer) -> Vec<Challenge> {
    let headers = answer.response.headers().get_all(WWW_AUTHENTICATE);
    headers
        .iter()
        .flat_map(|header| challenge::parse(header.as_bytes()))
        .collect()
}
