//! Who is in charge of a host, and what that allows there.

use std::net::IpAddr;

use registry_config::{ClientIdentity, MAX_HOST_BYTES, ProxyUrl, RegistryHost};
use url::Url;

use crate::error::Error;
use crate::quoted;
use crate::settings::{Authority, Settings};
use crate::source::{Source, host_of};

/// How one host is to be treated.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The entry in charge.
    pub authority: Authority,
    /// Whether the host is the source itself.
    pub is_own: bool,
    /// Whether its certificate goes unchecked.
    pub skip_verify: bool,
    /// Whether it may be asked over plain HTTP.
    pub plain_http: bool,
    /// The client certificate that it is shown: only where the entry is its own, and it is
    /// verified.
    pub client: Option<ClientIdentity>,
    /// Where it is, in the place of a look-up: only where the entry is its own. A proxy looks names
    /// up by itself.
    pub addresses: Vec<IpAddr>,
}

impl Trust {
    /// What holds for a URL that a source sends the puller to, or that is its own.
    pub fn of(url: &Url, source: &Source, settings: &Settings) -> Self {
        let is_own = source.is_own(url);
        let named = if is_own {
            None
        } else {
            RegistryHost::of_url(url).and_then(|host| settings.named(&host, &source.authority))
        };
        let is_named = named.is_some();
        let authority = named.unwrap_or_else(|| source.authority.clone());
        let registry = &authority.registry;
        let has_entry = is_own || is_named;
        let client = registry.client.clone();
        Self {
            client: client.filter(|_| has_entry && !registry.insecure_skip_verify),
            // What weakens the transport concerns the host that the entry names, and nobody it
            // sends the puller to.
            skip_verify: registry.insecure_skip_verify && has_entry,
            plain_http: registry.plain_http && has_entry,
            addresses: if has_entry { registry.addresses.clone() } else { Vec::new() },
            is_own,
            authority,
        }
    }

    /// Who is in charge of a proxy on the way there: its own entry, or the one that holds for the
    /// rest of the pull. Its certificate is always checked, because an entry's weakness is for the
    /// registry of that name.
    pub fn of_proxy(&self, proxy: &ProxyUrl, settings: &Settings) -> Authority {
        settings.proxy(proxy.host()).unwrap_or_else(|| self.authority.clone())
    }
}

/// Whether the source's credentials may go to a token server.
///
/// # Errors
///
/// [`Error::Realm`] unless it is reached over verified TLS, or is the source's own host, treated as
/// the source is, or the source itself was asked in clear and may be sent credentials that way.
/// Without leave for the latter there are no credentials: a source asked in clear is told none.
pub fn check_realm(
    realm: &Url,
    source: &Source,
    settings: &Settings,
    is_source_plain: bool,
) -> Result<(), Error> {
    let refuse = |rule| {
        let mut shown = realm.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        // Only an address without a host refuses this, and that has no user either.
        let _ = (shown.set_username(""), shown.set_password(None));
        Err(Error::Realm { host: source.host(), realm: quoted(shown.as_str()), rule })
    };
    let trust = Trust::of(realm, source, settings);
    match realm.scheme() {
        _ if !realm.username().is_empty() || realm.password().is_some() => {
            refuse("has a password in its address")
        }
        _ if realm.host_str().is_some_and(|host| host.len() > MAX_HOST_BYTES) => {
            refuse("has a name longer than any host's")
        }
        _ if settings.leads_astray(&source.base, realm) => {
            refuse("is at an address that only the guest or its cloud uses")
        }
        "https" if trust.skip_verify && !trust.is_own => {
            refuse("is not asked because its own entry leaves its certificate unchecked")
        }
        "https" => Ok(()),
        "http"
            if trust.plain_http
                || is_source_plain && (trust.is_own || source.authority.registry.plain_http) =>
        {
            Ok(())
        }
        "http" => refuse("is not asked over plain HTTP"),
        _ => refuse("is no HTTP address"),
    }
}

/// Refuses plain HTTP where nothing allows it.
pub fn check_plain(url: &Url, trust: &Trust) -> Result<(), Error> {
    if url.scheme() == "http" && !trust.plain_http {
        return Err(Error::PlainHttp {
            host: host_of(url),
            reason: Box::new(trust.authority.no_plain_http()),
        });
    }
    Ok(())
}
