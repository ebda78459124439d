//! Requests about one DaemonSet, get and patch, and the end of the right to them.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use foreign_text::{one_line, shown};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, RequestBuilder, redirect, retry};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::Error;
use crate::account::Account;
use crate::daemon_set::DaemonSet;

/// The largest answer: more than etcd keeps for one object.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// How much of the server's words a message has.
const MAX_REASON_CHARS: usize = 300;

/// How long one request may take.
const MAX_REQUEST: Duration = Duration::from_secs(20);

/// A DaemonSet on its API server.
#[derive(Debug)]
pub struct Object {
    client: Client,
    url: Url,
    server: Url,
    namespace: String,
    name: String,
    token: HeaderValue,
}

/// The URL of an object: group, namespace, kind and name.
fn url_of(server: &Url, group: &str, namespace: &str, kind: &str, name: &str) -> Option<Url> {
    let mut url = server.clone();
    let path = ["apis", group, "v1", "namespaces", namespace, kind, name];
    url.path_segments_mut().ok()?.clear().extend(path);
    Some(url)
}

/// What the server says instead of an object (meta/v1 Status).
#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    message: String,
}

impl Object {
    /// The DaemonSet `name` in the account's namespace.
    ///
    /// # Errors
    ///
    /// [`Error::Account`] for a token or an authority that cannot be used, [`Error::Client`].
    pub fn new(account: &Account, name: &str) -> Result<Self, Error> {
        let failed = |reason: String| Error::Client { reason };
        let mut roots = RootCertStore::empty();
        // One that rustls cannot read is not worth the others.
        let (taken, _) = roots.add_parsable_certificates(account.authorities.iter().cloned());
        if taken == 0 {
            return Err(failed("no authority of the service account is usable".into()));
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            // The cluster's own address is behind no proxy.
            .no_proxy()
            .https_only(true)
            .http1_only()
            // Between two requests the server may be restarted.
            .pool_max_idle_per_host(0)
            .timeout(MAX_REQUEST)
            .user_agent(concat!("kata-configdev-remove/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| failed(one_line(&error.to_string()).to_string()))?;
        let mut token = HeaderValue::from_str(&format!("Bearer {}", *account.token))
            .map_err(|_| failed("the token has characters that no token has".into()))?;
        token.set_sensitive(true);
        let url = url_of(&account.server, "apps", &account.namespace, "daemonsets", name)
            .ok_or_else(|| failed("the server has no paths".into()))?;
        Ok(Self {
            client,
            url,
            server: account.server.clone(),
            namespace: account.namespace.clone(),
            name: name.to_owned(),
            token,
        })
    }

    /// The object; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`], [`Error::Refused`], [`Error::Answer`].
    pub async fn get(&self) -> Result<Option<DaemonSet>, Error> {
        match self.send("get", self.client.get(self.url.clone())).await {
            Err(Error::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
            Ok(found) => Ok(Some(found)),
        }
    }

    /// Changes the object by a strategic merge patch, and says what it is then.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`], [`Error::Refused`], [`Error::Answer`].
    pub async fn patch(&self, patch: &Value) -> Result<DaemonSet, Error> {
        let request = self.client.patch(self.url.clone());
        let request = request.header(CONTENT_TYPE, "application/strategic-merge-patch+json");
        self.send("patch", request.body(patch.to_string())).await
    }

    /// Deletes the role binding `binding`, by which this account may do the rest. One that is not
    /// there is as good.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`], [`Error::Refused`], [`Error::Answer`].
    pub async fn delete_binding(&self, binding: &str) -> Result<(), Error> {
        let group = "rbac.authorization.k8s.io";
        let url = url_of(&self.server, group, &self.namespace, "rolebindings", binding)
            .ok_or_else(|| self.not_understood("the server has no paths".into()))?;
        match self.ask("delete the binding of", self.client.delete(url)).await {
            Ok(_) | Err(Error::Refused { status: 404, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn send(&self, verb: &'static str, request: RequestBuilder) -> Result<DaemonSet, Error> {
        let body = self.ask(verb, request).await?;
        DaemonSet::parse(&body).map_err(|reason| self.not_understood(reason))
    }

    /// The body of a successful answer.
    async fn ask(&self, verb: &'static str, request: RequestBuilder) -> Result<Vec<u8>, Error> {
        let unreachable =
            |reason: String| Error::Unreachable { server: self.server.to_string(), reason };
        let request = request.header(AUTHORIZATION, self.token.clone());
        let mut response = request.send().await.map_err(|error| unreachable(reason(&error)))?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| unreachable(reason(&error)))?
        {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(self.not_understood("the answer is longer than any object".into()));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(body);
        }
        let said: Refusal = serde_json::from_slice(&body).unwrap_or_default();
        Err(Error::Refused {
            verb,
            name: self.shown_name(),
            status: status.as_u16(),
            reason: shown(&said.message).up_to(MAX_REASON_CHARS).to_string(),
        })
    }

    /// An answer that is no DaemonSet of the chart.
    #[must_use]
    pub fn not_understood(&self, reason: String) -> Error {
        Error::Answer { name: self.shown_name(), reason }
    }

    /// The time is over.
    #[must_use]
    pub fn late(&self, limit: Duration, state: &str) -> Error {
        Error::Late {
            limit,
            state: state.to_owned(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// No node can be cleaned, because the DaemonSet is for none.
    #[must_use]
    pub fn without_nodes(&self) -> Error {
        Error::NoNodes { name: self.shown_name() }
    }

    fn shown_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The innermost reason of a failed request: the outer ones say the URL again.
fn reason(error: &reqwest::Error) -> String {
    let mut last: &(dyn StdError + 'static) = error;
    while let Some(inner) = inner(last) {
        last = inner;
    }
    shown(&last.to_string()).up_to(MAX_REASON_CHARS).to_string()
}

/// An I/O error hides what it was made of.
fn inner<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}
