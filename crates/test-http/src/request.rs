//! One request, as it came.

use std::io::{self, Read};
use std::ops::Deref;

/// The most bytes of a request's head. A client that sends more is hung up on.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// The most bytes of a request's body. A client that announces more is hung up on.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;

/// One request. It derefs to its text, head and body as they came.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// The certificate that the client showed in TLS, DER; a server asks for one where its
    /// configuration does ([`Authority::server_config_asking`](crate::pki::Authority)).
    pub client: Option<Vec<u8>>,
    /// The status that it was answered with; 0 before that.
    pub status: u16,
    text: String,
}

/// What comes on a connection.
#[derive(Debug)]
pub enum Incoming {
    /// A request.
    Request(Request),
    /// The first byte of a TLS handshake where HTTP was expected.
    Handshake,
    /// The end of the connection, or something that is not HTTP.
    Nothing,
}

impl Request {
    /// A request without headers, for tests of what answers requests.
    #[must_use]
    pub fn new(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), ..Self::default() }
    }

    /// Reads the next request of a connection, byte by byte, so that what follows stays unread.
    ///
    /// # Errors
    ///
    /// The stream's own.
    pub fn read(stream: &mut impl Read) -> io::Result<Incoming> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if bytes.len() > MAX_HEAD_BYTES || stream.read(&mut byte)? == 0 {
                return Ok(Incoming::Nothing);
            }
            bytes.push(byte[0]);
            if bytes[0] == HANDSHAKE {
                return Ok(Incoming::Handshake);
            }
        }
        let Some(mut request) = Self::parse(String::from_utf8_lossy(&bytes).into_owned()) else {
            return Ok(Incoming::Nothing);
        };
        let length = request.header("content-length").unwrap_or("0").parse();
        let length = length.unwrap_or(usize::MAX);
        if length > MAX_BODY_BYTES {
            return Ok(Incoming::Nothing);
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        request.body = String::from_utf8_lossy(&body).into_owned();
        request.text.push_str(&request.body);
        Ok(Incoming::Request(request))
    }

    fn parse(head: String) -> Option<Self> {
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().into()));
        Some(Self { method, target, headers: headers.collect(), text: head, ..Self::default() })
    }

    /// What is recorded of a TLS handshake where HTTP was expected: the text `TLS`.
    pub(crate) fn handshake() -> Self {
        Self { text: "TLS".to_owned(), ..Self::default() }
    }

    /// The first header of this name (in lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Deref for Request {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}
