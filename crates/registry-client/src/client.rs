//! The HTTP clients of a source: one for each scheme, host and port, because trust belongs to
//! these.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pull_route::{Proxies, Settings, Trust, host_of};
use reqwest::Client;
use url::Url;

use crate::error::Error;
use crate::explain::innermost;
use crate::patience::Patience;
use crate::reach::{self, Outside};
use crate::tls::{self, Peers, Protocol};

/// How many headers an answer over HTTP/1.1 may have. Their bytes are bounded by hyper (about 400
/// KiB).
const MAX_HEADERS: usize = 100;

/// How many bytes of headers an answer over HTTP/2 may have.
const MAX_HEADER_BYTES: u32 = 64 << 10;

/// How much one blob over HTTP/2 may be ahead of who reads it. Enough for 1 Gbit/s at 16 ms, and
/// little beside a pull's buffers.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;

/// The same for all blobs of one connection. Two blobs of a pull may wait to be unpacked with their
/// windows full (`imagepuller`, `pull/budget.rs`); what is left is for those that are being read.
const CONNECTION_WINDOW_BYTES: u32 = 4 * STREAM_WINDOW_BYTES;

/// The largest frame of HTTP/2. The protocol allows 16 MiB, which would be held whole for each
/// stream.
const MAX_FRAME_BYTES: u32 = 256 << 10;

/// How many hosts are remembered. A pull needs three or four; a registry that redirects to ever new
/// ones fills it.
const MAX_KNOWN: usize = 16;

/// How many connections to a host wait for further requests: as many as blobs are read at once. With
/// fewer, each round of small blobs would connect anew.
const MAX_IDLE: usize = 32;

/// How this program names itself to registries.
const USER_AGENT: &str = concat!("imagepuller/", env!("CARGO_PKG_VERSION"));

/// The clients that were needed so far.
///
/// HTTP/1.1 is offered first, and HTTP/2 to hosts that do not answer to that: over TLS, HTTP/1.1
/// costs half the CPU time per byte, and blobs are nearly all of a pull.
#[derive(Debug)]
pub struct Clients {
    settings: Settings,
    proxies: Proxies,
    patience: Patience,
    known: Mutex<HashMap<String, HostClient>>,
}

#[derive(Clone, Debug)]
struct HostClient {
    client: Client,
    protocol: Protocol,
    /// Whether it is the source itself, and not who it sends the puller to.
    is_own: bool,
    /// Whether the host has ever answered by this protocol.
    has_answered: bool,
    /// Whether the next request is to have a connection of its own.
    is_stale: bool,
    /// How it resolves names, where not any address will do.
    outside: Option<Outside>,
}

impl Clients {
    /// None yet.
    pub fn new(settings: Settings, patience: &Patience) -> Self {
        Self {
            proxies: Proxies::new(settings.proxies()),
            settings,
            patience: *patience,
            known: Mutex::default(),
        }
    }

    /// The proxies of the document.
    pub fn proxies(&self) -> &Proxies {
        &self.proxies
    }

    /// The client for a URL, and what it offers.
    ///
    /// # Errors
    ///
    /// Nobody is trusted, the roots would have to be fetched or cannot be used, or no connection to
    /// the address may be opened.
    pub fn client(&self, url: &Url, trust: &Trust) -> Result<(Client, Protocol), Error> {
        let known = self.known().get(&key(url)).cloned();
        match known {
            Some(known) if !known.is_stale => Ok((known.client, known.protocol)),
            Some(known) => self.remember(url, trust, known.protocol),
            None => self.remember(url, trust, Protocol::Http1),
        }
    }

    /// Makes new connections to hosts over HTTP/2, because something failed: giving up an answer
    /// there does not end its connection, as it does with HTTP/1.1, and a dead one would be used
    /// for ever.
    pub fn reconnect(&self) {
        for known in self.known().values_mut() {
            known.is_stale |= known.protocol == Protocol::Http2;
        }
    }

