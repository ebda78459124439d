//! Why a request failed, in words, and whether asking again may help.

use std::io::ErrorKind;

use pull_route::{Settings, Trust, host_of, quoted};
use registry_config::ProxyUrl;
use url::Url;

use crate::error::Error;
use crate::failure::{Again, Failure};
use crate::patience::Patience;
use crate::retry::seconds;
use crate::tls;

/// Explains a request that got no answer.
pub fn request(
    error: &reqwest::Error,
    url: &Url,
    trust: &Trust,
    proxy: Option<&ProxyUrl>,
    settings: &Settings,
    patience: &Patience,
) -> Failure {
    let host = host_of(url);
    if let Some(fault) = tls::certificate_fault(error) {
        let proxy = proxy.filter(|_| fault.is_proxy);
        let (host, authority) = match proxy {
            Some(proxy) => {
                (format!("the proxy {proxy} of [extra-env]"), trust.of_proxy(proxy, settings))
            }
            None => (host, trust.authority.clone()),
        };
        return Error::certificate(&host, &fault.reason, &authority.roots()).into();
    }
    let is_not_tls = tls::is_not_tls(error);
    let proxy_fault = proxy.and_then(|proxy| ProxyFault::of(error, proxy, url));
    let reason = match &proxy_fault {
        Some(fault) => fault.reason(error),
        None if error.is_timeout() && error.is_connect() => {
            format!("no connection within {}", seconds(patience.connect))
        }
        None if is_not_tls => "it does not speak TLS".to_owned(),
        None if is_nonsense(error) => {
            let detail = innermost(error);
            format!("what answers there is no HTTP or beyond all limits ({detail})")
        }
        None => innermost(error),
    };
    let is_final = match &proxy_fault {
        Some(fault) => matches!(fault, ProxyFault::Credentials),
        None => tls::is_tls_error(error) || is_nonsense(error) || error.is_builder(),
    };
    // Behind a proxy a refused connection may be the proxy's own, so it says nothing about the
    // registry.
    let is_refused = proxy.is_none()
        && error.is_connect()
        && !error.is_timeout()
        && has_kind(error, ErrorKind::ConnectionRefused);
    Failure {
        error: Error::unreachable(&host, &via(proxy), &reason),
        is_without_tls: is_not_tls || is_refused,
        again: if is_final { Again::Never } else { Again::Perhaps },
        is_about_account: false,
    }
}

/// Explains a body that ended before its time.
pub fn body(error: &reqwest::Error, host: &str) -> Failure {
    let reason = format!("broke off: {}", innermost(error));
    Failure::passing(Error::transfer(host, &reason))
}

/// The words that name a proxy.
pub fn via(proxy: Option<&ProxyUrl>) -> String {
    proxy.map(|proxy| format!(" through the proxy {proxy} of [extra-env]")).unwrap_or_default()
}

/// A failure of the proxy and not of the host behind it.
enum ProxyFault {
    /// It was not reached.
    Silent,
    /// It does not know the puller.
    Credentials,
    /// It will not or cannot reach the host.
    Unwilling,
}

impl ProxyFault {
    /// The client tells these by nothing but their text.
    fn of(error: &reqwest::Error, proxy: &ProxyUrl, url: &Url) -> Option<Self> {
        let texts: Vec<_> = causes(error).map(|cause| cause.to_string()).collect();
        let says = |what: &str| texts.iter().any(|text| text.contains(what));
        if says("proxy authorization required") || says("credentials not accepted") {
            Some(Self::Credentials)
        } else if says("tunnel error: unsuccessful")
            || says("SOCKS error") && !says("underlying connection")
        {
            Some(Self::Unwilling)
        } else if says("underlying connection")
            || says("tunnel error")
            || error.is_connect() && url.scheme() == "http" && !proxy.is_socks()
        {
            Some(Self::Silent)
        } else {
            None
        }
    }

    fn reason(&self, error: &reqwest::Error) -> String {
        match self {
            Self::Silent => format!("the proxy itself does not answer: {}", innermost(error)),
            Self::Credentials => {
                "the proxy wants other credentials (407 Proxy Authentication Required)".to_owned()
            }
            Self::Unwilling => {
                let detail = innermost(error);
                format!(
                    "the proxy does not open a way there: it refuses the credentials or the \
                    address, or cannot reach it ({detail})"
                )
            }
        }
    }
}

/// An answer that is no HTTP, or beyond a limit: the next one will be the same.
pub fn is_nonsense(error: &reqwest::Error) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<hyper::Error>())
        .any(hyper::Error::is_parse)
}

/// The server took the connection and hung up without an answer.
pub fn is_hang_up(error: &reqwest::Error) -> bool {
    let says_so = |error: &hyper::Error| error.is_incomplete_message() || error.is_closed();
    !error.is_connect()
        && (has_kind(error, ErrorKind::UnexpectedEof)
            || has_kind(error, ErrorKind::ConnectionReset)
            || causes(error).filter_map(|cause| cause.downcast_ref::<hyper::Error>()).any(says_so))
}

fn has_kind(error: &reqwest::Error, kind: ErrorKind) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == kind)
}

/// An error and what caused it, one after the other.
pub fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn std::error::Error + 'static) = *error;
        // An I/O error hides what it wraps from `source`, which goes one step too far.
        let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
}

/// The cause at the end of a chain. Only that one: the outer ones repeat the URL, which may carry a
/// signature.
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let is_cut = causes(error)
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == ErrorKind::UnexpectedEof);
    if is_cut {
        // What the TLS library says instead is for programmers.
        return "the connection was closed".to_owned();
    }
    let innermost = causes(error).last().unwrap_or(error);
    match innermost.downcast_ref::<reqwest::Error>() {
        Some(error) if error.is_builder() => "the HTTP client refuses its settings".to_owned(),
        Some(_) => "the request failed".to_owned(),
        None => quoted(&innermost.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_words_are_cut() {
        // As the data of a GOAWAY arrives: at the end of a chain.
        let goaway = std::io::Error::other("x".repeat(1 << 20));
        assert!(innermost(&goaway).len() < 400);
    }
}
