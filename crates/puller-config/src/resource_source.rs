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
    /// A key broker service itself: `kbs=https://HOST[:PORT][/PATH]`, or `http` and the guest's own
    /// host. What the protocol asks for lies below the path.
    Broker(Url),
    /// A file of resources, as the guest components' `offline_fs_kbc` has it: `file=/PATH`.
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
    #[error("a source is one of \"cdh=unix:/PATH\", \"kbs=https://HOST\" and \"file=/PATH\"")]
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
    /// The gateway of the guest components, which only ever asked the data hub.
    #[error(
        "the REST gateway is no source any more, because it asks the data hub: name that itself, \
        \"cdh=unix:/run/confidential-containers/cdh.sock\""
    )]
    Gateway,
    /// A broker without TLS, or at no address.
    #[error(
        "a key broker is asked at \"https://HOST\" or \"https://HOST:PORT\", with a path where it \
        lives below one, without \"/kbs/v0\"; \"http://\" needs a loopback address or \"localhost\""
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
            Some(("rest", _)) => Err(InvalidResourceSource::Gateway),
            Some(("kbs", url)) => parse_url(url)
                .filter(|url| !url.path().ends_with("/kbs/v0"))
                .filter(|url| url.scheme() == "https" || Self::is_guest(url))
                .map(Self::Broker)
                .ok_or(InvalidResourceSource::Broker),
            Some(("file", path)) => parse_path(path).map(Self::Files),
            _ => Err(InvalidResourceSource::Kind),
        }
    }

    /// Whether a URL's host is the guest's own, so that what goes there needs no TLS: a loopback
    /// address, or `localhost`, which nobody may look up (RFC 6761, section 6.3).
    pub fn is_guest(url: &Url) -> bool {
        match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
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
            Self::Broker(url) => write!(f, "kbs={}", origin(url)),
            Self::Files(path) => write!(f, "file={}", path.display()),
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

pub(crate) fn parse_socket(text: &str) -> Result<PathBuf, InvalidResourceSource> {
    let path = text
        .strip_prefix("unix:")
        .filter(|path| path.len() <= MAX_SOCKET_PATH_BYTES)
        .ok_or(InvalidResourceSource::Socket)?;
    // `unix:///PATH` is the same to those who write URLs.
    let path = path.strip_prefix("//").unwrap_or(path);
    parse_path(path)
}

/// A URL of nothing but scheme, host, port and a path.
fn parse_url(text: &str) -> Option<Url> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let (scheme, rest) = text.split_once("://")?;
    let mut parts = rest.split('/');
    // Which leaves no user name, nothing that a URL parser would mend, and no second spelling of an
    // address or a path.
    RegistryHost::parse(parts.next()?).ok()?;
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let is_segment = |segment: &str| {
        !segment.is_empty() && !segment.starts_with('.') && segment.bytes().all(is_legal)
    };
    let is_known = ["http", "https"].contains(&scheme) && parts.all(is_segment);
    Url::parse(text).ok().filter(|_| is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_shown_as_it_is_written() {
        for (text, shown) in [
            ("cdh=unix:/run/cdh.sock", "cdh=unix:/run/cdh.sock"),
            ("cdh=unix:///run/cdh.sock", "cdh=unix:/run/cdh.sock"),
            ("kbs=http://127.9.9.9:8006/", "kbs=http://127.9.9.9:8006"),
            ("kbs=http://[::1]:8006", "kbs=http://[::1]:8006"),
            ("kbs=https://kbs.corp", "kbs=https://kbs.corp"),
            ("kbs=https://KBS.corp:8080/", "kbs=https://kbs.corp:8080"),
            ("kbs=https://192.0.2.1", "kbs=https://192.0.2.1"),
            ("kbs=http://127.0.0.1:8080", "kbs=http://127.0.0.1:8080"),
            ("kbs=http://localhost:8080", "kbs=http://localhost:8080"),
            ("kbs=https://corp/kbs", "kbs=https://corp/kbs"),
            ("kbs=https://corp:1/a~b/C.d/", "kbs=https://corp:1/a~b/C.d"),
            ("file=/etc/keys.json", "file=/etc/keys.json"),
        ] {
            let source =
                ResourceSource::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(source.to_string(), shown, "{text}");
            assert_eq!(ResourceSource::parse(shown), Ok(source), "{text}");
        }
    }

    #[test]
    fn what_is_no_source_is_refused_by_the_rule_it_breaks() {
        let long = format!("file=/{}", "a".repeat(MAX_RESOURCE_SOURCE_BYTES));
        let long_socket = format!("cdh=unix:/{}", "a".repeat(MAX_SOCKET_PATH_BYTES));
        for (text, rule) in [
            ("", InvalidResourceSource::Kind),
            ("/run/cdh.sock", InvalidResourceSource::Kind),
            ("CDH=unix:/run/cdh.sock", InvalidResourceSource::Kind),
            ("offline=/etc/keys.json", InvalidResourceSource::Kind),
            ("cdh=/run/cdh.sock", InvalidResourceSource::Socket),
            ("cdh=vsock:/run/cdh.sock", InvalidResourceSource::Socket),
            (&long_socket, InvalidResourceSource::Socket),
            ("cdh=unix:run/cdh.sock", InvalidResourceSource::Path),
            ("cdh=unix:", InvalidResourceSource::Path),
            ("file=", InvalidResourceSource::Path),
            ("file=keys.json", InvalidResourceSource::Path),
            ("file=/etc/\0", InvalidResourceSource::Path),
            (&long, InvalidResourceSource::TooLong),
            ("rest=http://127.0.0.1:8006", InvalidResourceSource::Gateway),
            ("kbs=http://127.1:8006", InvalidResourceSource::Broker),
            ("kbs=http://192.0.2.1:8006", InvalidResourceSource::Broker),
            ("kbs=http://localhost.corp:8006", InvalidResourceSource::Broker),
            ("kbs=http://127.0.0.1@evil.corp", InvalidResourceSource::Broker),
            ("kbs=http://127.0.0.1:8006?", InvalidResourceSource::Broker),
            ("kbs=http://[::ffff:127.0.0.1]", InvalidResourceSource::Broker),
            ("kbs=http://kbs.corp", InvalidResourceSource::Broker),
            ("kbs=http://a.localhost:8080", InvalidResourceSource::Broker),
            ("kbs=https://corp/a/kbs/v0/", InvalidResourceSource::Broker),
            ("kbs=https://kbs.corp//", InvalidResourceSource::Broker),
            ("kbs=https://kbs.corp/a//b", InvalidResourceSource::Broker),
            ("kbs=https://kbs.corp/a/../b", InvalidResourceSource::Broker),
            ("kbs=https://kbs.corp/a%2fb", InvalidResourceSource::Broker),
            ("kbs=https://kbs.corp/a?b", InvalidResourceSource::Broker),
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