    /// Why no connection to a URL's host or proxy is opened, if an address is the reason.
    pub fn refused(&self, url: &Url) -> Option<pull_route::Error> {
        self.known().get(&key(url))?.outside.as_ref()?.refused()
    }

    /// Takes note that a host has answered, so its protocol is settled.
    pub fn answered(&self, url: &Url) {
        if let Some(known) = self.known().get_mut(&key(url)) {
            known.has_answered = true;
        }
    }

    /// Offers HTTP/2 from now on to a host over TLS that did not answer to what was `sent`, if that
    /// was HTTP/1.1. Says whether that is anything new to who sent it.
    pub fn offer_http2(&self, url: &Url, trust: &Trust, sent: Protocol) -> Result<bool, Error> {
        if url.scheme() != "https" || sent == Protocol::Http2 {
            return Ok(false);
        }
        let known = self.known().get(&key(url)).cloned();
        match known {
            // Another request to the host, under way at the same time, was first.
            Some(known) if known.protocol == Protocol::Http2 => Ok(true),
            Some(known) if known.has_answered => Ok(false),
            _ => self.remember(url, trust, Protocol::Http2).map(|_| true),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, HostClient>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(
        &self,
        url: &Url,
        trust: &Trust,
        protocol: Protocol,
    ) -> Result<(Client, Protocol), Error> {
        let outside = reach::of(url, self.proxies.for_url(url), trust, &self.settings)?;
        let client = self.build(url, trust, protocol, outside.clone())?;
        let known = HostClient {
            client: client.clone(),
            protocol,
            is_own: trust.is_own,
            has_answered: false,
            is_stale: false,
            outside,
        };
        let (mut all, key) = (self.known(), key(url));
        if all.len() >= MAX_KNOWN && !all.contains_key(&key) {
            // Each has sockets and roots of its own; what is in flight keeps its client until it is
            // through.
            all.retain(|_, known| known.is_own);
        }
        all.insert(key, known);
        Ok((client, protocol))
    }

    fn build(
        &self,
        url: &Url,
        trust: &Trust,
        protocol: Protocol,
        outside: Option<Outside>,
    ) -> Result<Client, Error> {
        let host = host_of(url);
        trust.authority.check_allowed(&host)?;
        let roots = trust.authority.registry.ca_certs.as_ref();
        let proxy = self.proxies.for_url(url);
        // The HTTP client would go without a proxy that it cannot read, to an address of nobody's
        // choice.
        if let Some(proxy) = proxy.filter(|proxy| Url::parse(proxy.url()).is_err()) {
            let reason = format!("the proxy {proxy} of [extra-env] has a name that is no host's");
            return Err(Error::client(&host, &reason));
        }
        let proxy = match proxy.filter(|proxy| proxy.is_tls()) {
            None => None,
            Some(proxy) => {
                let authority = trust.of_proxy(proxy, &self.settings);
                authority.check_roots()?;
                Some((proxy.host().name(), authority.registry.ca_certs))
            }
        };
        if proxy.is_some() && trust.client.is_some() {
            let reason = format!(
                "the client certificate of {} would be shown to a proxy at https:// too; reach the \
                registry directly, or by a proxy at http://",
                trust.authority
            );
            return Err(Error::client(&host, &reason));
        }
        let peers = Peers {
            host: unbracketed(url.host_str().unwrap_or_default()),
            roots,
            skip_verify: trust.skip_verify,
            client: trust.client.as_ref(),
            proxy: proxy.as_ref().map(|(name, roots)| (unbracketed(name), roots.as_ref())),
        };
        let failed = |reason: String| Error::client(&host, &reason);
        let tls = tls::client_config(&peers, protocol)
            .map_err(|reason| failed(format!("{reason} ({})", trust.authority)))?;
        let builder = Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            // Attempts are counted here and not below.
            .retry(reqwest::retry::never())
            .referer(false)
            // First the environment's proxies off, which the host may control, then the document's
            // on.
            .no_proxy()
            .proxy(client_rule(&self.proxies))
            .connect_timeout(self.patience.connect)
            .pool_max_idle_per_host(MAX_IDLE)
            .user_agent(USER_AGENT);
        let builder = match protocol {
            Protocol::Http1 => builder.http1_only().http1_max_headers(MAX_HEADERS),
            Protocol::Http2 => builder
                .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
                .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .http2_max_frame_size(MAX_FRAME_BYTES)
                .http2_max_header_list_size(MAX_HEADER_BYTES),
        };
        let builder = match outside {
            None => builder,
            Some(outside) => builder.dns_resolver(outside),
        };
        builder.build().map_err(|error| failed(innermost(&error)))
    }
}

/// The proxies in the form in which the HTTP client takes them.
fn client_rule(proxies: &Proxies) -> reqwest::Proxy {
    let proxies = proxies.clone();
    reqwest::Proxy::custom(move |url| proxies.for_url(url).map(|proxy| proxy.url().to_owned()))
}

fn key(url: &Url) -> String {
    format!("{}://{}", url.scheme(), host_of(url))
}

/// A host of a URL, an IPv6 address without its brackets.
pub fn unbracketed(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Documents;
    use pull_route::{Route, Source};
    use registry_config::RegistryHost;

    /// What a source at `registry.corp` knows, after it has been asked itself.
    fn asked() -> (Source, Clients) {
        let settings = Documents::of("/nonexistent/imagepuller.toml").load().unwrap();
        let host = RegistryHost::of_url(&url("https://registry.corp/")).unwrap();
        let plan = settings.plan(&host, "team/app").unwrap();
        let Route { settings, mut sources } = plan.fill(None, None).unwrap();
        let source = sources.remove(0);
        let clients = Clients::new(settings, &Patience::default());
        ask(&source, &clients, "https://registry.corp/");
        (source, clients)
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn ask(source: &Source, clients: &Clients, text: &str) -> Protocol {
        let trust = Trust::of(&url(text), source, &clients.settings);
        clients.client(&url(text), &trust).unwrap().1
    }

    fn offer(source: &Source, clients: &Clients, text: &str, sent: Protocol) -> bool {
        let trust = Trust::of(&url(text), source, &clients.settings);
        clients.offer_http2(&url(text), &trust, sent).unwrap()
    }

    /// A registry that sends each request to another host could once fill the guest with clients
    /// and their sockets.
    #[test]
    fn hosts_that_are_redirected_to_are_forgotten() {
        let (source, clients) = asked();
        clients.answered(&url("https://registry.corp/"));
        for at in 0..3 * MAX_KNOWN {
            ask(&source, &clients, &format!("https://{at}.storage.corp/"));
            assert!(clients.known().len() <= MAX_KNOWN, "{at}");
        }
        let known = clients.known();
        assert!(known["https://registry.corp"].has_answered);
        assert!(known.contains_key(&format!("https://{}.storage.corp", 3 * MAX_KNOWN - 1)));
    }

    /// Of two first requests to a host that speaks HTTP/2 alone, the second one to fail was once
    /// not repeated.
    #[test]
    fn what_another_request_found_out_holds_for_all() {
        use Protocol::{Http1, Http2};
        let (source, clients) = asked();
        let storage = "https://storage.corp/";
        let sent = [(); 2].map(|()| ask(&source, &clients, storage));
        assert_eq!(sent, [Http1, Http1]);
        for sent in sent {
            assert!(offer(&source, &clients, storage, sent));
            assert_eq!(ask(&source, &clients, storage), Http2);
        }
        assert!(!offer(&source, &clients, storage, Http2));
        // What was answered once is not to be asked otherwise.
        clients.answered(&url("https://registry.corp/"));
        assert!(!offer(&source, &clients, "https://registry.corp/", Http1));
        assert!(!offer(&source, &clients, "http://storage.corp/", Http1));
    }
}
