//! A proxy that opens a way for every client and keeps every byte that passes it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use crate::{Incoming, Listener, Request, lock};

/// A running proxy on a free port of 127.0.0.1, stopped when dropped. It answers `CONNECT` only.
#[derive(Debug)]
pub struct Tunnel {
    /// The port that it listens on.
    pub port: u16,
    _listener: Listener,
    record: Arc<Mutex<Record>>,
}

#[derive(Debug, Default)]
struct Record {
    targets: Vec<String>,
    bytes: Vec<u8>,
}

impl Tunnel {
    /// Starts a proxy to which every host name means this machine.
    ///
    /// # Errors
    ///
    /// Where there is no port.
    pub fn start() -> io::Result<Self> {
        Self::open(None)
    }

    /// Starts a proxy that leads every client to this port, whatever it asks for.
    ///
    /// # Errors
    ///
    /// Where there is no port.
    pub fn to(port: u16) -> io::Result<Self> {
        Self::open(Some(port))
    }

    fn open(to: Option<u16>) -> io::Result<Self> {
        let record: Arc<Mutex<Record>> = Arc::default();
        let recording = record.clone();
        let listener = Listener::start(([127, 0, 0, 1], 0).into(), move |client, _ticket| {
            // A client that leaves, or asks for something else, wants no more.
            let _ = serve(client, to, &recording);
        })?;
        Ok(Self { port: listener.address().port(), _listener: listener, record })
    }

    /// The hosts and ports that clients asked for, in order.
    #[must_use]
    pub fn targets(&self) -> Vec<String> {
        lock(&self.record).targets.clone()
    }

    /// All bytes from clients and servers, in the order in which they passed.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        lock(&self.record).bytes.clone()
    }

    /// The same as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

fn serve(mut client: TcpStream, to: Option<u16>, record: &Arc<Mutex<Record>>) -> io::Result<()> {
    let Incoming::Request(request) = Request::read(&mut client)? else {
        return Ok(());
    };
    lock(record).bytes.extend_from_slice(request.as_bytes());
    if request.method != "CONNECT" {
        return client.write_all(crate::head("405 Only CONNECT", "").as_bytes());
    }
    lock(record).targets.push(request.target.clone());
    let named = || request.target.rsplit(':').next()?.parse().ok();
    let Some(port) = to.or_else(named) else {
        return client.write_all(crate::head("400 No Port", "").as_bytes());
    };
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    client.write_all(b"HTTP/1.1 200 Open\r\n\r\n")?;
    let (mut from, mut to, recording) = (server.try_clone()?, client.try_clone()?, record.clone());
    let back = std::thread::spawn(move || pass(&mut from, &mut to, &recording));
    let _ = pass(&mut client, &mut server, record);
    let _ = back.join();
    Ok(())
}

fn pass(from: &mut TcpStream, to: &mut TcpStream, record: &Mutex<Record>) -> io::Result<()> {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        lock(record).bytes.extend_from_slice(&buffer[..count]);
        to.write_all(&buffer[..count])?;
    }
    to.shutdown(Shutdown::Write)
}
