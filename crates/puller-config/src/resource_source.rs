//! A place where the guest gets resources.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use thiserror::Error;
use url::{Host, Url};

use crate::RegistryHost;
use crate::limits::MAX_RESOURCE_SOURCE_BYTES;

/// The longest path of a unix socket (`sun_path`, less its end).
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Who is asked for a resource, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceSource {
    /// The confidential data hub of the guest, over ttrpc on this socket: `cdh=unix:/PATH`.
    DataHub(PathBuf),
    /// The REST gateway of the guest: `rest=http://127.0.0.1:8006`. The host is a loopback address,
    /// and there is no path.
    Gateway(Url),
    /// A key broker service itself: `kbs=https://HOST[:PORT]`, or `http` and a loopback address.
    /// There is no path.
    Broker(Url),
    /// A file of resources, as the guest components' `offline_fs_kbc` has it: `offline=/PATH`.
    Files(PathBuf),
}

/// Why a text is no source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidResourceSource {
    /// The text is longer than [`MAX_RESOURCE_SOURCE_BYTES`].
    #[error("a source has at most {MAX_RESOURCE_SOURCE_BYTES} bytes")]
    TooLong,
    /// No kind, or one that is not known.
    #[error(
        "a source is one of \"cdh=unix:/PATH\", \"rest=http://127.0.0.1:PORT\", \
        \"kbs=https://HOST\" and \"offline=/PATH\""
    )]
    Kind,
    /// A path that is none.
    #[error("a path begins with \"/\" and has no control characters")]
    Path,
    /// A data hub that is not on a socket.
    #[error(
        "a data hub is asked on a unix socket, \"cdh=unix:/PATH\", whose path has at most \
        {MAX_SOCKET_PATH_BYTES} bytes"
    )]
    Socket,
    /// A gateway elsewhere, which would see the secrets.
    #[error(
        "a gateway is asked at \"http://\" and a loopback address, such \
        as \"rest=http://127.0.0.1:8006\", without a path"
    )]
    Gateway,
    /// A broker without TLS, or at no address.
    #[error(
        "a key broker is asked at \"https://HOST\" or \"https://HOST:PORT\", without a \
        path; \"http://\" needs a loopback address"
    )]
    Broker,
}

impl ResourceSource {
    /// Reads a source.
    ///
    /// # Errors
    ///
    /// What a source would have to be; it quotes nothing of the text.
    pub fn parse(text: &str) -> Result<Self, InvalidResourceSource> {
        if text.len() > MAX_RESOURCE_SOURCE_BYTES {
            return Err(InvalidResourceSource::TooLong);
        }
        match text.split_once('=') {
            Some(("cdh", socket)) => parse_socket(socket).map(Self::DataHub),
            Some(("rest", url)) => parse_origin(url)
                .filter(|url| url.scheme() == "http" && is_loopback(url))
                .map(Self::Gateway)
                .ok_or(InvalidResourceSource::Gateway),
            Some(("kbs", url)) => parse_origin(url)
                .filter(|url| url.scheme() == "https" || is_loopback(url))
                .map(Self::Broker)
                .ok_or(InvalidResourceSource::Broker),
            Some(("offline", path)) => parse_path(path).map(Self::Files),
            _ => Err(InvalidResourceSource::Kind),
        }
    }

    /// Whether this is a key broker itself.
    pub(crate) fn is_broker(&self) -> bool {
        matches!(self, Self::Broker(_))
    }
}

/// As the document has it; none of it is secret.
impl fmt::Display for ResourceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
        match self {
            Self::DataHub(path) => write!(f, "cdh=unix:{}", path.display()),
            Self::Gateway(url) => write!(f, "rest={}", origin(url)),
            Self::Broker(url) => write!(f, "kbs={}", origin(url)),
            Self::Files(path) => write!(f, "offline={}", path.display()),
        }
    }
}

impl Serialize for ResourceSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An absolute path.
pub(crate) fn parse_path(text: &str) -> Result<PathBuf, InvalidResourceSource> {
    let is_path = text.starts_with('/') && !text.chars().any(char::is_control);
    if text.len() > MAX_RESOURCE_SOURCE_BYTES {
        Err(InvalidResourceSource::TooLong)
    } else if is_path {
        Ok(PathBuf::from(text))
    } else {
        Err(InvalidResourceSource::Path)
    }
}

fn parse_socket(text: &str) -> Result<PathBuf, InvalidResourceSource> {
    let path = text
        .strip_prefix("unix:")
        .filter(|path| path.len() <= MAX_SOCKET_PATH_BYTES)
        .ok_or(InvalidResourceSource::Socket)?;
    // `unix:///PATH` is the same to those who write URLs.
    let path = path.strip_prefix("//").unwrap_or(path);
    parse_path(path)
}

