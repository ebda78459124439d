//! A proxy that opens a way for everybody and keeps every byte that the client sends through it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

/// The largest head of a request.
const MAX_HEAD: usize = 64 << 10;

/// A running proxy on a free port of 127.0.0.1, to which every name means this machine; stopped
/// when dropped.
#[derive(Debug)]
pub struct Tunnel {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    kept: Arc<Mutex<Kept>>,
}

/// What came.
#[derive(Clone, Debug, Default)]
struct Kept {
    targets: Vec<String>,
    /// All that clients sent, the requests themselves too, one connection after another as it came.
    bytes: Vec<u8>,
}

impl Tunnel {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// Where there is no port.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("failed to listen")?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let kept: Arc<Mutex<Kept>> = Arc::default();
        let (stopped, keeping) = (stop.clone(), kept.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let keeping = keeping.clone();
                // A client that leaves, or asks for something else, wants no more.
                std::thread::spawn(move || {
                    let _ = serve(stream, &keeping);
                });
            }
        });
        Ok(Self {
            address,
            stop,
            kept,
        })
    }

    /// The port it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// The hosts and ports that it was asked for, in order.
    #[must_use]
    pub fn targets(&self) -> Vec<String> {
        lock(&self.kept).targets.clone()
    }

    /// All that clients sent through it and to it.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        lock(&self.kept).bytes.clone()
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // The listener looks up only when somebody comes.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut client: TcpStream, kept: &Arc<Mutex<Kept>>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if head.len() > MAX_HEAD || client.read(&mut byte)? == 0 {
            return Ok(());
        }
        head.push(byte[0]);
        lock(kept).bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split(' ');
    let (Some("CONNECT"), Some(target)) = (words.next(), words.next()) else {
        return client.write_all(b"HTTP/1.1 405 Only CONNECT\r\nContent-Length: 0\r\n\r\n");
    };
    lock(kept).targets.push(target.to_owned());
    let port: Option<u16> = target.rsplit(':').next().and_then(|port| port.parse().ok());
    let Some(port) = port else {
        return client.write_all(b"HTTP/1.1 400 No port\r\nContent-Length: 0\r\n\r\n");
    };
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    client.write_all(b"HTTP/1.1 200 Open\r\n\r\n")?;
    let (mut from, mut to) = (server.try_clone()?, client.try_clone()?);
    let back = std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        lock(kept).bytes.extend_from_slice(&buffer[..count]);
        server.write_all(&buffer[..count])?;
    }
    let _ = server.shutdown(Shutdown::Write);
    let _ = back.join();
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
