//! The two questions that the kubelet asks, over a very small part of HTTP/1.1.
//!
//! `/healthz` is 200 as long as the installer works at all; 503 asks for a restart. `/readyz` is
//! 200 while the node is as it should be, else 503. The answers are for everyone who reaches the
//! address, so that they never say what is wrong: the log does.
//!
//! A client may send [`MAX_REQUEST_BYTES`] and take [`MAX_DURATION`]. [`MAX_CLIENTS`] are served
//! at once. One more takes the place of the oldest, so silent connections keep no other client
//! out.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::Error;
use crate::watch::RESCAN;

/// The longest request; the kubelet's has some 150 bytes. Free to change.
pub const MAX_REQUEST_BYTES: usize = 2048;

/// How long a client may take for everything. The kubelet's own default is a second.
pub const MAX_DURATION: Duration = Duration::from_secs(2);

/// How many clients are served at once.
pub const MAX_CLIENTS: usize = 32;

/// Without a pass for so long, the installer is stuck: it makes one at least every [`RESCAN`].
const MAX_SILENCE: Duration = RESCAN.saturating_mul(3);

/// What is known of the installer, shared between it and the endpoint.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// When the last pass ended; before the first one, when the installer started.
    last_pass: Instant,
    ready: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            last_pass: Instant::now(),
            ready: false,
        }
    }
}

impl State {
    fn is_stuck(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last_pass) > MAX_SILENCE
    }
}

impl Health {
    /// Notes that a pass ended, and whether the node is as it should be.
    pub fn note(&self, ready: bool) {
        // The state is two plain values: a panic elsewhere leaves it usable.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State {
            last_pass: Instant::now(),
            ready,
        };
    }

    /// The status and the text for `path`.
    fn answer(&self, path: &str) -> (&'static str, &'static str) {
        const OK: &str = "200 OK";
        const UNAVAILABLE: &str = "503 Service Unavailable";
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stuck = state.is_stuck(Instant::now());
        match path {
            "/healthz" if stuck => (UNAVAILABLE, "no pass for too long\n"),
            "/healthz" => (OK, "ok\n"),
            "/readyz" if state.ready && !stuck => (OK, "ok\n"),
            "/readyz" => (UNAVAILABLE, "not as it should be, see the log\n"),
            _ => ("404 Not Found", "only /healthz and /readyz are here\n"),
        }
    }
}

/// The endpoint, which ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers on `address`; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// [`Error::Health`].
    pub fn start(address: SocketAddr, health: &Health) -> Result<Self, Error> {
        let start = || -> io::Result<Self> {
            let listener = TcpListener::bind(address)?;
            // A client can be gone again before it is accepted.
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
            let (stopped, health) = (stop.clone(), health.clone());
            let work = move || serve(&listener, &stopped, &health);
            let thread = thread::Builder::new().name("health".into()).spawn(work)?;
            Ok(Self {
                address,
                stop,
                thread: Some(thread),
            })
        };
        start().map_err(|source| Error::Health { address, source })
    }

    /// The address that is listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panicked thread has nothing left to end.
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, stop: &OwnedFd, health: &Health) {
    // The oldest first, which is also the first to run out of time.
    let mut clients: VecDeque<Client> = VecDeque::new();
    loop {
        let limit = clients.front().and_then(|oldest| {
            let left = oldest.deadline.saturating_duration_since(Instant::now());
            Timespec::try_from(left).ok()
        });
        let mut waiting = vec![
            PollFd::new(stop, PollFlags::IN),
            PollFd::new(listener, PollFlags::IN),
        ];
        let streams = clients.iter().map(|client| &client.stream);
        waiting.extend(streams.map(|stream| PollFd::new(stream, PollFlags::IN)));
        if poll(&mut waiting, limit.as_ref()).is_err() {
            continue;
        }
        if !waiting[0].revents().is_empty() {
            return;
        }
        // Clients whose request is complete get their answer before one has to make room.
        clients.retain_mut(|client| client.go_on(health));
        match listener.accept() {
            Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                if clients.len() == MAX_CLIENTS {
                    clients.pop_front();
                }
                clients.push_back(Client {
                    stream,
                    request: Vec::new(),
                    deadline: Instant::now() + MAX_DURATION,
                });
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                // No descriptors left, say: one that is given back may help, trying again at once
                // would not.
                clients.pop_front();
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    deadline: Instant,
}

impl Client {
    /// Reads what has come, up to the empty line that ends the head or to the limit, and answers
    /// then; says whether more is to come.
    fn go_on(&mut self, health: &Health) -> bool {
        let mut part = [0; 512];
        loop {
            let length = match self.stream.read(&mut part) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Instant::now() < self.deadline;
                }
                Err(_) => return false,
            };
            self.request.extend_from_slice(&part[..length]);
            let complete = self.request.windows(4).any(|end| end == b"\r\n\r\n");
            if length == 0 || complete || self.request.len() >= MAX_REQUEST_BYTES {
                // The answer fits into the kernel's buffer. A client that does not read it harms
                // only itself.
                let _ = self
                    .stream
                    .write_all(answer(&self.request, health).as_bytes());
                return false;
            }
        }
    }
}

