//! A program of CoCo's that answers over ttrpc on a Unix socket, to the byte as the recorded ones.

use std::fmt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use vm_harness::ttrpc::{Frame, REQUEST, RESPONSE, field, fields, put, put_number};

/// gRPC's codes for what goes wrong.
const INVALID_ARGUMENT: u64 = 3;
const UNIMPLEMENTED: u64 = 12;
pub(crate) const INTERNAL: u64 = 13;

/// A status with its text.
pub(crate) type Refused = (u64, String);

/// The payload of an answer, or why there is none; `None` where there is no such method.
pub(crate) type Answer = Option<Result<Vec<u8>, Refused>>;

/// A program that serves some services; stopped when dropped.
pub(crate) struct Peer {
    socket: PathBuf,
    stop: Arc<AtomicBool>,
}

impl Peer {
    /// Listens on `socket`; `answer` gets the name of a method and the payload.
    pub(crate) fn start(
        socket: &Path,
        services: &'static [&'static str],
        answer: impl Fn(&str, &[u8]) -> Answer + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = UnixListener::bind(socket)
            .with_context(|| format!("failed to listen on {}", socket.display()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, answer) = (stop.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let answer = answer.clone();
                // A client that leaves has had its answer, or wants none.
                std::thread::spawn(move || {
                    let _ = serve(stream, services, &*answer);
                });
            }
        });
        Ok(Self { socket: socket.to_owned(), stop })
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({})", self.socket.display())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // The listener looks up only when somebody comes.
        let _ = UnixStream::connect(&self.socket);
    }
}

/// Serves the requests of one connection.
fn serve(
    mut stream: UnixStream,
    services: &[&str],
    answer: &dyn Fn(&str, &[u8]) -> Answer,
) -> Result<()> {
    while let Some(frame) = Frame::read(&mut stream)? {
        if frame.kind != REQUEST {
            continue;
        }
        let request = fields(&frame.message)?;
        let text = |number| String::from_utf8_lossy(&field(&request, number)).into_owned();
        let (asked, method) = (text(1), text(2));
        let answer = if services.contains(&asked.as_str()) {
            let unknown = || Err((UNIMPLEMENTED, format!("{method} method")));
            answer(&method, &field(&request, 3)).unwrap_or_else(unknown)
        } else {
            Err((INVALID_ARGUMENT, format!("{asked} service does not exist")))
        };
        let (mut message, mut status) = (Vec::new(), Vec::new());
        if let Err((code, text)) = &answer {
            // `code` is the status's field 1, a number.
            status.push(8);
            put_number(&mut status, *code);
            put(&mut status, 2, text.as_bytes());
        }
        // There also where it is empty, while a payload is not.
        put(&mut message, 1, &status);
        if let Ok(payload) = answer.as_deref()
            && !payload.is_empty()
        {
            put(&mut message, 2, payload);
        }
        Frame { stream: frame.stream, kind: RESPONSE, message }.write(&mut stream)?;
    }
    Ok(())
}
