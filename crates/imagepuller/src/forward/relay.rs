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

/// How many frames may wait for a slow receiver; with the largest frames 16 MiB. Then their sender
/// has to wait.
const QUEUE: usize = 4;

/// How long a caller may take for answers that were given before the services ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Relays until the caller, or this program's services, hang up. Both see the other's end, and so
/// does the other program.
pub async fn relay(caller: UnixStream, services: DuplexStream, upstream: Option<PathBuf>) {
    let (from_caller, to_caller) = caller.into_split();
    let (from_services, to_services) = tokio::io::split(services);
    let (answers, answered) = channel(QUEUE);
    let mut sending = std::pin::pin!(send(answered, to_caller));
    {
        let (calls, called) = channel(QUEUE);
        let others = match upstream {
            Some(path) => Others::At(calls, Upstream::new(path)),
            None => Others::Absent,
        };
        let ahead = async {
            match &others {
                Others::At(_, upstream) => upstream.run(called, &answers).await,
                Others::Absent => std::future::pending().await,
            }
        };
        tokio::select! {
            () = distribute(from_caller, to_services, &others, &answers) => {}
            () = receive(from_services, &answers) => {}
            () = &mut sending => return,
            () = ahead => {}
        }
    }
    // The services may have ended right after an answer. The other connections were closed at the
    // end of the block.
    drop(answers);
    let _ = tokio::time::timeout(LAST_ANSWERS, sending).await;
}

/// The services that are not this program's.
enum Others {
    /// Frames to another program.
    At(Sender<GenMessage>, Upstream),
    /// There is none.
    Absent,
}

/// Hands the caller's frames on.
async fn distribute(
    mut caller: impl AsyncRead + Unpin,
    mut services: impl AsyncWrite + Unpin,
    others: &Others,
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
        let is_taken = match (frame::destination(&frame), others) {
            (Destination::Own, _) | (Destination::Continued, Others::Absent) => {
                frame.write_to(&mut services).await.is_ok()
            }
            (Destination::Other(_) | Destination::Continued, Others::At(calls, _)) => {
                calls.send(frame).await.is_ok()
            }
            (Destination::Other(name), Others::Absent) => {
                let message =
                    format!("{name} is not available here: start imagepuller with --upstream");
                let answer = frame::status(frame.header.stream_id, Code::UNIMPLEMENTED, &message);
                answers.send(answer).await.is_ok()
            }
        };
        if !is_taken {
            return;
        }
    }
}

/// Writes the answers of both programs.
async fn send(mut answers: Receiver<GenMessage>, mut caller: impl AsyncWrite + Unpin) {
    while let Some(frame) = answers.recv().await {
        if frame.write_to(&mut caller).await.is_err() {
            return;
        }
    }
}

/// Takes what this program's services answer.
async fn receive(mut services: impl AsyncRead + Unpin, answers: &Sender<GenMessage>) {
    while let Ok(frame) = GenMessage::read_from(&mut services).await {
        if answers.send(frame).await.is_err() {
            return;
        }
    }
}
