//! HTTP/1.1 as far as these servers need it: one request on each connection, its answer, and what
//! was asked.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How long a client may be silent in the middle of a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// The largest head, and the largest body.
const MAX_BYTES: usize = 1 << 20;

/// One request, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// The status that it was answered with.
    pub status: u16,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A running server; stopped when dropped.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// What answers.
pub(super) type Handler = dyn Fn(&Asked) -> Answer + Send + Sync;

impl Asked {
    /// The first header of this name (in lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

impl Answer {
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".to_owned(), content_type.to_owned())],
            body: body.into(),
        }
    }
}

impl Server {
    /// Starts a server on an address of this machine.
    pub fn start(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        handler: Arc<Handler>,
    ) -> Result<Self> {
        let listener = TcpListener::bind(address).context("failed to listen")?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(Mutex::default());
        let (stopped, record) = (stop.clone(), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (tls, handler, record) = (tls.clone(), handler.clone(), record.clone());
                // A client that leaves has had its answer, or wants none.
                std::thread::spawn(move || {
                    let _ = connection(stream, tls, &*handler, &record);
                });
            }
        });
        Ok(Self {
            address,
            stop,
            asked,
        })
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn asked(&self) -> Vec<Asked> {
        let asked = self.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // The listener looks up only when somebody comes.
        let _ = TcpStream::connect(self.address);
    }
}

fn connection(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    handler: &Handler,
    record: &Mutex<Vec<Asked>>,
) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    match tls {
        None => exchange(&mut &stream, handler, record)?,
        Some(config) => {
            let mut stream = StreamOwned::new(ServerConnection::new(config)?, stream);
            exchange(&mut stream, handler, record)?;
            stream.conn.send_close_notify();
            stream.flush()?;
        }
    }
    Ok(())
}

fn exchange(
    stream: &mut (impl Read + Write),
    handler: &Handler,
    record: &Mutex<Vec<Asked>>,
) -> io::Result<()> {
    let Some(mut asked) = read(stream)? else {
        return Ok(());
    };
    let answer = handler(&asked);
    asked.status = answer.status;
    // Remembered before it is answered: who has the answer finds the request here.
    let mut all = record.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(asked);
    drop(all);
    let mut head = format!("HTTP/1.1 {} Answer\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = answer.body.len();
    head.push_str(&format!(
        "Content-Length: {length}\r\nConnection: close\r\n\r\n"
    ));
    stream.write_all(head.as_bytes())?;
    stream.write_all(&answer.body)?;
    stream.flush()
}

/// Reads one request; nothing where there is none.
fn read(stream: &mut impl Read) -> io::Result<Option<Asked>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if head.len() > MAX_BYTES || stream.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Ok(None);
    };
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut asked = Asked {
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
        body: String::new(),
        status: 0,
    };
    let length = asked.header("content-length").unwrap_or("0");
    let length: usize = length.parse().unwrap_or(usize::MAX);
    if length > MAX_BYTES {
        return Ok(None);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    asked.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(asked))
}
