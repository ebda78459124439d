//! One caller of a hub's socket, between this program's services and another program's.

use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use ttrpc::Code;
use ttrpc::proto::{GenMessage, GenMessageError};

use super::frame::{self, Destination};
use super::upstream::Upstream;
use super::{Others, RESTART};

/// How many frames may wait for a slow receiver; with the largest frames 16 MiB. Then their sender
/// has to wait.
const QUEUE: usize = 4;

/// How long a caller may take for answers that were given before the services ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Who has this program's services, for one caller.
pub enum Services {
    /// This process, at the other end.
    Here(DuplexStream),
    /// The process that listens there.
    At(PathBuf),
}

/// Relays until the caller, or this process's services, hang up. Both see the other's end, and so
/// do the other programs.
pub async fn relay(caller: UnixStream, own: Services, others: Others) {
    // The hub behind a front is started with it, the one behind the service is somebody else's.
    let patience = match own {
        Services::Here(_) => Duration::ZERO,
        Services::At(_) => RESTART,
    };
    let (from_caller, to_caller) = caller.into_split();
    let (answers, answered) = channel(QUEUE);
    let mut sending = std::pin::pin!(send(answered, to_caller));
    {
        let (own_calls, own_called) = channel(QUEUE);
        let (calls, called) = channel(QUEUE);
        let behind = async {
            match &others {
                Others::At(path) => {
                    let upstream = Upstream::new(path.clone(), "service", patience);
                    upstream.run(called, &answers).await;
                }
                Others::Absent(_) => std::future::pending().await,
            }
        };
        let calls = match &others {
            Others::At(_) => Ok(calls),
            Others::Absent(reason) => Err(&**reason),
        };
        tokio::select! {
            () = distribute(from_caller, &own_calls, calls, &answers) => {}
            () = serve(own, own_called, &answers) => {}
            () = &mut sending => return,
            () = behind => {}
        }
    }
    // The services may have ended right after an answer. The other connections were closed at the
    // end of the block.
    drop(answers);
    let _ = tokio::time::timeout(LAST_ANSWERS, sending).await;
}

/// Hands the caller's frames on; `others` is the queue of a hub's other services, or why there is
/// none.
async fn distribute(
    mut caller: impl AsyncRead + Unpin,
    own: &Sender<GenMessage>,
    others: Result<Sender<GenMessage>, &str>,
    answers: &Sender<GenMessage>,
) {
    loop {
        let frame = match GenMessage::read_from(&mut caller).await {
            Ok(frame) => frame,
            Err(GenMessageError::ReturnError(header, error)) => {
                let answer = frame::answer(header.stream_id, error);
                if answers.send(answer).await.is_err() {
                    return;
                }
                continue;
            }
            Err(GenMessageError::InternalError(_)) => return,
        };
        let sent = match (frame::destination(&frame), &others) {
            (Destination::Own, _) | (Destination::Continued, Err(_)) => own.send(frame).await,
            (Destination::Other(_) | Destination::Continued, Ok(calls)) => calls.send(frame).await,
            (Destination::Other(name), Err(reason)) => {
                let message = format!("{name} is not available here: {reason}");
                let answer = frame::status(frame.header.stream_id, Code::UNIMPLEMENTED, &message);
                answers.send(answer).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Has this program's services answer, until they end.
async fn serve(own: Services, called: Receiver<GenMessage>, answers: &Sender<GenMessage>) {
    match own {
        Services::Here(services) => {
            let (from, to) = tokio::io::split(services);
            tokio::select! {
                () = send(called, to) => {}
                () = receive(from, answers) => {}
            }
        }
        Services::At(path) => {
            let upstream = Upstream::new(path, "image puller", RESTART);
            upstream.run(called, answers).await;
        }
    }
}

/// Writes frames: calls to the services, or the answers of all programs to the caller.
async fn send(mut frames: Receiver<GenMessage>, mut to: impl AsyncWrite + Unpin) {
    while let Some(frame) = frames.recv().await {
        if frame.write_to(&mut to).await.is_err() {
            return;
        }
    }
}

/// Takes what this process's services answer.
async fn receive(mut services: impl AsyncRead + Unpin, answers: &Sender<GenMessage>) {
    while let Ok(frame) = GenMessage::read_from(&mut services).await {
        if answers.send(frame).await.is_err() {
            return;
        }
    }
}
