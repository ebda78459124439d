//! The server: one request and one answer for each connection, and a record of all requests.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::pki::Authority;
use crate::{Answer, End, Incoming, Listener, Request, head, lock};

/// A running server, stopped when dropped.
#[derive(Debug)]
pub struct Server {
    /// The port that it listens on.
    pub port: u16,
    listener: Listener,
    record: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1. With an authority it speaks TLS as `localhost`.
    ///
    /// # Panics
    ///
    /// Where there is no port, or no certificate can be made.
    #[expect(clippy::expect_used, reason = "for tests, which end there")]
    pub fn start<A: Into<Answer>>(
        authority: Option<&Authority>,
        answer: impl Fn(&Request) -> A + Send + Sync + 'static,
    ) -> Self {
        let config = authority.map(|authority| authority.server_config(&["localhost"]));
        Self::start_with(config.transpose().expect("a certificate"), answer)
    }

    /// As [`Server::start`], with a TLS configuration of the test's own.
    ///
    /// # Panics
    ///
    /// Where there is no port.
    #[expect(clippy::expect_used, reason = "for tests, which end there")]
    pub fn start_with<A: Into<Answer>>(
        tls: Option<ServerConfig>,
        answer: impl Fn(&Request) -> A + Send + Sync + 'static,
    ) -> Self {
        Self::listen(([127, 0, 0, 1], 0).into(), tls, answer).expect("a free port")
    }

    /// As [`Server::start`], always with the same answer and without TLS.
    ///
    /// # Panics
    ///
    /// Where there is no port.
    #[must_use]
    pub fn always(answer: impl Into<Answer>) -> Self {
        let answer = answer.into();
        Self::start(None, move |_| answer.clone())
    }

    /// Starts a server on an address of this machine.
    ///
    /// # Errors
    ///
    /// Where the address cannot be listened on.
    pub fn listen<A: Into<Answer>>(
        address: SocketAddr,
        tls: Option<ServerConfig>,
        answer: impl Fn(&Request) -> A + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let record: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (recording, tls) = (record.clone(), tls.map(Arc::new));
        let listener = Listener::start(address, move |stream, _ticket| {
            // A client that leaves has had its answer, or wants none.
            let _ = serve(stream, tls.clone(), &|request| answer(request).into(), &recording);
        })?;
        Ok(Self { port: listener.address().port(), listener, record })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Every request so far. The text of one is `TLS` where a client began a TLS handshake that
    /// was not expected; such a client is answered with status 400.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.record).clone()
    }

    /// The text of all requests so far, one after another.
    #[must_use]
    pub fn transcript(&self) -> String {
        lock(&self.record).iter().map(|request| &**request).collect()
    }
}

fn serve(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    answer: &dyn Fn(&Request) -> Answer,
    record: &Mutex<Vec<Request>>,
) -> io::Result<()> {
    let Some(config) = tls else {
        return exchange(&mut &stream, |_| None, answer, record);
    };
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    exchange(&mut stream, shown, answer, record)?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// The certificate that a client has shown.
fn shown(stream: &StreamOwned<ServerConnection, TcpStream>) -> Option<Vec<u8>> {
    let certificates = stream.conn.peer_certificates()?;
    certificates.first().map(|first| first.to_vec())
}

fn exchange<S: Read + Write>(
    stream: &mut S,
    client: impl Fn(&S) -> Option<Vec<u8>>,
    answer: &dyn Fn(&Request) -> Answer,
    record: &Mutex<Vec<Request>>,
) -> io::Result<()> {
    let (mut request, answer) = match Request::read(stream)? {
        Incoming::Nothing => return Ok(()),
        Incoming::Handshake => (Request::handshake(), head("400 Bad Request", "").into()),
        Incoming::Request(mut request) => {
            request.client = client(stream);
            let answer = answer(&request);
            (request, answer)
        }
    };
    request.status = answer.status();
    // Recorded before it is answered: a client that has its answer finds the request here.
    lock(record).push(request);
    stream.write_all(&answer.bytes)?;
    stream.flush()?;
    match answer.end {
        End::Close => Ok(()),
        End::Silence => stream.read(&mut [0]).map(drop),
        End::Flood => loop {
            stream.write_all(&[b'a'; 1 << 16])?;
        },
    }
}
