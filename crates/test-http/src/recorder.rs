//! A server that keeps every byte and answers nothing.

use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::{Listener, lock};

/// The most bytes that are kept of one connection.
const MAX_BYTES: u64 = 1 << 20;

/// How long a client may be silent after its first byte before the recorder hangs up.
const PAUSE: Duration = Duration::from_millis(200);

/// A server that no client ought to reach: it keeps what it is sent, then hangs up.
#[derive(Debug)]
pub struct Recorder {
    listener: Listener,
    record: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Recorder {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub fn start() -> io::Result<Self> {
        let record: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let recording = record.clone();
        let listener = Listener::start(([127, 0, 0, 1], 0).into(), move |stream, ticket| {
            keep(&stream, ticket.number() - 1, &recording);
        })?;
        Ok(Self { listener, record })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The bytes of each connection so far.
    #[must_use]
    pub fn record(&self) -> Vec<Vec<u8>> {
        lock(&self.record).clone()
    }
}

/// Keeps what comes until the client is silent.
fn keep(stream: &TcpStream, place: usize, record: &Mutex<Vec<Vec<u8>>>) {
    let append = |bytes: &[u8]| {
        let mut all = lock(record);
        let length = all.len().max(place + 1);
        all.resize(length, Vec::new());
        all[place].extend_from_slice(bytes);
    };
    append(b"");
    let mut buffer = [0; 4096];
    let mut bytes = stream.take(MAX_BYTES);
    while let Ok(count @ 1..) = bytes.read(&mut buffer) {
        append(&buffer[..count]);
        let _ = stream.set_read_timeout(Some(PAUSE));
    }
}
