//! The transfer of one blob, taken up again where it was cut off.

use std::time::Duration;

use bytes::{Buf as _, Bytes};
use oci_image::digest::Digest;
use reqwest::{Response, StatusCode};
use tokio::time::{Instant, timeout};

use crate::body;
use crate::content_request::ContentRequest;
use crate::error::Error;
use crate::explain;
use crate::failure::Failure;
use crate::parts::{self, Leave, Parts};
use crate::range::{self, Contradiction, Part};
use crate::retry::{Attempts, seconds};
use crate::session::Session;
use crate::transport::Answer;
use pull_route::host_of;

/// How long the end of a transfer is waited for whose bytes are all there. Only servers that do not
/// announce a length keep anyone waiting, and only a broken one keeps the end to itself.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The bytes of a blob in their order, never more than the descriptor says, and none of them
/// believed.
///
/// Every attempt begins at the registry, so that signed addresses of storage that have expired are
/// made anew.
#[derive(Debug)]
pub struct Blob<'a> {
    session: &'a Session,
    name: String,
    size: u64,
    /// How many bytes were passed on.
    received: u64,
    open: Option<Open>,
    /// The rest, where it comes in several parts at once.
    parts: Option<Parts<'a>>,
    attempts: Attempts,
    /// Whether the rest can be asked for; some servers cannot count.
    by_range: bool,
    host: String,
    /// The time that the network took, without that of who reads.
    waited: Duration,
}

/// An answer whose body is being read.
#[derive(Debug)]
struct Open {
    response: Response,
    /// Bytes that were passed on already.
    skip: u64,
}

impl<'a> Blob<'a> {
    /// Asks for the blob until an answer begins.
    pub(crate) async fn open(
        session: &'a Session,
        digest: &Digest,
        size: u64,
        mut leave: Option<Leave>,
    ) -> Result<Self, Error> {
        let mut blob = Self {
            session,
            name: digest.to_string(),
            size,
            received: 0,
            open: None,
            parts: None,
            attempts: session.attempts(),
            by_range: true,
            host: session.source.host(),
            waited: Duration::ZERO,
        };
        while blob.open.is_none() && blob.parts.is_none() {
            if let Err(failure) = blob.begin(leave.take()).await {
                session.reconnect();
                blob.attempts.failed(failure).await?;
            }
        }
        Ok(blob)
    }

