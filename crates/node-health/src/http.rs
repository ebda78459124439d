//! A very small part of HTTP/1.1: a request for a path, and a short answer.
//!
//! A client may send [`MAX_REQUEST_BYTES`] and take [`MAX_DURATION`]. [`MAX_CLIENTS`] are served
//! at once. One more takes the place of the oldest, so silent connections keep no other client
//! out.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::Error;

/// The longest request; the kubelet's has some 150 bytes, a collector's some 400. Free to change.
pub const MAX_REQUEST_BYTES: usize = 4096;

/// How long a client may take for everything. The kubelet's own default is a second.
pub const MAX_DURATION: Duration = Duration::from_secs(2);

/// How many clients are served at once.
pub const MAX_CLIENTS: usize = 32;

/// What a path is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The code and its words.
    pub status: &'static str,
    /// What the text is.
    pub content_type: &'static str,
    /// The text.
    pub text: String,
}

impl Answer {
    /// 200.
    #[must_use]
    pub fn ok(text: String) -> Self {
        Self::of("200 OK", text)
    }

    /// 503.
    #[must_use]
    pub fn unavailable(text: String) -> Self {
        Self::of("503 Service Unavailable", text)
    }

    /// 404.
    #[must_use]
    pub fn not_found(text: &str) -> Self {
        Self::of("404 Not Found", text.into())
    }

    fn of(status: &'static str, text: String) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", text }
    }
}

/// Answers until this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers `what` on `address`, each path as `answer` says; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// [`Error::Listen`].
    pub fn start(
        what: &'static str,
        address: SocketAddr,
        answer: impl Fn(&str) -> Answer + Send + 'static,
    ) -> Result<Self, Error> {
        let start = || -> io::Result<Self> {
            let listener = TcpListener::bind(address)?;
            // A client can be gone again before it is accepted.
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
            let stopped = stop.clone();
            let work = move || serve(&listener, &stopped, &answer);
            let thread = thread::Builder::new().name(what.into()).spawn(work)?;
            Ok(Self { address, stop, thread: Some(thread) })
        };
        start().map_err(|source| Error::Listen { what, address, source })
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

fn serve(listener: &TcpListener, stop: &OwnedFd, answer: &impl Fn(&str) -> Answer) {
    // The oldest first, which is also the first to run out of time.
    let mut clients: VecDeque<Client> = VecDeque::new();
    loop {
        let limit = clients.front().and_then(|oldest| {
            let left = oldest.deadline.saturating_duration_since(Instant::now());
            Timespec::try_from(left).ok()
        });
        let mut waiting =
            vec![PollFd::new(stop, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        let streams = clients.iter().map(|client| &client.stream);
        waiting.extend(streams.map(|stream| PollFd::new(stream, PollFlags::IN)));
        if poll(&mut waiting, limit.as_ref()).is_err() {
            continue;
        }
        if !waiting[0].revents().is_empty() {
            return;
        }
        // Clients whose request is complete get their answer before one has to make room.
        clients.retain_mut(|client| client.go_on(answer));
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
    fn go_on(&mut self, answer: &impl Fn(&str) -> Answer) -> bool {
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
                self.tell(&response(&self.request, answer));
                return false;
            }
        }
    }

    /// Writes the answer. A client that does not read it holds others up until its time is over.
    fn tell(&mut self, response: &str) {
        let mut rest = response.as_bytes();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return,
                Ok(length) => rest = &rest[length..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = self.deadline.saturating_duration_since(Instant::now());
                    let limit = Timespec::try_from(left).ok();
                    let mut waiting = [PollFd::new(&self.stream, PollFlags::OUT)];
                    if left.is_zero()
                        || !poll(&mut waiting, limit.as_ref()).is_ok_and(|ready| ready > 0)
                    {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }
}

/// The answer to a request, as it goes over the wire.
fn response(request: &[u8], answer: &impl Fn(&str) -> Answer) -> String {
    let (answer, head_only) = match request_path(request) {
        Some((method @ ("GET" | "HEAD"), path)) => (answer(path), method == "HEAD"),
        Some(_) => {
            let text = "only GET and HEAD are here\n".into();
            (Answer::of("405 Method Not Allowed", text), false)
        }
        None => {
            let text = "not an HTTP/1 request\n".into();
            (Answer::of("400 Bad Request", text), false)
        }
    };
    let Answer { status, content_type, text } = answer;
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let length = text.len();
    let text = if head_only { String::new() } else { text };
    format!(
        "HTTP/1.1 {status}\r\n{allow}Content-Type: {content_type}\r\nContent-Length: \
        {length}\r\nConnection: close\r\n\r\n{text}"
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

    fn server() -> Server {
        Server::start("tests", "127.0.0.1:0".parse().unwrap(), |path| match path {
            "/long" => Answer::ok("x".repeat(4 << 20)),
            "/" => Answer::ok("ok\n".into()),
            _ => Answer::not_found("nothing\n"),
        })
        .unwrap()
    }

    fn ask(server: &Server, request: &str) -> String {
        let mut client = TcpStream::connect(server.address()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn requests_are_told_apart() {
        let server = server();
        for (request, status) in [
            ("GET /?verbose HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("GET /x HTTP/1.1\r\n\r\n", "404"),
            ("POST / HTTP/1.1\r\n\r\n", "405"),
            ("GET / HTTP/2 x\r\n\r\n", "400"),
            ("HEAD / HTTP/1.0\r\n\r\n", "200"),
        ] {
            assert_eq!(&ask(&server, request)[9..12], status, "{request}");
        }
        assert!(
            ask(&server, "HEAD / HTTP/1.1\r\n\r\n")
                .ends_with("Length: 3\r\nConnection: close\r\n\r\n")
        );
        let long = ask(&server, "GET /long HTTP/1.1\r\n\r\n");
        assert!(long.len() > 4 << 20, "{} bytes", long.len());
    }

    #[test]
    fn silent_and_talkative_clients_do_not_keep_others_out() {
        let server = server();
        let mut silent: Vec<_> =
            (0..2 * MAX_CLIENTS).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        // The oldest had to make room: its connection ends, without an answer.
        assert_eq!(silent[0].read(&mut [0; 16]).unwrap_or(0), 0);
        let long = "x".repeat(MAX_REQUEST_BYTES);
        assert!(ask(&server, &long).starts_with("HTTP/1.1 400 "));
        assert!(ask(&server, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
        drop(silent);
    }
}
