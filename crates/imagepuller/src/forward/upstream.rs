//! Another program's services, for one caller. Each caller has its own connection, so streams
//! keep their numbers and the other program notices when the caller leaves.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, sleep, timeout};
use ttrpc::Code;
use ttrpc::proto::{GenMessage, GenMessageError, MESSAGE_TYPE_REQUEST};

use super::frame;
use crate::service::call::patience;

/// How long the other program may take nothing of a frame: longer would also hold up pulls of the
/// same caller.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause before a program that cannot be reached is tried again.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// The most bytes of calls that wait for a program, besides one call; more stay with their caller,
/// and hold up its other calls.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Where the other program is, and what it was asked and did not answer yet.
pub struct Upstream {
    path: PathBuf,
    what: &'static str,
    restart: Duration,
    open: Mutex<HashSet<u32>>,
}

impl Upstream {
    /// Does not connect yet. `what` it is called in messages, and how long it may take to come
    /// back after it ended.
    pub fn new(path: PathBuf, what: &'static str, restart: Duration) -> Self {
        Self { path, what, restart, open: Mutex::default() }
    }

    /// Forwards calls, and connects whenever there is a call and no connection, until the caller is
    /// gone.
    pub async fn run(&self, mut calls: Receiver<GenMessage>, answers: &Sender<GenMessage>) {
        let mut missed_since = None;
        while let Some(call) = calls.recv().await {
            let mut waiting = Waiting::default();
            self.hold(call, &mut waiting);
            let connected = self.connect(&mut waiting, &mut calls, answers, &mut missed_since);
            let reason = match connected.await {
                Ok(stream) => {
                    missed_since = None;
                    let (from, to) = stream.into_split();
                    tokio::select! {
                        reason = send(waiting, &mut calls, to, self) => reason,
                        reason = self.receive(from, answers) => reason,
                    }
                }
                Err(error) => format!("cannot be reached: {error}"),
            };
            let message = self.message(&reason);
            let open =
                std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
            if !open.is_empty() {
                tracing::warn!(calls = open.len(), "{message}");
            }
            for stream_id in open {
                let answer = frame::status(stream_id, Code::UNAVAILABLE, &message);
                if answers.send(answer).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Waits for a program that is missing, but only once: later calls would wait one after the
    /// other. Calls that come meanwhile wait with the first, each as long as its caller does.
    async fn connect(
        &self,
        waiting: &mut Waiting,
        calls: &mut Receiver<GenMessage>,
        answers: &Sender<GenMessage>,
        missed_since: &mut Option<Instant>,
    ) -> io::Result<UnixStream> {
        loop {
            let error = match UnixStream::connect(&self.path).await {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            let since = missed_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= self.restart {
                return Err(error);
            }
            self.give_up(waiting, &error, answers).await;
            if waiting.0.is_empty() {
                return Err(error);
            }
            let pause = sleep(CONNECT_PAUSE);
            tokio::select! {
                () = pause => {}
                Some(call) = calls.recv(), if waiting.has_room() => self.hold(call, waiting),
            }
        }
    }

    /// Answers the calls whose callers wait no longer.
    async fn give_up(
        &self,
        waiting: &mut Waiting,
        error: &io::Error,
        answers: &Sender<GenMessage>,
    ) {
        for (stream_id, given) in waiting.take_late() {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&stream_id);
            let message = self.message(&format!(
                "cannot be reached within the caller's deadline of {} s: {error}",
                given.as_secs()
            ));
            tracing::warn!("{message}");
            let answer = frame::status(stream_id, Code::DEADLINE_EXCEEDED, &message);
            // Nobody takes answers any more where the relay ends, which ends this too.
            let _ = answers.send(answer).await;
        }
    }

    fn message(&self, reason: &str) -> String {
        let path = self.path.display();
        format!("the {} that imagepuller forwards to, at {path}, {reason}", self.what)
    }

    fn hold(&self, call: GenMessage, waiting: &mut Waiting) {
        self.note(&call);
        waiting.0.push_back(Held { time: frame::time(&call), since: Instant::now(), call });
    }

    fn note(&self, call: &GenMessage) {
        if call.header.type_ == MESSAGE_TYPE_REQUEST {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.insert(call.header.stream_id);
        }
    }

    /// Takes answers until there is an end; says which. An answer to what was not asked here is
    /// dropped: it could pass for an answer of this program's.
    async fn receive(
        &self,
        mut from: impl AsyncRead + Unpin,
        answers: &Sender<GenMessage>,
    ) -> String {
        loop {
            let (header, frame) = match GenMessage::read_from(&mut from).await {
                Ok(frame) => (frame.header, Ok(frame)),
                Err(GenMessageError::ReturnError(header, error)) => (header, Err(error)),
                Err(GenMessageError::InternalError(_)) => {
                    return "closed the connection".to_owned();
                }
            };
            let Some(is_last) = frame::is_last(&header) else {
                continue;
            };
            let was_open = {
                let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                if is_last || frame.is_err() {
                    open.remove(&header.stream_id)
                } else {
                    open.contains(&header.stream_id)
                }
            };
            if !was_open {
                continue;
            }
            let answer = frame.unwrap_or_else(|error| frame::answer(header.stream_id, error));
            if answers.send(answer).await.is_err() {
                return "is not waited for".to_owned();
            }
        }
    }
}

/// Calls for a program that is not there yet, in their order.
#[derive(Default)]
struct Waiting(VecDeque<Held>);

struct Held {
    call: GenMessage,
    /// What its caller gave it, if it said so.
    time: Option<Duration>,
    since: Instant,
}

impl Waiting {
    fn has_room(&self) -> bool {
        let bytes = self.0.iter().map(|held| held.call.payload.len());
        bytes.sum::<usize>() < MAX_WAITING_BYTES
    }

    /// Takes out the calls whose time is over, by stream and time.
    fn take_late(&mut self) -> Vec<(u32, Duration)> {
        let is_late = |held: &Held| {
            let time = held.time?;
            let is_late = held.since.elapsed() >= patience(time);
            is_late.then_some((held.call.header.stream_id, time))
        };
        let late: Vec<_> = self.0.iter().filter_map(is_late).collect();
        let is_of = |held: &Held| late.iter().any(|(id, _)| *id == held.call.header.stream_id);
        self.0.retain(|held| !is_of(held));
        late
    }

    /// The first one, with the time that it has left.
    fn next(&mut self) -> Option<GenMessage> {
        let held = self.0.pop_front()?;
        let waited = held.since.elapsed();
        Some(match held.time {
            Some(time) if waited >= CONNECT_PAUSE => {
                frame::with_time(held.call, time.saturating_sub(waited))
            }
            _ => held.call,
        })
    }
}

/// Sends the calls that waited and all that follow until there is an end; says which.
async fn send(
    mut waiting: Waiting,
    calls: &mut Receiver<GenMessage>,
    mut to: impl AsyncWrite + Unpin,
    upstream: &Upstream,
) -> String {
    loop {
        let call = match waiting.next() {
            Some(call) => call,
            None => match calls.recv().await {
                Some(call) => call,
                None => return "is not waited for".to_owned(),
            },
        };
        upstream.note(&call);
        match timeout(PATIENCE, call.write_to(&mut to)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return format!("closed the connection: {error}"),
            Err(_) => return format!("took nothing for {} s", PATIENCE.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::channel;
    use ttrpc::proto::{Codec as _, MessageHeader};
    use ttrpc::{Request, Response};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_program_that_stays_away_is_waited_for_once() {
        let restart = Duration::from_secs(20);
        let upstream = Upstream::new("/nonexistent/socket".into(), "service", restart);
        let (calls, called) = channel(4);
        let (answers, mut answered) = channel::<GenMessage>(4);
        for stream_id in [1, 3, 5] {
            let header = MessageHeader::new_request(stream_id, 0);
            let payload = Vec::new();
            calls.send(GenMessage { header, payload }).await.unwrap();
        }
        drop(calls);
        let start = Instant::now();
        upstream.run(called, &answers).await;
        assert!((restart..restart * 2).contains(&start.elapsed()));
        // All at once, and so in no order.
        let mut streams = Vec::new();
        for _ in 0..3 {
            streams.push(answered.recv().await.unwrap().header.stream_id);
        }
        streams.sort_unstable();
        assert_eq!(streams, [1, 3, 5]);
    }

    fn call(stream_id: u32, time: Duration) -> GenMessage {
        let request =
            Request { timeout_nano: time.as_nanos().try_into().unwrap(), ..Default::default() };
        let payload = request.encode().unwrap();
        let length = payload.len().try_into().unwrap();
        GenMessage { header: MessageHeader::new_request(stream_id, length), payload }
    }

    /// A service that is slow to begin once got no call of those that came before.
    #[tokio::test(start_paused = true)]
    async fn a_call_waits_as_long_as_its_caller_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let upstream = Upstream::new(path.clone(), "service", Duration::from_secs(100));
        let (calls, called) = channel(4);
        let (answers, mut answered) = channel::<GenMessage>(4);
        let callers = async {
            let start = Instant::now();
            calls.send(call(1, Duration::from_secs(60))).await.unwrap();
            calls.send(call(3, Duration::from_secs(10))).await.unwrap();
            // More than the queue takes: the caller's other calls are not held up.
            for stream_id in (5..41).step_by(2) {
                calls.send(call(stream_id, Duration::ZERO)).await.unwrap();
            }
            let early = answered.recv().await.unwrap();
            assert_eq!(early.header.stream_id, 3);
            let answer = Response::decode(&early.payload).unwrap();
            let status = answer.status();
            assert_eq!(status.code(), Code::DEADLINE_EXCEEDED);
            assert!(status.message.contains("deadline of 10 s"), "{status}");
            assert!((9..10).contains(&start.elapsed().as_secs()));

            sleep(Duration::from_secs(40)).await;
            let listener = tokio::net::UnixListener::bind(&path).unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            for stream_id in std::iter::once(1).chain((5..41).step_by(2)) {
                let call = GenMessage::read_from(&mut stream).await.unwrap();
                assert_eq!(call.header.stream_id, stream_id);
                let left = frame::time(&call).map(|time| time.as_secs());
                assert!(stream_id > 1 || left.is_some_and(|left| (9..12).contains(&left)));
            }
        };
        tokio::select! {
            () = upstream.run(called, &answers) => unreachable!("it waits for calls"),
            () = callers => {}
        }
    }
}
