//! Where an answer sends a request on, and whether it may.

use pull_route::{Settings, host_of};
use registry_config::MAX_HOST_BYTES;
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode};
use url::Url;

use crate::error::Error;

/// The target of a redirect, if the answer is one.
///
/// # Errors
///
/// For a target that is no plain HTTP address, or one that only this guest or its
/// cloud uses although `first`, the address asked in the beginning, is elsewhere and the owner
/// does not name it.
pub fn target(
    response: &Response,
    from: &Url,
    first: &Url,
    settings: &Settings,
) -> Result<Option<Url>, Error> {
    let redirects = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if !redirects.contains(&response.status()) {
        return Ok(None);
    }
    let refuse = |rule: &str| Err(Error::answer(&host_of(from), rule));
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    let next = location.and_then(|location| from.join(location).ok());
    let Some(mut next) =
        next.filter(|next| matches!(next.scheme(), "http" | "https") && next.host_str().is_some())
    else {
        return refuse("redirects to something that is no HTTP address");
    };
    if next.host_str().is_some_and(|host| host.len() > MAX_HOST_BYTES) {
        return refuse("redirects to a host with a name longer than any");
    }
    if !next.username().is_empty() || next.password().is_some() {
        return refuse("redirects to an address with a password in it");
    }
    if settings.leads_astray(first, &next) {
        let rule = format!(
            "redirects to {}, an address that only the guest or its cloud uses",
            host_of(&next)
        );
        return refuse(&rule);
    }
    next.set_fragment(None);
    Ok(Some(next))
}

/// Whether two URLs are of one server.
pub fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host() == other.host()
        && one.port_or_known_default() == other.port_or_known_default()
}