/// A URL of nothing but scheme, host and port.
fn parse_origin(text: &str) -> Option<Url> {
    let (scheme, authority) = text.split_once("://")?;
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    // Which leaves no user name, no path, nothing that a URL parser would mend, and no second
    // spelling of an address.
    RegistryHost::parse(authority).ok()?;
    let url = Url::parse(text).ok()?;
    (["http", "https"].contains(&scheme) && url.path() == "/").then_some(url)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_shown_as_it_is_written() {
        for (text, shown) in [
            ("cdh=unix:/run/cdh.sock", "cdh=unix:/run/cdh.sock"),
            ("cdh=unix:///run/cdh.sock", "cdh=unix:/run/cdh.sock"),
            ("rest=http://127.0.0.1:8006", "rest=http://127.0.0.1:8006"),
            ("rest=http://127.9.9.9:8006/", "rest=http://127.9.9.9:8006"),
            ("rest=http://[::1]:8006", "rest=http://[::1]:8006"),
            ("kbs=https://kbs.corp", "kbs=https://kbs.corp"),
            ("kbs=https://KBS.corp:8080/", "kbs=https://kbs.corp:8080"),
            ("kbs=https://192.0.2.1", "kbs=https://192.0.2.1"),
            ("kbs=http://127.0.0.1:8080", "kbs=http://127.0.0.1:8080"),
            ("offline=/etc/keys.json", "offline=/etc/keys.json"),
        ] {
            let source =
                ResourceSource::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(source.to_string(), shown, "{text}");
            assert_eq!(ResourceSource::parse(shown), Ok(source), "{text}");
        }
    }

    #[test]
    fn what_is_no_source_is_refused_by_the_rule_it_breaks() {
        let long = format!("offline=/{}", "a".repeat(MAX_RESOURCE_SOURCE_BYTES));
        let long_socket = format!("cdh=unix:/{}", "a".repeat(MAX_SOCKET_PATH_BYTES));
        for (text, rule) in [
            ("", InvalidResourceSource::Kind),
            ("/run/cdh.sock", InvalidResourceSource::Kind),
            ("CDH=unix:/run/cdh.sock", InvalidResourceSource::Kind),
            ("file=/etc/keys.json", InvalidResourceSource::Kind),
            ("cdh=/run/cdh.sock", InvalidResourceSource::Socket),
            ("cdh=vsock:/run/cdh.sock", InvalidResourceSource::Socket),
            (&long_socket, InvalidResourceSource::Socket),
            ("cdh=unix:run/cdh.sock", InvalidResourceSource::Path),
            ("cdh=unix:", InvalidResourceSource::Path),
            ("offline=", InvalidResourceSource::Path),
            ("offline=keys.json", InvalidResourceSource::Path),
            ("offline=/etc/\0", InvalidResourceSource::Path),
            (&long, InvalidResourceSource::TooLong),
            ("rest=127.0.0.1:8006", InvalidResourceSource::Gateway),
            (
                "rest=https://127.0.0.1:8006",
                InvalidResourceSource::Gateway,
            ),
            ("rest=http://localhost:8006", InvalidResourceSource::Gateway),
            ("rest=http://192.0.2.1:8006", InvalidResourceSource::Gateway),
            ("rest=http://127.1:8006", InvalidResourceSource::Gateway),
            (
                "rest=http://127.0.0.1:8006/cdh",
                InvalidResourceSource::Gateway,
            ),
            (
                "rest=http://127.0.0.1@evil.corp",
                InvalidResourceSource::Gateway,
            ),
            (
                "rest=http://127.0.0.1:8006?",
                InvalidResourceSource::Gateway,
            ),
            (
                "rest=http://[::ffff:127.0.0.1]",
                InvalidResourceSource::Gateway,
            ),
            ("kbs=http://kbs.corp", InvalidResourceSource::Broker),
            ("kbs=http://localhost:8080", InvalidResourceSource::Broker),
            ("kbs=https://kbs.corp/kbs/v0", InvalidResourceSource::Broker),
            ("kbs=https://robot@kbs.corp", InvalidResourceSource::Broker),
            ("kbs=https://kbs.corp#a", InvalidResourceSource::Broker),
            ("kbs=https://kbs corp", InvalidResourceSource::Broker),
            ("kbs=https://", InvalidResourceSource::Broker),
            ("kbs=https:kbs.corp", InvalidResourceSource::Broker),
            ("kbs=ftp://127.0.0.1", InvalidResourceSource::Broker),
            ("kbs=kbs.corp", InvalidResourceSource::Broker),
        ] {
            assert_eq!(ResourceSource::parse(text), Err(rule), "{text:?}");
        }
    }
}
