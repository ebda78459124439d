//! Which proxy a URL is asked through: the document's, never the environment's.

use registry_config::{ExtraEnv, ProxyUrl};
use url::Url;

use crate::no_proxy::NoProxy;
use crate::reason::Reason;

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
        let direct = environment.no_proxy.as_deref().map(NoProxy::parse).unwrap_or_default();
        Self {
            http: environment.http_proxy.clone(),
            https: environment.https_proxy.clone(),
            direct,
        }
    }

    /// The proxy for a URL.
    pub fn for_url(&self, url: &Url) -> Option<&ProxyUrl> {
        self.of_scheme(url).filter(|_| !self.direct.matches(url))
    }

    /// Why a URL is asked through a proxy, or without one.
    pub fn reason(&self, url: &Url) -> Reason {
        match (self.of_scheme(url), self.for_url(url)) {
            (_, Some(proxy)) => Reason::Proxied(proxy.to_string()),
            (Some(proxy), None) => Reason::Excepted(proxy.to_string()),
            (None, None) => Reason::NoProxy,
        }
    }

    fn of_scheme(&self, url: &Url) -> Option<&ProxyUrl> {
        let is_plain = url.scheme() == "http";
        let proxy = if is_plain { &self.http } else { &self.https };
        proxy.as_ref()
    }
}
