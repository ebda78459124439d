//! What a server answers.

/// At the end of an answer's text: the connection stays open, and nothing more comes.
pub const SILENCE: &str = "\0silence";

/// An answer: the bytes as they are sent, and what follows them.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Head and body. They need not be HTTP.
    pub bytes: Vec<u8>,
    /// What follows.
    pub end: End,
}

/// What follows the last byte of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The connection is closed.
    Close,
    /// Nothing more comes until the client leaves.
    Silence,
    /// As many bytes as the connection takes, until the client leaves.
    Flood,
}

impl Answer {
    /// An answer of any bytes.
    #[must_use]
    pub fn new(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let lines = headers.iter();
        let lines: String = lines.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut bytes = start(&format!("{status} Answer"), &lines, body.len()).into_bytes();
        bytes.extend_from_slice(body);
        Self { bytes, end: End::Close }
    }

    /// The status in the first line; 0 where there is none.
    #[must_use]
    pub fn status(&self) -> u16 {
        let digits = self.bytes.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3));
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        match text.strip_suffix(SILENCE) {
            Some(text) => Self { bytes: text.into(), end: End::Silence },
            None => Self { bytes: text.into_bytes(), end: End::Close },
        }
    }
}

impl From<(String, End)> for Answer {
    fn from((text, end): (String, End)) -> Self {
        Self { bytes: text.into_bytes(), end }
    }
}

/// A whole answer. `status` is code and words; `headers` are lines that end in CR and LF.
#[must_use]
pub fn reply(status: &str, headers: &str, body: &str) -> String {
    start(status, headers, body.len()) + body
}

/// A whole answer without a body.
#[must_use]
pub fn head(status: &str, headers: &str) -> String {
    reply(status, headers, "")
}

/// The answer `200 OK` with a body.
#[must_use]
pub fn ok(body: &str) -> String {
    reply("200 OK", "", body)
}

fn start(status: &str, headers: &str, length: usize) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n")
}
