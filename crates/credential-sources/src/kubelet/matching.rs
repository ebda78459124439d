//! Which images a pattern of `matchImages`, or a key of an answer, stands for; as the kubelet of
//! today decides it.
//!
//! Both sides are read as URLs without their scheme, by the rules of Go 1.26 (kubelet 1.36); those
//! of earlier ones took brackets and colons anywhere in a host. Ports must be equal as texts, so
//! that a pattern without a port matches no image with one. Hosts are compared label by label, with
//! `*` and `?` as globs, and must have equally many. The image's path must begin with that of the
//! pattern, as text: `/team` matches `/teams` too.

#[cfg(test)]
mod tests;
mod url_host;

use std::fmt;

use registry_config::RegistryHost;

use crate::glob::glob_matches;

/// The longest pattern or key that is read; far more than a host and a path. Free to change.
pub const MAX_PATTERN_BYTES: usize = 4096;

/// Not a URL, once it has a scheme. The text is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a host with an optional port and path")]
pub struct InvalidPattern;

/// A pattern, or an image: a host with an optional port and path.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    labels: Vec<String>,
    port: String,
    path: Vec<u8>,
}

/// Shows the host. The `user:password@` of a pasted address is not kept.
impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({})", self.host())
    }
}

/// The host and the path. Not for one line: neither is escaped.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.host(), String::from_utf8_lossy(&self.path))
    }
}

impl Pattern {
    /// Reads a text without a scheme, such as `*.dkr.ecr.*.amazonaws.com` or
    /// `registry.corp:5000/team`.
    ///
    /// # Errors
    ///
    /// [`InvalidPattern`], where Go's URL parser refuses it.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        if text.len() > MAX_PATTERN_BYTES || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(InvalidPattern);
        }
        // The query and the fragment are not compared.
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        unescaped(fragment)?;
        let text = text.split('?').next().unwrap_or_default();
        let (authority, path) = match text.find('/') {
            Some(slash) => text.split_at(slash),
            None => (text, ""),
        };
        let host = url_host::of_authority(authority)?;
        let (host, port) = split_port(&host);
        Ok(Self {
            labels: host.split('.').map(Into::into).collect(),
            port: port.into(),
            path: unescaped(path)?,
        })
    }

    /// Whether `image` is one of those that this pattern stands for.
    #[must_use]
    pub fn matches(&self, image: &Self) -> bool {
        image.path.starts_with(&self.path) && self.matches_host_of(image)
    }

    /// Whether it would match, were it not for the path.
    #[must_use]
    pub fn matches_host_of(&self, image: &Self) -> bool {
        self.port == image.port
            && self.labels.len() == image.labels.len()
            && self.labels.iter().zip(&image.labels).all(|(glob, label)| glob_matches(glob, label))
    }

    /// Whether it says more than a host.
    #[must_use]
    pub fn has_path(&self) -> bool {
        !matches!(self.path.as_slice(), b"" | b"/")
    }

    /// The beginning of the repositories' names that it is for, as a document may have it: the
    /// kubelet compares texts, and a document whole segments.
    #[must_use]
    pub fn repositories(&self) -> Option<&str> {
        let path = std::str::from_utf8(&self.path).ok()?;
        let path = path.strip_prefix('/')?;
        Some(path.strip_suffix('/').unwrap_or(path))
    }

    /// The one registry that it stands for, if it has no glob in its host.
    #[must_use]
    pub fn registry(&self) -> Option<RegistryHost> {
        let is_glob = |label: &String| label.contains(['*', '?', '[', '\\']);
        if self.labels.iter().any(is_glob) {
            return None;
        }
        let host = self.labels.join(".");
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host,
        };
        let port = match self.port.as_str() {
            "" => String::new(),
            port => format!(":{port}"),
        };
        RegistryHost::parse(&format!("{host}{port}")).ok()
    }

    fn host(&self) -> String {
        let host = self.labels.join(".");
        if self.port.is_empty() { host } else { format!("{host}:{}", self.port) }
    }
}

/// Host and port as Go's `net.SplitHostPort` divides them; what that refuses is all host.
fn split_port(text: &str) -> (&str, &str) {
    let Some((host, port)) = text.rsplit_once(':') else {
        return (text, "");
    };
    match host.strip_prefix('[') {
        Some(inner) => match inner.strip_suffix(']') {
            Some(address) if !address.contains(['[', ']']) => (address, port),
            _ => (text, ""),
        },
        None if host.contains([':', '[', ']']) => (text, ""),
        None => (host, port),
    }
}

/// The path with its percent signs resolved.
fn unescaped(path: &str) -> Result<Vec<u8>, InvalidPattern> {
    let mut bytes = path.bytes();
    let mut result = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            result.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(bytes.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let (high, low) = digit().zip(digit()).ok_or(InvalidPattern)?;
        result.push(high << 4 | low);
    }
    Ok(result)
}
