//! A confidential data hub as far as it gives resources: `api.GetResourceService` over ttrpc on a
//! Unix socket.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::Vault;
use crate::frame::{Frame, METHOD, REQUEST, RESPONSE, SERVICE, field, fields, put, put_number};

/// gRPC's codes for what goes wrong here.
const UNIMPLEMENTED: u64 = 12;
const INTERNAL: u64 = 13;

/// A running data hub; stopped when dropped.
#[derive(Debug)]
pub struct DataHub {
    socket: PathBuf,
    stop: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl DataHub {
    /// Starts a data hub that listens on `socket`.
    ///
    /// # Errors
    ///
    /// Where the socket cannot be made.
    pub fn start(socket: &Path, vault: Vault) -> Result<Self> {
        let listener = UnixListener::bind(socket)
            .with_context(|| format!("failed to listen on {}", socket.display()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stopped, record) = (stop.clone(), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (vault, record) = (vault.clone(), record.clone());
                // A client that leaves has had its answer, or wants none.
                std::thread::spawn(move || {
                    let _ = serve(stream, &vault, &record);
                });
            }
        });
        Ok(Self {
            socket: socket.to_owned(),
            stop,
            asked,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The URIs that it was asked for, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for DataHub {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // The listener looks up only when somebody comes.
        let _ = UnixStream::connect(&self.socket);
    }
}

/// Serves the requests of one connection.
fn serve(mut stream: UnixStream, vault: &Vault, record: &Mutex<Vec<String>>) -> Result<()> {
    while let Some(frame) = Frame::read(&mut stream)? {
        if frame.kind != REQUEST {
            continue;
        }
        let mut message = Vec::new();
        match answer(&frame.message, vault, record)? {
            Ok(secret) => {
                let mut payload = Vec::new();
                put(&mut payload, 1, &secret);
                put(&mut message, 2, &payload);
            }
            Err((code, text)) => {
                // `code` is the status's field 1, a number.
                let mut status = vec![8];
                put_number(&mut status, code);
                put(&mut status, 2, text.as_bytes());
                put(&mut message, 1, &status);
            }
        }
        Frame {
            stream: frame.stream,
            kind: RESPONSE,
            message,
        }
        .write(&mut stream)?;
    }
    Ok(())
}

fn answer(
    message: &[u8],
    vault: &Vault,
    record: &Mutex<Vec<String>>,
) -> Result<Result<Vec<u8>, (u64, String)>> {
    let request = fields(message)?;
    let text = |number| String::from_utf8_lossy(&field(&request, number)).into_owned();
    if (text(1), text(2)) != (SERVICE.to_owned(), METHOD.to_owned()) {
        let name = format!("{}/{} is not supported", text(1), text(2));
        return Ok(Err((UNIMPLEMENTED, name)));
    }
    let payload = fields(&field(&request, 3))?;
    let uri = String::from_utf8_lossy(&field(&payload, 1)).into_owned();
    let secret = vault.get_uri(&uri).map(<[u8]>::to_vec);
    let mut all = record.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(uri);
    Ok(secret.ok_or((INTERNAL, "[CDH] [ERROR]: get resource failed".to_owned())))
}
