//! One connection, with or without TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use test_http::Ticket;

use crate::action::End;

/// How often a connection that nothing is sent on is looked at.
const POLL: Duration = Duration::from_millis(10);

/// A connection that can be ended in every way.
pub(super) struct Wire {
    transport: Transport,
    ticket: Ticket,
}

enum Transport {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Wire {
    /// A connection without TLS.
    pub(super) const fn plain(stream: TcpStream, ticket: Ticket) -> Self {
        Self { transport: Transport::Plain(stream), ticket }
    }

    /// A connection with TLS, after its handshake.
    pub(super) fn tls(
        mut stream: TcpStream,
        config: &Arc<ServerConfig>,
        ticket: Ticket,
    ) -> io::Result<Self> {
        let mut connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(Self {
            transport: Transport::Tls(Box::new(StreamOwned::new(connection, stream))),
            ticket,
        })
    }

    /// Whether TLS chose HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        match &self.transport {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.conn.alpn_protocol() == Some(b"h2"),
        }
    }

    pub(super) fn tcp(&mut self) -> &mut TcpStream {
        match &mut self.transport {
            Transport::Plain(stream) => stream,
            Transport::Tls(stream) => &mut stream.sock,
        }
    }

    /// Whether the registry is being stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.ticket.is_stopped()
    }

    /// Ends the connection as a proper server does.
    pub(super) fn finish(mut self) {
        if let Transport::Tls(stream) = &mut self.transport {
            stream.conn.send_close_notify();
        }
        let _ = self.flush();
        let _ = self.tcp().shutdown(Shutdown::Write);
        // What the other side still sends must not turn the end into a reset, which could overtake
        // the answer.
        self.wait_until_gone(Duration::from_secs(1));
    }

    /// Ends the connection otherwise.
    pub(super) fn end(mut self, how: End) {
        let _ = self.flush();
        if how != End::Stall {
            // The listener's own descriptor would hold the connection open.
            self.ticket.release();
        }
        match how {
            End::Reset => {
                let at_once = Some(Duration::ZERO);
                let _ = rustix::net::sockopt::set_socket_linger(self.tcp(), at_once);
            }
            End::Close => {
                let _ = self.tcp().shutdown(Shutdown::Write);
                self.wait_until_gone(Duration::from_secs(1));
            }
            End::Stall => self.wait_until_gone(Duration::MAX),
        }
    }

    /// Waits until the other side has closed, the registry is stopped, or the time is over.
    pub(super) fn wait_until_gone(&mut self, limit: Duration) {
        let start = Instant::now();
        let tcp = self.tcp();
        if tcp.set_read_timeout(Some(POLL)).is_err() {
            return;
        }
        let mut buffer = [0; 4096];
        while start.elapsed() < limit && !self.is_stopped() {
            let read = self.tcp().read(&mut buffer);
            let kind = read.as_ref().map_err(io::Error::kind);
            match kind {
                Ok(0) => return,
                Ok(_) | Err(io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(_) => return,
            }
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.transport {
            Transport::Plain(stream) => stream.read(buffer),
            Transport::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_stopped() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match &mut self.transport {
            Transport::Plain(stream) => stream.write(bytes),
            Transport::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.transport {
            Transport::Plain(stream) => stream.flush(),
            Transport::Tls(stream) => stream.flush(),
        }
    }
}
