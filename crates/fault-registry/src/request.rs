//! What the registry was asked.

use crate::content::What;

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
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Path and query as asked for.
    #[must_use]
    pub fn target(&self) -> String {
        if self.query.is_empty() {
            return self.path.clone();
        }
        format!("{}?{}", self.path, self.query)
    }

    /// What came in HTTP/1.1.
    pub(super) fn of(read: test_http::Request) -> Self {
        let mut request = Self::new(&read.method, &read.target);
        request.headers = read.headers;
        request.body = read.body;
        request
    }
}
