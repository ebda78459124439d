//! A server that gives nothing and keeps every byte.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};

/// The bytes kept of one connection.
const MAX_BYTES: u64 = 1 << 20;

/// Where nobody ought to come: it accepts, keeps what it is sent, and answers nothing but the end
/// of the connection.
#[derive(Debug)]
pub struct Recorder {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    record: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Recorder {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("failed to listen")?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let record: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let (stopped, kept) = (stop.clone(), record.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let mut all = lock(&kept);
                let place = all.len();
                all.push(Vec::new());
                drop(all);
                let kept = kept.clone();
                std::thread::spawn(move || keep(&stream, place, &kept));
            }
        });
        Ok(Self {
            address,
            stop,
            record,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What came on each connection so far.
    #[must_use]
    pub fn record(&self) -> Vec<Vec<u8>> {
        lock(&self.record).clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // The listener looks up only when somebody comes.
        let _ = TcpStream::connect(self.address);
    }
}

/// How long the first byte may take, and how long more bytes may.
const PATIENCE: [Duration; 2] = [Duration::from_secs(60), Duration::from_millis(200)];

/// Keeps what comes until the other side is silent for a moment.
fn keep(stream: &TcpStream, place: usize, kept: &Mutex<Vec<Vec<u8>>>) {
    let mut buffer = [0; 4096];
    let mut bytes = stream.take(MAX_BYTES);
    let _ = stream.set_read_timeout(Some(PATIENCE[0]));
    while let Ok(count @ 1..) = bytes.read(&mut buffer) {
        lock(kept)[place].extend_from_slice(&buffer[..count]);
        let _ = stream.set_read_timeout(Some(PATIENCE[1]));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
