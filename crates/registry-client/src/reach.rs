//! Which addresses a socket may be opened to.
//!
//! The host writes the config and answers the guest's look-ups: by a mirror, a proxy or a name it
//! could have the guest speak to its own loopback, to its link or to the cloud's metadata. What is
//! judged is the address that is connected to, after every look-up, whatever led there; behind a
//! proxy that is the proxy's.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pull_route::address::Vicinity;
use pull_route::{Error, Settings, host_of};
use registry_config::ProxyUrl;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Url;

use crate::client::unbracketed;

/// Resolves names to addresses outside of every [`Vicinity`].
#[derive(Clone, Debug)]
pub struct Outside {
    /// Whose name it is, in words.
    shown: String,
    /// Why the last look-up gave no address. The client's own error has no cause for some proxies.
    refused: Arc<Mutex<Option<Error>>>,
}

/// How the client for a URL has to resolve names; nothing if it may connect to any address.
///
/// # Errors
///
/// [`Error::Near`] for an address itself, which no client resolves.
pub fn of(
    url: &Url,
    proxy: Option<&ProxyUrl>,
    settings: &Settings,
) -> Result<Option<Outside>, Error> {
    let (may_be_near, name, shown) = match proxy {
        Some(proxy) => (
            settings.may_proxies_be_near(),
            proxy.host().name(),
            format!("the proxy {proxy} of [extra-env]"),
        ),
        None => {
            (settings.may_be_near(url), url.host_str().unwrap_or_default().to_owned(), host_of(url))
        }
    };
    if may_be_near {
        return Ok(None);
    }
    let outside = Outside { shown, refused: Arc::default() };
    match unbracketed(&name).parse() {
        Ok(address) if Vicinity::of(address).is_some() => Err(outside.refuse(address)),
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
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let (near, far): (Vec<SocketAddr>, Vec<_>) =
                found.partition(|found| Vicinity::of(found.ip()).is_some());
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