/// The answer to a request.
fn answer(request: &[u8], health: &Health) -> String {
    let (status, text) = match request_path(request) {
        Some((method, path)) if ["GET", "HEAD"].contains(&method) => {
            let (status, text) = health.answer(path);
            (status, if method == "HEAD" { "" } else { text })
        }
        Some(_) => ("405 Method Not Allowed", "only GET and HEAD are here\n"),
        None => ("400 Bad Request", "not an HTTP/1 request\n"),
    };
    let allow = if status.starts_with("405") {
        "Allow: GET, HEAD\r\n"
    } else {
        ""
    };
    format!(
        "HTTP/1.1 {status}\r\n{allow}Content-Type: text/plain\r\nContent-Length: {}\r\nConnection: \
        close\r\n\r\n{text}",
        text.len()
    )
}

/// The method and the path without its query, if the head is complete.
fn request_path(request: &[u8]) -> Option<(&str, &str)> {
    let end = request.windows(4).position(|end| end == b"\r\n\r\n")?;
    let head = str::from_utf8(&request[..end]).ok()?;
    let mut words = head.lines().next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") {
        return None;
    }
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    Some((method, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_two_questions_are_answered() {
        let health = Health::default();
        let server = Server::start("127.0.0.1:0".parse().unwrap(), &health).unwrap();
        let status = |request: &str| ask(server.address(), request)[9..12].to_owned();
        let get = |path: &str| status(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(
            (get("/healthz"), get("/readyz")),
            ("200".into(), "503".into())
        );
        health.note(true);
        assert_eq!(
            (get("/healthz"), get("/readyz?verbose")),
            ("200".into(), "200".into())
        );
        health.note(false);
        assert_eq!(
            (get("/healthz"), get("/readyz")),
            ("200".into(), "503".into())
        );
        assert_eq!(get("/"), "404");
        assert_eq!(status("POST /readyz HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status("GET /readyz HTTP/2 x\r\n\r\n"), "400");
        assert!(ask(server.address(), "HEAD /healthz HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
    }

    #[test]
    fn without_a_first_pass_the_clock_runs_too() {
        let state = State::default();
        assert!(!state.is_stuck(state.last_pass + MAX_SILENCE));
        assert!(state.is_stuck(state.last_pass + 2 * MAX_SILENCE));
    }

    #[test]
    fn silent_and_talkative_clients_do_not_keep_others_out() {
        let server = Server::start("127.0.0.1:0".parse().unwrap(), &Health::default()).unwrap();
        let mut silent: Vec<_> = (0..2 * MAX_CLIENTS)
            .map(|_| TcpStream::connect(server.address()).unwrap())
            .collect();
        // The oldest had to make room: its connection ends, without an answer.
        assert_eq!(silent[0].read(&mut [0; 16]).unwrap_or(0), 0);
        let long = "x".repeat(MAX_REQUEST_BYTES);
        assert!(ask(server.address(), &long).starts_with("HTTP/1.1 400 "));
        assert!(
            ask(server.address(), "GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 ")
        );
        drop(silent);
    }
}
