//! What the registry was asked.

use std::io::{self, Read};

use super::content::What;
use super::wire::Wire;

/// The most bytes of a request's head; a client that sends more is hung up on.
const MAX_HEAD: usize = 64 << 10;

/// The most bytes of a request's body.
const MAX_BODY: usize = 1 << 20;

/// One request, as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The path, before the query.
    pub path: String,
    /// The query, without its question mark.
    pub query: String,
    /// The headers in order, names in lower case; for HTTP/2 with `:authority` as `host`.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// What it asks for.
    pub what: What,
    /// Which connection it came on, from 1.
    pub connection: usize,
    /// Whether it came as HTTP/2.
    pub is_http2: bool,
    /// Whether it was answered with a challenge, for want of the right credentials.
    pub is_challenged: bool,
}

impl Request {
    /// A request for a method and a target.
    pub(super) fn new(method: &str, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: Vec::new(),
            body: String::new(),
            what: What::Unknown,
            connection: 0,
            is_http2: false,
            is_challenged: false,
        }
    }

    /// The first header of this name (in lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Path and query as asked for.
    #[must_use]
    pub fn target(&self) -> String {
        if self.query.is_empty() {
            return self.path.clone();
        }
        format!("{}?{}", self.path, self.query)
    }

    /// Reads the next request of a connection; nothing where the other side has left or speaks no
    /// HTTP.
    pub(super) fn read(wire: &mut Wire) -> io::Result<Option<Self>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if wire.read(&mut byte)? == 0 || head.len() > MAX_HEAD {
                return Ok(None);
            }
            head.push(byte[0]);
            // A TLS handshake where none is expected.
            if head[0] == 0x16 {
                return Ok(None);
            }
        }
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Ok(None);
        };
        let mut request = Self::new(method, target);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let header = (name.to_ascii_lowercase(), value.trim().to_owned());
            request.headers.push(header);
        }
        let length = request.header("content-length").map_or("0", str::trim);
        let length = length.parse().unwrap_or(0).min(MAX_BODY);
        let mut body = vec![0; length];
        wire.read_exact(&mut body)?;
        request.body = String::from_utf8_lossy(&body).into_owned();
        Ok(Some(request))
    }
}
