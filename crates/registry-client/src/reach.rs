//! Which addresses a socket may be opened to.
//!
//! The host writes the config and answers the guest's look-ups: by a mirror, a proxy or a name it
//! could have the guest speak to its own loopback, to its link or to the cloud's metadata. What is
//! judged is the address that is connected to, after every look-up, whatever led there; behind a
//! proxy that is the proxy's.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pull_route::address::Vicinity;
use pull_route::{Error, Settings, Trust, host_of};
use registry_config::ProxyUrl;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Url;

use crate::client::unbracketed;

/// Resolves names, or takes the addresses of the entry; outside of every [`Vicinity`] where it has
/// to be.
#[derive(Clone, Debug)]
pub struct Outside {
    /// Whose name it is, in words.
    shown: String,
    /// In the place of a look-up, unless it is empty.
    addresses: Vec<IpAddr>,
    may_be_near: bool,
    /// Why the last look-up gave no address. The client's own error has no cause for some proxies.
    refused: Arc<Mutex<Option<Error>>>,
}

/// How the client for a URL has to resolve names; nothing if it may connect to what a look-up gives.
///
/// # Errors
///
/// [`Error::Near`] for an address itself, which no client resolves.
pub fn of(
    url: &Url,
    proxy: Option<&ProxyUrl>,
    trust: &Trust,
    settings: &Settings,
) -> Result<Option<Outside>, Error> {
    let addresses = match proxy {
        Some(_) => &[],
        None => trust.addresses.as_slice(),
    };
    let (may_be_near, name, shown) = match proxy {
        Some(proxy) => (
            settings.may_proxies_be_near(),
            proxy.host().name(),
            format!("the proxy {proxy} of [extra-env]"),
        ),
        None => {
            let may_be_near = match addresses {
                [] => settings.may_be_near(url),
                _ => settings.may_addresses_be_near(url, &trust.authority),
            };
            (may_be_near, url.host_str().unwrap_or_default().to_owned(), host_of(url))
        }
    };
    if may_be_near && addresses.is_empty() {
        return Ok(None);
    }
    let addresses = addresses.to_vec();
    let outside = Outside { shown, addresses, may_be_near, refused: Arc::default() };
    match unbracketed(&name).parse() {
        Ok(address) if outside.is_near(address) => Err(outside.refuse(address)),
        _ => Ok(Some(outside)),
    }
}

impl Outside {
    /// Why the last look-up gave no address, if that is why.
    pub fn refused(&self) -> Option<Error> {
        self.last().clone()
    }

    fn last(&self) -> MutexGuard<'_, Option<Error>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_near(&self, address: IpAddr) -> bool {
        !self.may_be_near && Vicinity::of(address).is_some()
    }

    fn refuse(&self, address: IpAddr) -> Error {
        let host = self.shown.clone();
        Error::Near { host, address }
    }
}

impl Resolve for Outside {
    fn resolve(&self, name: Name) -> Resolving {
        let this = self.clone();
        Box::pin(async move {
            *this.last() = None;
            // Without a port: the client puts in that of the URL.
            let found: Vec<_> = match this.addresses.as_slice() {
                [] => tokio::net::lookup_host((name.as_str(), 0)).await?.collect(),
                given => given.iter().map(|address| SocketAddr::new(*address, 0)).collect(),
            };
            let (near, far): (Vec<SocketAddr>, Vec<_>) =
                found.into_iter().partition(|found| this.is_near(found.ip()));
            let near = near.first().filter(|_| far.is_empty());
            let refused = near.map(|near| this.refuse(near.ip()));
            this.last().clone_from(&refused);
            match refused {
                Some(error) => Err(error.into()),
                None => Ok(Box::new(far.into_iter()) as Addrs),
            }
        })
    }
}
