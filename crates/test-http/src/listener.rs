//! A listener with one thread for each connection. All of them end with their owner.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::lock;

/// The most connections at a time; more are closed at once.
const MAX_CONNECTIONS: usize = 512;

/// A running listener. Dropping it shuts all its connections down.
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// Keeps the owner able to end a connection; the listener forgets the connection when this drops.
#[derive(Debug)]
pub struct Ticket {
    number: usize,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    is_stopped: AtomicBool,
    count: AtomicUsize,
    open: Mutex<BTreeMap<usize, TcpStream>>,
}

impl Listener {
    /// Listens on `address` (port 0: a free one) and calls `serve` in a thread for each connection.
    ///
    /// # Errors
    ///
    /// Where the address cannot be listened on.
    pub fn start(
        address: SocketAddr,
        serve: impl Fn(TcpStream, Ticket) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let shared = Arc::new(Shared {
            address: listener.local_addr()?,
            is_stopped: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            open: Mutex::default(),
        });
        let (accepted, serve) = (shared.clone(), Arc::new(serve));
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if accepted.is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Some(ticket) = accepted.clone().admit(&stream) else {
                    continue;
                };
                let serve = serve.clone();
                std::thread::spawn(move || serve(stream, ticket));
            }
        });
        Ok(Self { shared, accepting: Some(accepting) })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// How many connections there were.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.count.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn admit(self: Arc<Self>, stream: &TcpStream) -> Option<Ticket> {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let clone = stream.try_clone().ok()?;
        let mut open = lock(&self.open);
        if open.len() >= MAX_CONNECTIONS {
            return None;
        }
        open.insert(number, clone);
        drop(open);
        Some(Ticket { number, shared: self })
    }
}

impl Ticket {
    /// The connection's number, from 1.
    #[must_use]
    pub const fn number(&self) -> usize {
        self.number
    }

    /// Whether the listener's owner has dropped it.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.is_stopped.load(Ordering::SeqCst)
    }

    /// Forgets the connection early, so that the last descriptor of it is the serving thread's.
    pub fn release(&self) {
        lock(&self.shared.open).remove(&self.number);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.release();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // The thread looks up only when a client comes.
        if TcpStream::connect(self.shared.address).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            let _ = accepting.join();
        }
        for stream in lock(&self.shared.open).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
