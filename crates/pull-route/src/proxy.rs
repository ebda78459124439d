//! Which proxy a URL is asked through: the document's, never the environment's.

use puller_config::{ExtraEnv, ProxyUrl};
use url::Url;

use crate::no_proxy::NoProxy;

/// The proxies of a pull.
#[derive(Clone, Debug)]
pub struct Proxies {
    http: Option<ProxyUrl>,
    https: Option<ProxyUrl>,
    direct: NoProxy,
}

impl Proxies {
    /// Takes them from the document.
    pub fn new(environment: &ExtraEnv) -> Self {
        let direct = environment
            .no_proxy
            .as_deref()
            .map(NoProxy::parse)
            .unwrap_or_default();
        Self {
            http: environment.http_proxy.clone(),
            https: environment.https_proxy.clone(),
            direct,
        }
    }

    /// The proxy for a URL.
    pub fn for_url(&self, url: &Url) -> Option<&ProxyUrl> {
        let proxy = if url.scheme() == "http" {
            &self.http
        } else {
            &self.https
        };
        proxy.as_ref().filter(|_| !self.direct.matches(url))
    }
}
