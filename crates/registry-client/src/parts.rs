//! Several parts of one large blob at once, for a line that is so long that one stream does not
//! fill it.
//!
//! A stream brings at most one receive window in each round trip. So a blob that is far away is
//! asked for in parts, each over a connection of its own (RFC 9110, section 14), and given in their
//! order. This only ever saves time: with the first thing that is odd the parts are dropped, and
//! the rest comes as one stream, with all that is known of asking again.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use pull_route::host_of;
use reqwest::{Response, Version};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use url::Url;

use crate::body;
use crate::content_request::ContentRequest;
use crate::error::Error;
use crate::explain;
use crate::failure::Failure;
use crate::range::{self, Part};
use crate::session::Session;
use crate::transport::Answer;

/// From which time of an answer on its server is far away: a receive window of 3 MiB, which Linux
/// has as it comes, is 100 MB/s then.
const FAR: Duration = Duration::from_millis(30);

/// What the first part has. The others are asked for when all of it was taken. It is more than the
/// puller takes before it unpacks the blob, so until then no more is kept.
const FIRST_BYTES: u64 = 512 << 10;

/// What each of the others has.
const PART_BYTES: u64 = 1 << 20;

/// How many parts are under way or wait for their turn.
const MAX_PARTS: usize = 8;

/// What is handed on at once: the thread that unpacks is not to wait for a whole part.
const PIECE_BYTES: usize = 256 << 10;

/// Leave to keep parts that come before their turn: about 12 MiB with the buffers of their
/// connections. Who has it may have one blob in parts.
pub type Leave = OwnedSemaphorePermit;

/// The parts of a blob that are under way.
pub(crate) struct Parts<'a> {
    session: &'a Session,
    name: String,
    size: u64,
    /// Where the registry sends who asks for the blob; nothing where it has the blob itself.
    elsewhere: Option<Url>,
    /// In their order, also those that have come.
    under_way: FuturesOrdered<BoxFuture<'a, Result<Bytes, Failure>>>,
    /// Has come and is handed on.
    current: Bytes,
    /// Whether a part was handed on.
    has_given: bool,
    /// The first byte that nobody was asked for.
    next: u64,
    _leave: Leave,
}

/// Whether a registry is far away, as far as its answers told.
pub(crate) fn is_far(session: &Session) -> bool {
    session.quickest().is_some_and(|time| time >= FAR)
}

/// What is asked for first of a blob that is far away.
pub(crate) fn first(session: &Session, size: u64) -> Option<Range<u64>> {
    (is_far(session) && size > FIRST_BYTES).then_some(0..FIRST_BYTES)
}

impl<'a> Parts<'a> {
    /// Begins with the answer to what is asked for [`first`]. Nothing if it is another one.
    ///
    /// HTTP/2 has one connection for all parts, and one window: it would win nothing.
    pub(crate) fn begin(
        session: &'a Session,
        name: &str,
        size: u64,
        first: Range<u64>,
        answer: Answer,
        leave: Leave,
    ) -> Option<Self> {
        let Answer { response, url } = answer;
        let is_it = range::is_exactly(response.status(), response.headers(), &first, size);
        if !is_it || response.version() > Version::HTTP_11 {
            return None;
        }
        let stall = session.patience().stall;
        let host = host_of(&url);
        let next = first.end;
        let mut under_way: FuturesOrdered<BoxFuture<'a, _>> = FuturesOrdered::new();
        under_way.push_back(Box::pin(body(response, host, first, stall)));
        Some(Self {
            session,
            name: name.to_owned(),
            size,
            elsewhere: Some(url).filter(|url| !session.source.is_own(url)),
            under_way,
            current: Bytes::new(),
            has_given: false,
            next,
            _leave: leave,
        })
    }

    /// The next bytes; nothing when all have come. After a failure there is nothing more to ask
    /// for here.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        if self.current.is_empty() {
            // Not before somebody has taken all of the first part.
            if self.has_given {
                self.ask();
            }
            self.has_given = true;
            match self.under_way.next().await? {
                Ok(part) => self.current = part,
                Err(failure) => return Some(Err(failure)),
            }
        }
        let piece = self.current.len().min(PIECE_BYTES);
        Some(Ok(self.current.split_to(piece)))
    }

    /// Asks for as many parts as may be under way.
    fn ask(&mut self) {
        while self.under_way.len() < MAX_PARTS && self.next < self.size {
            let range = self.next..self.size.min(self.next + PART_BYTES);
            self.next = range.end;
            let part =
                part(self.session, self.name.clone(), self.elsewhere.clone(), range, self.size);
            self.under_way.push_back(Box::pin(part));
        }
    }
}

impl fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("name", &self.name)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// Asks for one part, where the blob is.
async fn part(
    session: &Session,
    name: String,
    elsewhere: Option<Url>,
    range: Range<u64>,
    size: u64,
) -> Result<Bytes, Failure> {
    let part = Part { from: range.start, until: Some(range.end) };
    let Answer { response, url } = match elsewhere {
        Some(url) => session.ask_elsewhere(url, part).await?,
        None => session.ask(ContentRequest::blob(&name, Some(part))).await?,
    };
    let host = host_of(&url);
    if !range::is_exactly(response.status(), response.headers(), &range, size) {
        let rule = "answers a request for a part of a blob with something else";
        return Err(Failure::passing(Error::answer(&host, rule)));
    }
    body(response, host, range, session.patience().stall).await
}

/// Reads a part. It is copied, so that the connection's buffer can be used again.
async fn body(
    mut response: Response,
    host: String,
    range: Range<u64>,
    stall: Duration,
) -> Result<Bytes, Failure> {
    // At most `PART_BYTES`.
    let size = usize::try_from(range.end - range.start).unwrap_or_default();
    let mut bytes = BytesMut::with_capacity(size);
    loop {
        let chunk = timeout(stall, response.chunk()).await;
        let chunk = chunk.map_err(|_| body::stalled(&host, stall))?;
        let Some(chunk) = chunk.map_err(|error| explain::body(&error, &host))? else {
            break;
        };
        if chunk.len() > size - bytes.len() {
            break;
        }
        bytes.extend_from_slice(&chunk);
    }
    if bytes.len() < size {
        let reason = format!("ended before all {size} bytes of a part came");
        return Err(Failure::passing(Error::transfer(&host, &reason)));
    }
    Ok(bytes.freeze())
}
