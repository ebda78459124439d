//! What can be done to an answer.

use serde::Deserialize;

/// One thing done to an answer. Several may be done in order: they change what the one before left.
///
/// In texts, `{base}` stands for this registry's own address and `{path}` for the path and query
/// that were asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Action {
    /// Another answer: this status, these headers, this body, and nothing of the old one.
    Status {
        /// The code.
        code: u16,
        /// Headers beside `Content-Length`.
        #[serde(default)]
        headers: Vec<(String, String)>,
        /// The body.
        #[serde(default)]
        body: String,
    },
    /// Another status, the rest as it was.
    Code(u16),
    /// A header set to a value instead of what it had, or taken away.
    Header {
        /// The name.
        name: String,
        /// The value, or nothing.
        value: Option<String>,
    },
    /// A header added to those that are there, even one of the same name.
    AddHeader {
        /// The name.
        name: String,
        /// The value.
        value: String,
    },
    /// A redirect (307) to this address.
    Redirect(String),
    /// Other bytes.
    Body(Bytes),
    /// Another `Content-Length`, the body as it is.
    Length(Length),
    /// Chunked transfer coding, more or less right. HTTP/1.1 only.
    Chunked(Chunked),
    /// Another answer to a request for a range, or a range that nobody asked for.
    Range(RangeLie),
    /// The connection breaks.
    Cut {
        /// Where.
        at: Point,
        /// How.
        how: End,
    },
    /// The body in small pieces with pauses.
    Drip {
        /// The size of a piece.
        bytes: usize,
        /// The pause after each, in milliseconds.
        pause_ms: u64,
    },
    /// A pause before the answer, in milliseconds.
    Wait(u64),
    /// No answer before so many requests came that this rule looks at: they are under way at the
    /// same time. If they never do, 503 after a while. HTTP/1.1 only.
    Together(usize),
    /// So many headers more.
    ManyHeaders(usize),
    /// A header with a value of so many bytes.
    LongHeader(usize),
    /// So many interim answers (103) first, or an endless row of them. HTTP/1.1 only.
    Interim(Option<usize>),
    /// These bytes instead of HTTP, then the end of the connection.
    Raw(String),
    /// A manifest of Docker's first schema, which nobody can verify.
    Schema1,
    /// A fault that only HTTP/2 has.
    Http2(Http2Fault),
}

/// Where a connection breaks.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// After the request, before the first byte of the answer.
    Answer,
    /// In the middle of the headers.
    Head,
    /// After so many bytes of the body.
    Body(usize),
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// With a TCP reset.
    Reset,
    /// With the end of the TCP stream, and without TLS's own end.
    Close,
    /// Not at all: nothing more comes until the other side leaves.
    Stall,
}

/// Bytes of a body other than the right ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bytes {
    /// One bit in the middle is another one; the length is the same.
    Flipped,
    /// Only so many of the right ones, and a length that says so.
    Truncated(usize),
    /// The right ones and so many more, and a length that says so.
    Longer(usize),
    /// The right ones, then more without end, and no length.
    Endless,
    /// This text.
    Text(String),
}

/// A `Content-Length` that is not right.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Length {
    /// So many more, or fewer, than there are.
    Off(i64),
    /// This text.
    Text(String),
    /// Two headers that say different things.
    Twice,
    /// None: the body ends where the connection does.
    Missing,
}

/// Chunked transfer coding.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Chunked {
    /// As it should be.
    Plain,
    /// One byte in each chunk.
    Tiny,
    /// With an extension on every chunk.
    Extensions,
    /// With an extension of a mebibyte on the first chunk.
    LongExtension,
    /// With trailers, which repeat headers with other values.
    Trailers,
    /// With ten thousand trailers.
    ManyTrailers,
    /// With a size that needs more than 64 bits.
    HugeSize,
    /// With a size that is no number.
    BadSize,
    /// Without the last chunk.
    MissingEnd,
    /// With a `Content-Length` that says something else.
    AndLength,
}

/// Ways to answer a request for a range.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum RangeLie {
    /// Everything from the beginning, with status 200.
    Ignored,
    /// A range that begins elsewhere, and says so.
    OtherStart,
    /// A range of the right length that begins elsewhere, and does not say so.
    HiddenStart,
    /// The right range of a content with another length.
    WrongTotal,
    /// The right length, and other bytes.
    OtherBytes,
    /// The right range without `Content-Range`.
    Unnamed,
    /// Status 416.
    Refused,
    /// A range where none was asked for: the second half.
    Unasked,
    /// Several parts, in `multipart/byteranges`.
    Multipart,
}

/// Faults in HTTP/2's frames.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Http2Fault {
    /// `RST_STREAM` with a code after so many bytes of the body.
    Reset {
        /// The code (RFC 9113, section 7).
        code: u32,
        /// Bytes of the body before it.
        after: usize,
    },
    /// `GOAWAY` with a code after so many bytes of the body, then the end of the connection.
    GoAway {
        /// The code.
        code: u32,
        /// Bytes of the body before it.
        after: usize,
    },
    /// `PING` after `PING` instead of an answer.
    Pings,
    /// Empty `DATA` frames without end after the headers.
    EmptyData,
}

impl Action {
    /// Another answer with this status and nothing else.
    #[must_use]
    pub const fn status(code: u16) -> Self {
        Self::Status { code, headers: Vec::new(), body: String::new() }
    }

    /// Another answer with this status and one header.
    #[must_use]
    pub fn status_with(code: u16, name: &str, value: &str) -> Self {
        Self::Status {
            code,
            headers: vec![(name.to_owned(), value.to_owned())],
            body: String::new(),
        }
    }

    /// A header set.
    #[must_use]
    pub fn header(name: &str, value: &str) -> Self {
        Self::Header { name: name.to_owned(), value: Some(value.to_owned()) }
    }

    /// A header taken away.
    #[must_use]
    pub fn without(name: &str) -> Self {
        Self::Header { name: name.to_owned(), value: None }
    }

    /// A redirect.
    #[must_use]
    pub fn redirect(to: &str) -> Self {
        Self::Redirect(to.to_owned())
    }

    /// The connection breaks after so many bytes of the body.
    #[must_use]
    pub const fn cut(after: usize, how: End) -> Self {
        Self::Cut { at: Point::Body(after), how }
    }
}
