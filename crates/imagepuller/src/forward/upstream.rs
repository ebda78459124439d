//! Another program's services, for one caller. Each caller has its own connection, so streams
//! keep their numbers and the other program notices when the caller leaves.

use std::collections::HashSet;
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

/// How long the other program may take nothing of a frame: longer would also hold up pulls of the
/// same caller.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause before a program that cannot be reached is tried again.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

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
        Self {
            path,
            what,
            restart,
            open: Mutex::default(),
        }
    }

    /// Forwards calls, and connects whenever there is a call and no connection, until the caller is
    /// gone.
    pub async fn run(&self, mut calls: Receiver<GenMessage>, answers: &Sender<GenMessage>) {
        let mut missed_since = None;
        while let Some(call) = calls.recv().await {
            self.note(&call);
            let reason = match self.connect(&mut missed_since).await {
                Ok(stream) => {
                    missed_since = None;
                    let (from, to) = stream.into_split();
                    tokio::select! {
                        reason = send(call, &mut calls, to, self) => reason,
                        reason = self.receive(from, answers) => reason,
                    }
                }
                Err(error) => format!("cannot be reached: {error}"),
            };
            let message = format!(
                "the {} that imagepuller forwards to, at {}, {reason}",
                self.what,
                self.path.display()
            );
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
    /// other.
    async fn connect(&self, missed_since: &mut Option<Instant>) -> io::Result<UnixStream> {
        loop {
            match UnixStream::connect(&self.path).await {
                Err(_)
                    if missed_since.get_or_insert_with(Instant::now).elapsed() < self.restart =>
                {
                    sleep(CONNECT_PAUSE).await;
                }
                result => return result,
            }
        }
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

/// Sends a call and all that follow until there is an end; says which.
async fn send(
    first: GenMessage,
    calls: &mut Receiver<GenMessage>,
    mut to: impl AsyncWrite + Unpin,
    upstream: &Upstream,
) -> String {
    let mut next = Some(first);
    while let Some(call) = next {
        upstream.note(&call);
        match timeout(PATIENCE, call.write_to(&mut to)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return format!("closed the connection: {error}"),
            Err(_) => return format!("took nothing for {} s", PATIENCE.as_secs()),
        }
        next = calls.recv().await;
    }
    "is not waited for".to_owned()
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::channel;
    use ttrpc::proto::MessageHeader;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_program_that_stays_away_is_waited_for_once() {
        let restart = Duration::from_secs(20);
        let upstream = Upstream::new("/nonexistent/socket".into(), "service", restart);
        let (calls, called) = channel(4);
        let (answers, mut answered) = channel(4);
        for stream_id in [1, 3, 5] {
            let header = MessageHeader::new_request(stream_id, 0);
            let payload = Vec::new();
            calls.send(GenMessage { header, payload }).await.unwrap();
        }
        drop(calls);
        let start = Instant::now();
        upstream.run(called, &answers).await;
        assert!((restart..restart * 2).contains(&start.elapsed()));
        for stream_id in [1, 3, 5] {
            assert_eq!(answered.recv().await.unwrap().header.stream_id, stream_id);
        }
    }
}
