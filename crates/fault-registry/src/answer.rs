//! An answer before it is written: what it says, and in which ways it is wrong.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::action::{Chunked, End, Http2Fault, Point};
use crate::content::{Blob, Content, What};
use crate::request::Request;

/// How large the pieces are in which a body is written.
const PIECE: usize = 16 << 10;

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// All headers but those that say how long the body is.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
    pub(super) framing: Framing,
    /// How many interim answers come first; `Some(None)` never stops.
    pub(super) interim: Option<Option<usize>>,
    pub(super) wait_ms: u64,
    pub(super) drip: Option<(usize, u64)>,
    pub(super) cut: Option<(Point, End)>,
    /// Bytes instead of all this.
    pub(super) raw: Option<String>,
    pub(super) http2: Option<Http2Fault>,
}

/// The bytes of a body.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) bytes: Arc<Vec<u8>>,
    /// Whether more come after them, without end.
    pub(super) is_endless: bool,
    /// Whether none is written, as for `HEAD`.
    pub(super) is_withheld: bool,
}

/// How the other side is to know where a body ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// With the right length.
    Right,
    /// With these values of `Content-Length`; without any, by the end of the connection.
    Declared(Vec<String>),
    /// By chunks.
    Chunked(Chunked),
}

impl Answer {
    /// A status and a body.
    pub(super) fn new(status: u16, bytes: Vec<u8>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Body { bytes: Arc::new(bytes), is_endless: false, is_withheld: false },
            framing: Framing::Right,
            interim: None,
            wait_ms: 0,
            drip: None,
            cut: None,
            raw: None,
            http2: None,
        }
    }

    /// A JSON document.
    pub(super) fn json(status: u16, document: &Value) -> Self {
        let mut answer = Self::new(status, document.to_string().into_bytes());
        let kind = ("Content-Type".to_owned(), "application/json".to_owned());
        answer.headers.push(kind);
        answer
    }

    /// An error as registries send it.
    pub(super) fn error(status: u16, code: &str) -> Self {
        Self::json(status, &json!({"errors": [{"code": code, "message": code}]}))
    }

    /// The right answer to a request, without its range; and what the request asks for.
    pub(super) fn of(content: &Content, request: &Request) -> (Self, What) {
        if request.path.trim_end_matches('/').ends_with("/v2") {
            return (Self::json(200, &json!({})), What::Ping);
        }
        if let Some(rest) = request.path.strip_prefix("/hops/") {
            return Self::hop(content, request, rest);
        }
        let Some((digest, blob)) = content.find(&request.path) else {
            return (Self::error(404, "NOT_FOUND"), What::Unknown);
        };
        (Self::content(digest, blob), blob.what.clone())
    }

    fn content(digest: &str, blob: &Blob) -> Self {
        let mut answer = Self::new(200, Vec::new());
        answer.body.bytes = blob.bytes.clone();
        answer.headers = vec![
            ("Content-Type".to_owned(), blob.media_type.clone()),
            ("Docker-Content-Digest".to_owned(), digest.to_owned()),
            ("Accept-Ranges".to_owned(), "bytes".to_owned()),
        ];
        answer
    }

    /// `/hops/3/PATH` redirects to `/hops/2/PATH` and so on; `/hops/0/PATH` is `/PATH`.
    fn hop(content: &Content, request: &Request, rest: &str) -> (Self, What) {
        let (count, path) = rest.split_once('/').unwrap_or((rest, ""));
        match count.parse::<usize>() {
            Ok(0) | Err(_) => {
                let request = Request::new(&request.method, &format!("/{path}"));
                Self::of(content, &request)
            }
            Ok(count) => {
                let mut answer = Self::new(307, Vec::new());
                let next = format!("/hops/{}/{path}", count - 1);
                answer.headers.push(("Location".to_owned(), next));
                (answer, What::Unknown)
            }
        }
    }

    /// Sets a header instead of all of its name, or takes them away.
    pub(super) fn set_header(&mut self, name: &str, value: Option<String>) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        if let Some(value) = value {
            self.headers.push((name.to_owned(), value));
        }
    }

    /// The values of `Content-Length`.
    pub(super) fn lengths(&self) -> Vec<String> {
        match &self.framing {
            Framing::Right => vec![self.body.bytes.len().to_string()],
            Framing::Declared(values) => values.clone(),
            Framing::Chunked(Chunked::AndLength) => vec!["7".to_owned()],
            Framing::Chunked(_) => Vec::new(),
        }
    }

    /// Where the body breaks off, in bytes.
    pub(super) fn body_limit(&self) -> usize {
        match (self.cut, self.http2) {
            (Some((Point::Body(after), _)), _) => after,
            (_, Some(Http2Fault::Reset { after, .. } | Http2Fault::GoAway { after, .. })) => after,
            _ => usize::MAX,
        }
    }

    /// The body in the pieces in which it is written, up to where it breaks off.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Vec<u8>> + use<> {
        let size = self.drip.map_or(PIECE, |(bytes, _)| bytes.clamp(1, PIECE));
        let size = match self.framing {
            Framing::Chunked(Chunked::Tiny) => 1,
            _ => size,
        };
        let (body, limit) = (self.body.clone(), self.body_limit());
        let mut position = 0;
        std::iter::from_fn(move || {
            let wanted = size.min(limit - position);
            let piece = body.piece(position, wanted);
            position += piece.len();
            (!piece.is_empty()).then_some(piece)
        })
    }
}

impl Body {
    fn piece(&self, position: usize, size: usize) -> Vec<u8> {
        if self.is_withheld {
            return Vec::new();
        }
        match self.bytes.get(position..) {
            Some(rest) if !rest.is_empty() => rest[..rest.len().min(size)].to_vec(),
            _ if self.is_endless => vec![b' '; size],
            _ => Vec::new(),
        }
    }
}