    /// Who sends it, after redirects.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The next bytes, or nothing at the end, when all have come. After an error there is nothing
    /// more to ask for.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        // Time in which nobody asked is not the registry's.
        self.attempts.progress();
        let limit = self.session.blob_time(self.received);
        loop {
            let started = Instant::now();
            let connected = self.connected().await;
            self.spend_without(started);
            if let Err(failure) = connected {
                self.failed(failure).await?;
                continue;
            }
            let started = Instant::now();
            let left = limit.saturating_sub(self.waited);
            if left.is_zero() {
                return Err(self.too_slow(limit));
            }
            let read = timeout(left, self.read()).await;
            self.waited += started.elapsed();
            if read.is_err() && self.parts.take().is_some() {
                // On a slow line all of them together are late, where one stream is not.
                tracing::info!(host = self.host, "too slow for parts, going on as one stream");
                self.waited = Duration::ZERO;
                continue;
            }
            match read {
                Ok(Ok(chunk)) => return Ok(chunk),
                Ok(Err(failure)) => self.failed(failure).await?,
                Err(_) => return Err(self.too_slow(limit)),
            }
        }
    }

    /// Waits for the time of the next attempt.
    async fn failed(&mut self, failure: Failure) -> Result<(), Error> {
        self.open = None;
        self.session.reconnect();
        if self.received > 0 && !self.session.has_fallback() {
            self.attempts.give_all_time();
        }
        let started = Instant::now();
        let failed = self.attempts.failed(failure).await;
        self.spend_without(started);
        failed.map_err(|error| self.session.lost(error))
    }

    /// Time in which there was no transfer. A source that is not there is not slow, so this counts
    /// only where another one is left to ask.
    fn spend_without(&mut self, started: Instant) {
        if self.session.has_fallback() {
            self.waited += started.elapsed();
        }
    }

    fn too_slow(&mut self, limit: Duration) -> Error {
        self.log_received();
        let (size, limit) = (self.size, seconds(limit));
        let reason = format!("is too slow: {size} bytes take longer than {limit}");
        let error = Error::late(&self.host, &reason);
        self.session.lost(self.attempts.give_up(error))
    }

    /// There is an answer to read, or nothing more to ask for.
    async fn connected(&mut self) -> Result<(), Failure> {
        if self.open.is_some() || self.parts.is_some() || self.received == self.size {
            return Ok(());
        }
        self.connect().await
    }

    async fn read(&mut self) -> Result<Option<Bytes>, Failure> {
        if let Some(piece) = self.piece().await? {
            return Ok(Some(piece));
        }
        let stall = self.session.patience().stall;
        while let Some(open) = &mut self.open {
            let is_complete = self.received == self.size;
            let wait = if is_complete { END_TIMEOUT } else { stall.min(self.attempts.left()) };
            let chunk = match timeout(wait, open.response.chunk()).await {
                Ok(Ok(chunk)) => chunk,
                // Every byte is there, and their hash will tell whether they are right.
                _ if is_complete => None,
                Ok(Err(error)) => return Err(explain::body(&error, &self.host)),
                Err(_) => return Err(body::stalled(&self.host, wait)),
            };
            let Some(mut chunk) = chunk else {
                self.open = None;
                return self.end().map(|()| None);
            };
            let skipped = open.skip.min(chunk.len() as u64);
            open.skip -= skipped;
            // Not beyond the chunk's own length, which is a `usize`.
            chunk.advance(usize::try_from(skipped).unwrap_or(chunk.len()));
            if chunk.is_empty() {
                self.attempts.alive();
                continue;
            }
            if chunk.len() as u64 > self.size - self.received {
                return Err(self.wrong_length("sends more bytes").into());
            }
            self.received += chunk.len() as u64;
            self.attempts.progress();
            return Ok(Some(chunk));
        }
        Ok(None)
    }

    /// The next bytes of the parts. Where they fail, the rest becomes one stream.
    async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        let Some(parts) = &mut self.parts else {
            return Ok(None);
        };
        match parts.next().await {
            Some(Ok(piece)) => {
                self.received += piece.len() as u64;
                self.attempts.progress();
                return Ok(Some(piece));
            }
            Some(Err(failure)) => {
                let (host, received) = (&self.host, self.received);
                tracing::info!(host, received, error = %failure.error, "no more parts at once");
                self.parts = None;
                self.connect().await?;
            }
            None => self.parts = None,
        }
        Ok(None)
    }

    /// The body has ended; whether it should have is another question.
    fn end(&self) -> Result<(), Failure> {
        if self.received == self.size {
            return Ok(());
        }
        self.log_received();
        let reason = format!("ended before all of its {} bytes came", self.size);
        Err(Failure::passing(Error::transfer(&self.host, &reason)))
    }

    /// Asks for the first time. Parts are tried once: whatever comes of that, nothing has begun
    /// unless it is of use, and the next time it is asked as ever.
    async fn begin(&mut self, leave: Option<Leave>) -> Result<(), Failure> {
        let first = parts::first(self.session, self.size);
        let (Some(first), Some(leave)) = (first, leave) else {
            return self.connect().await;
        };
        let part = Part { from: first.start, until: Some(first.end) };
        let answer = match self.ask(Some(part)).await {
            Ok(answer) => answer,
            Err(Failure { error, .. }) => {
                tracing::debug!(host = self.host, %error, "the first part is not to be had");
                return Ok(());
            }
        };
        if answer.response.status() == StatusCode::OK {
            return self.take(answer, 0);
        }
        self.parts = Parts::begin(self.session, &self.name, self.size, first, answer, leave);
        Ok(())
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        let from = if self.by_range { self.received } else { 0 };
        let answer = self.ask((from > 0).then_some(Part::from(from))).await?;
        self.take(answer, from)
    }

    async fn ask(&mut self, part: Option<Part>) -> Result<Answer, Failure> {
        let asked = self.session.ask(ContentRequest::blob(&self.name, part));
        let host = self.session.source.host();
        let answer = self.attempts.within_budget("answer", &host, asked).await?;
        self.host = host_of(&answer.url);
        Ok(answer)
    }

    /// Begins to read an answer to a request for the bytes from there on.
    fn take(&mut self, answer: Answer, from: u64) -> Result<(), Failure> {
        let response = answer.response;
        let (status, headers) = (response.status(), response.headers());
        let start = if status == StatusCode::RANGE_NOT_SATISFIABLE {
            Err(Contradiction::Range("has no bytes after those"))
        } else {
            range::start(status, headers, from, self.size)
        };
        match start {
            Ok(start) => {
                let skip = self.received - start;
                if from > 0 {
                    tracing::info!(
                        host = self.host,
                        received = from,
                        skip,
                        "transfer taken up again"
                    );
                }
                self.open = Some(Open { response, skip });
                Ok(())
            }
            Err(Contradiction::Length(length)) => {
                tracing::debug!(host = self.host, length, size = self.size, "another length");
                Err(self.wrong_length("announces another number of bytes").into())
            }
            Err(Contradiction::Range(said)) => {
                self.log_received();
                self.by_range = false;
                let rule = format!("answers a request for the rest of a blob wrongly: it {said}");
                Err(Failure::passing(Error::answer(&self.host, &rule)))
            }
        }
    }

    /// Errors do not say how much came: they leave the guest, and the host may have named a server
    /// that it cannot ask itself.
    fn log_received(&self) {
        let Self { host, received, size, .. } = self;
        tracing::debug!(host, received, size, "so much of a blob came");
    }

    fn wrong_length(&self, rule: &str) -> Error {
        let rule = format!("{rule} of a blob that has {} by the manifest", self.size);
        Error::answer(&self.host, &rule)
    }
}
