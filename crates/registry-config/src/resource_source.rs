//! A place where the guest gets resources.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use crate::limits::MAX_RESOURCE_SOURCE_BYTES;

/// The longest path of a unix socket (`sun_path`, less its end).
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Who is asked for a resource, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceSource {
    /// The confidential data hub of the guest, over ttrpc on this socket: `cdh=unix:/PATH`.
    DataHub(PathBuf),
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
    #[error(
        "a source is \"cdh=unix:/PATH\", the CDH of the guest, which asks its key broker, or \
        \"file=/PATH\""
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
            Some(("file", path)) => parse_path(path).map(Self::Files),
            _ => Err(InvalidResourceSource::Kind),
        }
    }
}

/// As the document has it; none of it is secret.
impl fmt::Display for ResourceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataHub(path) => write!(f, "cdh=unix:{}", path.display()),
            Self::Files(path) => write!(f, "file={}", path.display()),
        }
    }
}

/// An absolute path.
fn parse_path(text: &str) -> Result<PathBuf, InvalidResourceSource> {
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
    // Shown as it stands, its first slashes would be taken for those of a URL.
    if path.starts_with("//") {
        return Err(InvalidResourceSource::Path);
    }
    parse_path(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_shown_as_it_is_written() {
        for (text, shown) in [
            ("cdh=unix:/run/cdh.sock", "cdh=unix:/run/cdh.sock"),
            ("cdh=unix:///run/cdh.sock", "cdh=unix:/run/cdh.sock"),
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
            ("cdh=unix:////run/cdh.sock", InvalidResourceSource::Path),
            ("file=", InvalidResourceSource::Path),
            ("file=keys.json", InvalidResourceSource::Path),
            ("file=/etc/\0", InvalidResourceSource::Path),
            (&long, InvalidResourceSource::TooLong),
            ("rest=http://127.0.0.1:8006", InvalidResourceSource::Kind),
            ("kbs=https://kbs.corp", InvalidResourceSource::Kind),
        ] {
            assert_eq!(ResourceSource::parse(text), Err(rule), "{text:?}");
        }
    }
}
